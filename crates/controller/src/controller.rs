//! Describing a controller: what it is for, what it listens to, what it does.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use skopos_client::{Client, from_object};
use skopos_informer::Wanted;
use skopos_object::{CollectionName, Object, ObjectKey};

use crate::source::{Concerns, Source};
use crate::{Action, Context, Failure, Predicate};

/// What is done for an object.
pub(crate) type Reconcile = Arc<dyn Fn(Context) -> BoxFuture<'static, Result<Action, Failure>> + Send + Sync>;
/// What is done when an object is gone.
pub(crate) type Gone =
    Arc<dyn Fn(ObjectKey, Client) -> BoxFuture<'static, Result<Action, Failure>> + Send + Sync>;

/// A controller, ready to be given to a [`Manager`](crate::Manager).
///
/// ```
/// use skopos_controller::{Action, Context, Controller, Failure};
/// use skopos_object::Object;
///
/// async fn reconcile(app: Object, context: Context) -> Result<Action, Failure> {
///     let name = app.name();
///     context
///         .apply_owned(&serde_json::json!({
///             "apiVersion": "v1", "kind": "ConfigMap",
///             "metadata": {"name": format!("{name}-settings")},
///             "data": {"colour": "blue"},
///         }))
///         .await?;
///     Ok(Action::Done)
/// }
///
/// let controller = Controller::for_("apps.example.com").owns("configmaps").reconcile(reconcile);
/// assert_eq!(controller.name(), "apps.example.com");
/// ```
#[derive(Clone)]
pub struct Controller {
    pub(crate) name: String,
    pub(crate) primary: Source,
    pub(crate) others: Vec<Source>,
    pub(crate) config: ControllerConfig,
    pub(crate) finalizer: Option<(String, Reconcile)>,
    pub(crate) gone: Option<Gone>,
    pub(crate) reconcile: Reconcile,
}

/// How a controller works. The defaults suit most.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// How many objects are reconciled at once, at most (default 8). Never the same one twice.
    pub concurrency: usize,
    /// How long one reconcile may take (default 5 min); then it is cancelled and tried again.
    pub timeout: Duration,
    /// Who owns the fields that are written (default: the controller's name).
    pub field_manager: Option<String>,
    /// Whether objects that are being deleted are reconciled as well (default: no). With
    /// [`finalizer`](Builder::finalizer) there is no need to.
    pub deleting: bool,
    /// How long a reconcile waits for the caches to show what the one before wrote (default 1 min). Then it goes on
    /// with what they show.
    pub cache_patience: Duration,
    /// Whether an object that is given up, because it failed for good or too often, gets an Event that says why (default:
    /// yes). Needs the right to create and patch `events` of `events.k8s.io`.
    pub failure_events: bool,
    /// How the queue behaves: retries, priorities, limits. Its name and tenants are the controller's to set.
    pub queue: skopos_queue::Config<ObjectKey>,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            concurrency: 8,
            timeout: Duration::from_secs(300),
            field_manager: None,
            deleting: false,
            cache_patience: Duration::from_secs(60),
            failure_events: true,
            queue: skopos_queue::Config::default(),
        }
    }
}

impl Controller {
    /// Begins a controller for a kind, by `plural.group`, a [`CollectionName`] or a [`Wanted`] part of it.
    ///
    /// The kind need not exist yet.
    pub fn for_(kind: impl Into<Wanted>) -> Builder {
        let wanted = kind.into();
        Builder {
            name: CollectionName::new(wanted.name.group.clone(), wanted.name.resource.clone()).to_string(),
            sources: vec![Source {
                wanted,
                concerns: Concerns::Itself,
                predicate: Predicate::beyond_status(),
            }],
            config: ControllerConfig::default(),
            finalizer: None,
            gone: None,
        }
    }

