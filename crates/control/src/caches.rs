//! Our own kinds and the definitions, as the server has them.

use std::{sync::Arc, time::Duration};

use skopos_controller::Manager;
use skopos_informer::{Informer, Subscription, Wanted};
use skopos_object::{CollectionName, Collections, ListRequest, Object, OpenError};
use tokio::time::Instant;

use crate::{Kinds, kinds::given, planner::chain};

/// Our own kinds and the definitions, as the server has them.
pub(crate) struct Caches {
    /// Rules, sinks and records, of each namespace; nothing if those of the cluster do not count.
    ours: Option<[Vec<Cache>; 3]>,
    /// None where only namespaces are looked at: definitions are in none.
    definitions: Option<Cache>,
    collections: Arc<dyn Collections>,
}

struct Cache {
    name: CollectionName,
    informer: Informer,
}

const OURS: [&str; 3] = ["rules.skopos.dev", "sinks.skopos.dev", "records.skopos.dev"];
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// How long to wait before what is not known is looked at again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest such pause. A cache that is complete ends it.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// What takes so long has to do with somebody who can help.
const WORTH_A_WARNING: Duration = Duration::from_secs(1);

impl Caches {
    pub(crate) fn new(
        manager: &Manager,
        collections: Arc<dyn Collections>,
        from_cluster: bool,
        namespaces: &[String],
    ) -> Self {
        let cache = |wanted: Wanted| Cache {
            name: match wanted.namespaces.first() {
                Some(namespace) => wanted.name.clone().within(namespace.as_str()),
                None => wanted.name.clone(),
            },
            informer: manager.informers().informer(wanted),
        };
        let ours = |name: &str| {
            scopes(namespaces)
                .map(|scope| cache(wanted(name, scope)))
                .collect()
        };
        Self {
            ours: from_cluster.then(|| OURS.map(ours)),
            definitions: namespaces.is_empty().then(|| cache(DEFINITIONS.into())),
            collections,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Cache> {
        self.ours.iter().flatten().flatten().chain(&self.definitions)
    }

    /// Waits until everything is known that is served, and what is not served certainly is not: a server that is away
    /// has rules all the same. Says meanwhile what is waited for, and why.
    pub(crate) async fn ready(&self, tell: impl Fn(&str)) {
        let (mut pause, began) = (FIRST_PAUSE, Instant::now());
        let mut warned = String::new();
        loop {
            let waiting = self.unknown().await;
            if waiting.is_empty() {
                return;
            }
            let waiting = waiting.join(", ");
            tell(&waiting);
            if began.elapsed() >= WORTH_A_WARNING && waiting != warned {
                tracing::warn!(waiting, "nothing is planned yet: our own kinds are not known");
                warned.clone_from(&waiting);
            }
            self.wait(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until all are complete, but no longer than this.
    async fn wait(&self, pause: Duration) {
        let complete = async {
            for cache in self.all() {
                if cache.informer.synced().await.is_err() {
                    // Stopped: it never will be.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(pause, complete).await.ok();
    }

    /// What is not known yet, and why.
    async fn unknown(&self) -> Vec<String> {
        // At once, since who asks what is served at the same time shares the answer, and a server that is away takes long.
        let asked = self.all().map(async |cache| {
            let why = self.why_unknown(cache).await?;
            Some(format!("{} ({why})", cache.name))
        });
        let said = futures_util::future::join_all(asked).await;
        said.into_iter().flatten().collect()
    }

    async fn why_unknown(&self, cache: &Cache) -> Option<String> {
        let report = cache.informer.report();
        match report.not_served {
            Some(why) => match self.collections.reopen(&cache.name).await {
                Err(OpenError::Missing(_)) if !self.is_defined(cache) => None,
                Err(OpenError::Missing(_)) | Ok(_) => Some(why),
                Err(error) => Some(chain(&error)),
            },
            None if report.synced => None,
            None if report.troubles > 0 => Some(self.trouble(cache).await),
            None => Some("it is being read".to_owned()),
        }
    }

    /// What the server says to who asks for one object: the informer only counts its failures.
    async fn trouble(&self, cache: &Cache) -> String {
        let one = ListRequest {
            limit: Some(1),
            ..ListRequest::default()
        };
        let opened = match self.collections.open(&cache.name).await {
            Ok(opened) => opened,
            Err(error) => return chain(&error),
        };
        match opened.source.list(one).await {
            Ok(_) => "it is being read".to_owned(),
            Err(error) => chain(&error),
        }
    }

    /// Whether what the caches show is what there is. If not, a plan would leave things out that are there.
    pub(crate) fn is_settled(&self) -> bool {
        self.all().all(|cache| {
            let report = cache.informer.report();
            match report.not_served {
                Some(_) => !self.is_defined(cache),
                None => report.synced,
            }
        })
    }

    /// Whether there is a definition in force of the kind, so that there may be objects, whatever is said of it now.
    fn is_defined(&self, cache: &Cache) -> bool {
        let name = format!("{}.{}", cache.name.resource, cache.name.group);
        let definitions = self.definitions.as_ref();
        let definition = definitions.and_then(|one| one.informer.store().get("", &name));
        let conditions = definition.and_then(|one| one.get(&["status", "conditions"]));
        let conditions = conditions.as_ref().and_then(|all| all.as_array());
        let is_established =
            |one: &serde_json::Value| one["type"] == "Established" && one["status"] == "True";
        conditions.is_some_and(|all| all.iter().any(is_established))
    }

    pub(crate) fn subscriptions(&self) -> Vec<Subscription> {
        self.all().map(|one| one.informer.subscribe()).collect()
    }

    pub(crate) fn kinds(&self) -> Kinds {
        let Some([rules, sinks, records]) = &self.ours else {
            return Kinds::default();
        };
        Kinds {
            rules: given(&all_of(rules)),
            sinks: given(&all_of(sinks)),
            records: given(&all_of(records)),
            ..Kinds::default()
        }
    }

    pub(crate) fn definitions(&self) -> Vec<Object> {
        let definitions = self.definitions.as_ref();
        definitions
            .map(|one| one.informer.store().list())
            .unwrap_or_default()
    }
}

/// The objects of several caches.
fn all_of(caches: &[Cache]) -> Vec<Object> {
    caches
        .iter()
        .flat_map(|one| one.informer.store().list())
        .collect()
}

/// Each namespace by itself; nothing, which means all, if there are none. One cache of several would be as old as the
/// oldest of them, and a controller waits after each write until its cache is as new.
pub(crate) fn scopes(namespaces: &[String]) -> impl Iterator<Item = &[String]> {
    let all: &[String] = &[];
    let each = namespaces.chunks(1);
    each.chain(namespaces.is_empty().then_some(all))
}

/// Our own objects, in the namespaces that are looked at.
pub(crate) fn wanted(name: &str, namespaces: &[String]) -> Wanted {
    Wanted {
        namespaces: namespaces.to_vec(),
        ..name.into()
    }
}
