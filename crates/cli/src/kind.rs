//! Whether the kind of a watch is served, and as what.

use std::sync::Arc;
use std::time::Duration;

use skopos_client::{Api, Catalog, Client, Resource, discover};
use skopos_informer::{Reflector, ReflectorConfig, ReflectorError, Report, Selection};
use skopos_object::{Content, FieldSelector, GroupVersionKind};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::live_source::LiveSource;
use crate::names::resolve;

/// What the server says of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Served, perhaps in another version than before.
    As(Box<Resource>),
    /// Certainly not served.
    Not,
    /// It cannot be known now.
    Unknown,
}

/// Asks anew what became of a resource that was found by `word`.
pub(crate) async fn look(client: &Client, resource: &Resource, word: &str) -> Served {
    match discover(client).await {
        Ok(catalog) => served(&catalog, resource, word),
        Err(_) => Served::Unknown,
    }
}

/// Waits until `word` means something that the server has.
pub(crate) async fn wait_for(connection: &Connection, word: &str) -> (Client, Resource) {
    let mut pauses = Pauses::default();
    loop {
        // Everything anew, for the server may be another one by now, with other credentials.
        let found: Result<_, Failure> = async {
            let client = connection.client().await?;
            let catalog = discover(&client).await?;
            let resource = resolve(&catalog, word)?.clone();
            Ok((client, resource))
        }
        .await;
        if let Ok(found) = found {
            return found;
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

/// Waits until the same resource is served again.
pub(crate) async fn wait_for_again(
    connection: &Connection,
    resource: &Resource,
    word: &str,
) -> (Client, Resource) {
    let mut pauses = Pauses::default();
    loop {
        tokio::time::sleep(pauses.next()).await;
        if let Ok(client) = connection.client().await
            && let Served::As(found) = look(&client, resource, word).await
        {
            return (client, *found);
        }
    }
}

/// The definition of a custom resource, followed because some servers leave the watch of a deleted kind open.
#[derive(Debug)]
pub(crate) struct Definition {
    source: Arc<LiveSource>,
    reflector: Reflector,
    /// Nothing more will be heard, because definitions may not be read.
    refused: bool,
}

impl Definition {
    /// Begins to follow the definition of a resource; built-in ones have none.
    pub(crate) async fn of(connection: &Connection, client: &Client, resource: &Resource) -> Option<Self> {
        if !resource.group.contains('.') || resource.group.ends_with(".k8s.io") {
            return None;
        }
        let gvk = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definitions = Resource::known(&gvk, "customresourcedefinitions", false);
        let api = Api::all(client, &definitions).with_content(Content::Metadata);
        let source = Arc::new(LiveSource::new(connection.clone(), api));
        let name = format!("metadata.name={}", resource.group_resource());
        let selection = Selection {
            fields: FieldSelector::parse(&name).ok()?,
            ..Selection::default()
        };
        let config = ReflectorConfig {
            selection,
            ..ReflectorConfig::default()
        };
        Some(Self {
            reflector: Reflector::new(source.clone(), config),
            source,
            refused: false,
        })
    }

    /// Waits until it is deleted.
    pub(crate) async fn deleted(&mut self) {
        while !self.refused {
            for report in self.reflector.next().await {
                match report {
                    Report::Deleted(_) => return,
                    Report::Trouble {
                        error: ReflectorError::List(error) | ReflectorError::Watch(error),
                        ..
                    } if error.status().is_some_and(|status| status.code == 403) => self.refused = true,
                    Report::Trouble { .. } => self.source.doubt(),
                    _ => {}
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

fn served(catalog: &Catalog, before: &Resource, word: &str) -> Served {
    let name = before.group_resource();
    let same = |word: &str| {
        let found = catalog.resolve(word).ok()?.resource;
        (found.group_resource() == name).then(|| found.clone())
    };
    // The word first, for it may name a version; but a short one may mean something else by now.
    let by_name = || same(&name.to_string()).filter(|_| !word.contains('.'));
    match same(word).or_else(by_name) {
        Some(found) => Served::As(Box::new(found)),
        None if catalog
            .failures
            .iter()
            .any(|failure| failure.group == before.group) =>
        {
            Served::Unknown
        }
        None => Served::Not,
    }
}

/// Pauses between questions: short at first, for a kind is often re-created at once.
#[derive(Debug, Default)]
struct Pauses(u32);

impl Pauses {
    fn next(&mut self) -> Duration {
        self.0 = (self.0 + 1).min(10);
        Duration::from_millis(500) * self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skopos_client::GroupFailure;

    fn apps(version: &str, group: &str) -> Resource {
        let gvk = GroupVersionKind::new(group, version, "Application");
        Resource {
            short_names: vec!["app".to_owned()],
            ..Resource::known(&gvk, "applications", true)
        }
    }

    fn check(served_now: &[Resource], word: &str, expect: &Served) {
        let catalog = Catalog {
            resources: served_now.to_vec(),
            ..Catalog::default()
        };
        assert_eq!(&served(&catalog, &apps("v1", "a.io"), word), expect, "{word}");
    }

    #[test]
    fn same_name_in_another_version_is_the_same_kind() {
        let v2 = apps("v2", "a.io");
        check(
            std::slice::from_ref(&v2),
            "app",
            &Served::As(Box::new(v2.clone())),
        );
        check(&[v2], "applications.v1.a.io", &Served::Not);
    }

    #[test]
    fn same_word_for_another_kind_is_not() {
        let other = apps("v1", "b.io");
        check(std::slice::from_ref(&other), "app", &Served::Not);
        let ours = apps("v1", "a.io");
        check(&[other, ours.clone()], "app", &Served::As(Box::new(ours)));
    }

    #[test]
    fn group_that_is_away_says_nothing() {
        let catalog = Catalog {
            failures: vec![GroupFailure {
                group: "a.io".into(),
                version: "v1".into(),
                reason: "away".into(),
            }],
            ..Catalog::default()
        };
        assert_eq!(served(&catalog, &apps("v1", "a.io"), "app"), Served::Unknown);
    }
}