    /// Begins a controller for the kind of a type, in the type's version.
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Builder {
        Self::for_(wanted::<K>())
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What is wanted to follow the objects of a type, in the type's version.
pub fn wanted<K: kube::Resource<DynamicType = ()>>() -> Wanted {
    let name = CollectionName {
        version: Some(K::version(&()).into_owned()),
        ..CollectionName::new(K::group(&()), K::plural(&()))
    };
    name.into()
}

/// A controller being described.
#[derive(Clone)]
#[must_use = "a controller does nothing before it is given something to do and a manager to run it"]
pub struct Builder {
    name: String,
    /// The first is what the controller is for.
    sources: Vec<Source>,
    config: ControllerConfig,
    finalizer: Option<(String, Reconcile)>,
    gone: Option<Gone>,
}

impl Builder {
    /// Gives it another name than its kind's, in logs and metrics and as field manager.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Says how it works.
    pub fn with(mut self, config: ControllerConfig) -> Self {
        self.config = config;
        self
    }

    /// Listens to a kind that it makes: a change of such an object concerns the one that controls it.
    pub fn owns(self, kind: impl Into<Wanted>) -> Self {
        self.hears(kind.into(), Concerns::Controller)
    }

    /// Listens to a related kind: a change of such an object concerns those that `map` names, both for the object
    /// before the change and after.
    pub fn watches(
        self,
        kind: impl Into<Wanted>,
        map: impl Fn(&Object) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.hears(
            kind.into(),
            Concerns::Named(Arc::new(move |object| Ok(map(object)))),
        )
    }

    /// Listens to a related kind, read as a type: [`wanted::<K>()`](wanted) names the kind of one. A state that does not
    /// fit the type concerns nobody; that is logged as an error and counted, and the next change is heard.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Secret;
    /// # use skopos_controller::{Action, Context, Controller, Failure, wanted};
    /// # use skopos_object::{Object, ObjectKey};
    /// # async fn reconcile(_: Object, _: Context) -> Result<Action, Failure> { Ok(Action::Done) }
    /// let controller = Controller::for_("apps.example.com")
    ///     .watches_as(wanted::<Secret>(), |secret: &Secret| {
    ///         let labels = secret.metadata.labels.iter().flatten();
    ///         let apps = labels.filter(|(label, _)| *label == "app");
    ///         let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    ///         apps.map(|(_, app)| ObjectKey::namespaced(namespace, app)).collect()
    ///     })
    ///     .reconcile(reconcile);
    /// ```
    pub fn watches_as<K: DeserializeOwned>(
        self,
        kind: impl Into<Wanted>,
        map: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let map = move |object: &Object| match from_object(object) {
            Ok(object) => Ok(map(&object)),
            Err(error) => Err(error.to_string()),
        };
        self.hears(kind.into(), Concerns::Named(Arc::new(map)))
    }

    fn hears(mut self, wanted: Wanted, concerns: Concerns) -> Self {
        self.sources.push(Source {
            wanted,
            concerns,
            predicate: Predicate::any(),
        });
        self
    }

    /// Says which changes count, of the kind named last. That an object of the kind that the controller is for begins to
    /// be deleted always counts.
    pub fn when(mut self, predicate: Predicate) -> Self {
        if let Some(last) = self.sources.last_mut() {
            last.predicate = predicate;
        }
        self
    }

    /// Cleans up before an object goes.
    ///
    /// The finalizer is on the object before anything is done for it. When the object is to be deleted, `clean_up` is
    /// called instead of the reconcile, until it is [`Done`](Action::Done); then the finalizer is removed. It may be
    /// called more than once: what is gone already is no error.
    pub fn finalizer<F>(
        mut self,
        name: impl Into<String>,
        clean_up: impl Fn(Object, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        self.finalizer = Some((name.into(), untyped(clean_up)));
        self
    }

    /// Cleans up before an object goes, as [`finalizer`](Self::finalizer) does, with the object read as a type. One that
    /// does not fit the type fails for good, and stays until it changes: leave out of the type what the cleaning up does
    /// not need.
    pub fn finalizer_as<K, F>(
        mut self,
        name: impl Into<String>,
        clean_up: impl Fn(K, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        K: DeserializeOwned,
        F: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        self.finalizer = Some((name.into(), typed(clean_up)));
        self
    }

    /// Does something when an object is gone, if it can be done without the object. To undo what was done
    /// outside, use a [`finalizer`](Self::finalizer): it also works when nobody was there to see it go.
    ///
    /// Called for objects of the controller's own kind that were there and went, if that counts ([`when`](Self::when)),
    /// until it is [`Done`](Action::Done) or the object is there again. One that leaves what the controller selects by labels
    /// or fields has gone from there, although it exists. A name that others refer to and nobody has was never there.
    pub fn when_gone<F>(mut self, act: impl Fn(ObjectKey, Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        self.gone = Some(Arc::new(move |key, client| act(key, client).boxed()));
        self
    }

    /// Says what is done for an object: to bring about what it asks for, whatever happened before.
    pub fn reconcile<F>(self, reconcile: impl Fn(Object, Context) -> F + Send + Sync + 'static) -> Controller
    where
        F: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        self.finish(untyped(reconcile))
    }

    /// Says what is done for an object, read as a type. One that does not fit the type fails for good, until it
    /// changes.
    pub fn reconcile_as<K, F>(self, reconcile: impl Fn(K, Context) -> F + Send + Sync + 'static) -> Controller
    where
        K: DeserializeOwned,
        F: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        self.finish(typed(reconcile))
    }

    fn finish(mut self, reconcile: Reconcile) -> Controller {
        let primary = self.sources.remove(0);
        self.config.queue.name.clone_from(&self.name);
        self.config.queue.tenant = |key: &ObjectKey| &key.namespace;
        self.config.concurrency = self.config.concurrency.max(1);
        Controller {
            name: self.name,
            primary,
            others: self.sources,
            config: self.config,
            finalizer: self.finalizer,
            gone: self.gone,
            reconcile,
        }
    }
}

fn untyped<F>(act: impl Fn(Object, Context) -> F + Send + Sync + 'static) -> Reconcile
where
    F: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    Arc::new(move |context: Context| act(context.object().clone(), context).boxed())
}

/// An object that does not fit the type fails for good.
fn typed<K, F>(act: impl Fn(K, Context) -> F + Send + Sync + 'static) -> Reconcile
where
    K: DeserializeOwned,
    F: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    Arc::new(move |context: Context| match from_object(context.object()) {
        Ok(object) => act(object, context).boxed(),
        Err(error) => std::future::ready(Err(Failure::terminal(error))).boxed(),
    })
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("primary", &self.primary)
            .field("others", &self.others)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}
