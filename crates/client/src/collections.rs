//! What a server serves, asked once and remembered, and its resources as [`Collections`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skopos_object::{Collection, CollectionName, Collections, GroupVersionKind, OpenError};
use tokio::time::Instant;

use crate::catalog::Found;
use crate::{Api, Call, Catalog, Client, Error, Resource, discover};

/// Remembers what a server serves. Cheap to clone; clones share what they know.
///
/// It asks again when a name is not known, at most once per interval however many are waiting, and never says that
/// something is missing because of what it knew before it was asked.
///
/// ```no_run
/// # async fn example(client: skopos_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use skopos_client::Discovery;
/// use skopos_object::{CollectionName, Collections as _};
///
/// let discovery = Discovery::new(&client);
/// let apps = discovery.open(&CollectionName::new("myapps.example.com", "applications")).await?;
/// println!("{} is served", apps.kind);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Discovery {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    interval: Duration,
    /// Held while the server is asked. Taken before `known`, which is never held for long.
    asking: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    catalog: Option<Arc<Catalog>>,
    /// How many questions were begun.
    n_asked: u64,
    /// The last one that was answered.
    last: Option<Asked>,
}

#[derive(Debug, Clone)]
struct Asked {
    number: u64,
    when: Instant,
    answer: Result<Arc<Catalog>, Arc<Error>>,
}

/// The least time from one question to the next.
const INTERVAL: Duration = Duration::from_secs(1);

impl Discovery {
    /// Knows nothing yet, and asks at most once a second.
    pub fn new(client: &Client) -> Self {
        Self::with_interval(client, INTERVAL)
    }

    /// Knows nothing yet, and asks at most once per `interval`.
    pub fn with_interval(client: &Client, interval: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                client: client.clone(),
                interval,
                asking: tokio::sync::Mutex::default(),
                known: Mutex::default(),
            }),
        }
    }

    /// Returns what is known. Asks only if nothing is.
    pub async fn catalog(&self) -> Result<Arc<Catalog>, Arc<Error>> {
        if let Some(catalog) = self.shared.catalog() {
            return Ok(catalog);
        }
        // The answer to a question that is under way will do.
        let answered = self.shared.known().last.as_ref().map_or(0, |last| last.number);
        self.shared.asked_after(answered).await
    }

    /// Returns what the server answers from now on. Waits if it was asked only just before.
    pub async fn refreshed(&self) -> Result<Arc<Catalog>, Arc<Error>> {
        let n_asked = self.shared.known().n_asked;
        self.shared.asked_after(n_asked).await
    }

    /// Finds a resource by a user's word, with or without group and version; see [`Catalog::resolve`].
    pub async fn resolve(&self, word: &str) -> Result<Resource, OpenError> {
        let known = self.catalog().await.map_err(unavailable)?;
        if let Ok(resolved) = known.resolve(word) {
            return Ok(resolved.resource.clone());
        }
        let catalog = self.refreshed().await.map_err(unavailable)?;
        match catalog.resolve(word) {
            Ok(resolved) => Ok(resolved.resource.clone()),
            Err(_) if !catalog.failures.is_empty() => Err(unavailable(catalog.failures[0].clone())),
            Err(unknown) => Err(OpenError::Missing(unknown.to_string())),
        }
    }

    /// Finds the resource that holds objects of this kind.
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<Resource, OpenError> {
        let known = self.catalog().await.map_err(unavailable)?;
        if let Some(resource) = known.by_kind(kind) {
            return Ok(resource.clone());
        }
        let fresh = self.refreshed().await.map_err(unavailable)?;
        if let Some(resource) = fresh.by_kind(kind) {
            return Ok(resource.clone());
        }
        let away = fresh.failures.iter().find(|failure| failure.group == kind.group);
        match away {
            Some(failure) => Err(unavailable(failure.clone())),
            None => Err(OpenError::Missing(format!(
                "{} ({})",
                kind.kind,
                kind.api_version()
            ))),
        }
    }

    async fn find(&self, name: &CollectionName) -> Result<Resource, OpenError> {
        let known = self.catalog().await.map_err(unavailable)?;
        match find(&known, name) {
            Found::One(resource) => return Ok(resource.clone()),
            Found::Several(text) => return Err(OpenError::Ambiguous(text)),
            Found::None => {}
        }
        self.find_now(name).await
    }

    async fn find_now(&self, name: &CollectionName) -> Result<Resource, OpenError> {
        let fresh = self.refreshed().await.map_err(unavailable)?;
        match find(&fresh, name) {
            Found::One(resource) => Ok(resource.clone()),
            Found::Several(text) => Err(OpenError::Ambiguous(text)),
            Found::None => Err(self.absent(&fresh, name).await),
        }
    }

    /// A group that did not answer, or that is not listed, is not a kind that was deleted.
    async fn absent(&self, catalog: &Catalog, name: &CollectionName) -> OpenError {
        let failure = catalog.failures.iter().find(|failure| {
            let version = name.version.as_ref();
            failure.group == name.group && version.is_none_or(|version| *version == failure.version)
        });
        if let Some(failure) = failure {
            return unavailable(failure.clone());
        }
        if name.group.is_empty() || catalog.resources.iter().any(|r| r.group == name.group) {
            return OpenError::Missing(name.to_string());
        }
        let group = format!("/apis/{}", crate::resource::escape(&name.group));
        match self.shared.client.call(&Call::get(group)).await {
            Err(error) if error.is_not_found() => OpenError::Missing(name.to_string()),
            Err(error) => unavailable(error),
            Ok(_) => unavailable(NotListed(name.group.clone())),
        }
    }

    fn collection(&self, name: &CollectionName, resource: Resource) -> Collection {
        let client = &self.shared.client;
        let api = match &name.namespace {
            Some(namespace) => Api::namespaced(client, &resource, namespace),
            None => Api::all(client, &resource),
        };
        Collection {
            kind: resource.gvk(),
            namespaced: resource.namespaced,
            plural: resource.plural,
            singular: resource.singular,
            short_names: resource.short_names,
            source: Arc::new(api.with_content(name.content)),
        }
    }
}

impl Collections for Discovery {
    fn open<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        async { Ok(self.collection(name, self.find(name).await?)) }.boxed()
    }

    fn reopen<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        async { Ok(self.collection(name, self.find_now(name).await?)) }.boxed()
    }
}

/// The group exists, but the overview does not say so (yet).
#[derive(Debug, thiserror::Error)]
#[error("group {0} is served but not listed by discovery")]
struct NotListed(String);

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> OpenError {
    OpenError::Unavailable(error.into())
}

fn find<'a>(catalog: &'a Catalog, name: &CollectionName) -> Found<'a> {
    catalog.find(&name.group, name.version.as_deref(), &name.resource)
}

impl Shared {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalog(&self) -> Option<Arc<Catalog>> {
        self.known().catalog.clone()
    }

    /// Returns an answer to a question that was asked after the first so many, whoever asked it.
    async fn asked_after(&self, n_asked: u64) -> Result<Arc<Catalog>, Arc<Error>> {
        let _turn = self.asking.lock().await;
        let last = self.known().last.clone();
        match last {
            Some(last) if last.number > n_asked => return last.answer,
            Some(last) => tokio::time::sleep_until(last.when + self.interval).await,
            None => {}
        }
        let when = Instant::now();
        let number = {
            let mut known = self.known();
            // Counted before it is asked: who comes while the answer is under way wants a newer one.
            known.n_asked += 1;
            known.n_asked
        };
        let answer = discover(&self.client).await.map(Arc::new).map_err(Arc::new);
        let mut known = self.known();
        if let Ok(catalog) = &answer {
            known.catalog = Some(Arc::clone(catalog));
        }
        known.last = Some(Asked {
            number,
            when,
            answer: answer.clone(),
        });
        answer
    }
}
