//! Brings one object to the state that a manifest describes.

use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::{Answer, Api, Catalog, Client, Error, Patch, Resource, WriteParams, discover};
use skopos_object::{GroupVersion, GroupVersionKind};

use crate::failure::Failure;
use crate::merge::{last_applied, three_way, with_last_applied};
use crate::terminal;

/// How long a new CustomResourceDefinition may take until its objects can be written.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const ESTABLISH_POLL: Duration = Duration::from_millis(50);
/// After this long the user is told what is being waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Applies objects one after the other over one connection.
#[derive(Debug)]
pub(crate) struct Applier {
    client: Client,
    catalog: Catalog,
    /// Where objects go that name no namespace.
    namespace: String,
    params: WriteParams,
    /// Definitions applied by us, whose objects may need a moment.
    fresh: Vec<FreshKind>,
}

/// A kind whose definition was just applied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FreshKind {
    group: String,
    kind: String,
}

/// What applying an object came to.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) outcome: Outcome,
    pub(crate) resource: Resource,
    pub(crate) object: Value,
}

/// See [`Applied`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Created,
    Configured,
    Unchanged,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

impl Applier {
    pub(crate) fn new(client: Client, catalog: Catalog, namespace: String, params: WriteParams) -> Self {
        Self {
            client,
            catalog,
            namespace,
            params,
            fresh: Vec::new(),
        }
    }

    /// Applies one object, waiting for its definition if that was applied just before.
    pub(crate) async fn apply(&mut self, object: &Value) -> Result<Applied, Failure> {
        let resource = self.resource(object).await?;
        let api = self.api(&resource, object)?;
        let applied = self.write(&api, &self.placed(&resource, object)).await?;
        if is_definition(&resource) {
            self.establish(&api, &applied.object).await?;
        }
        Ok(applied)
    }

    fn api(&self, resource: &Resource, object: &Value) -> Result<Api, Failure> {
        let own = object["metadata"]["namespace"].as_str();
        if own.is_some() && !resource.namespaced {
            let text = format!(
                "{} is cluster-scoped, but metadata.namespace is set",
                resource.kind
            );
            return Err(Failure::failed(text).hint("remove metadata.namespace"));
        }
        Ok(Api::namespaced(
            &self.client,
            resource,
            own.unwrap_or(&self.namespace),
        ))
    }

    /// The object with its namespace written out, as kubectl remembers it.
    fn placed(&self, resource: &Resource, object: &Value) -> Value {
        let mut placed = object.clone();
        if resource.namespaced && placed["metadata"]["namespace"].is_null() {
            placed["metadata"]["namespace"] = Value::String(self.namespace.clone());
        }
        placed
    }

    async fn resource(&mut self, object: &Value) -> Result<Resource, Failure> {
        let gvk = gvk(object)?;
        if let Some(resource) = self.catalog.by_kind(&gvk) {
            return Ok(resource.clone());
        }
        // The kind may have been installed since we asked.
        self.catalog = discover(&self.client).await?;
        match self.catalog.by_kind(&gvk) {
            Some(resource) => Ok(resource.clone()),
            None => Err(self.no_such_kind(&gvk)),
        }
    }

    fn no_such_kind(&self, gvk: &GroupVersionKind) -> Failure {
        let text = format!(
            "no matches for kind \"{}\" in version \"{}\"",
            gvk.kind,
            gvk.api_version()
        );
        let versions: Vec<String> = self
            .catalog
            .resources
            .iter()
            .filter(|r| r.kind == gvk.kind && (r.group == gvk.group || !gvk.group.contains('.')))
            .map(Resource::api_version)
            .collect();
        match versions.as_slice() {
            [] => Failure::failed(text).hint("apply its CustomResourceDefinition first, or in the same call"),
            known => Failure::failed(text).hint(format!("the server has it as {}", known.join(", "))),
        }
    }

    async fn write(&self, api: &Api, object: &Value) -> Result<Applied, Failure> {
        let fresh = self.is_fresh(api.resource());
        let deadline = tokio::time::Instant::now() + ESTABLISH_TIMEOUT;
        loop {
            match self.write_once(api, object).await {
                // A server may say that a definition is established and need another moment to serve it.
                Err(error) if fresh && error.is_not_found() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(ESTABLISH_POLL).await;
                }
                // Created by someone else between our look and our write: look again.
                Err(error) if error.is_conflict() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(ESTABLISH_POLL).await;
                }
                Err(error) => return Err(error.into()),
                Ok(applied) => return Ok(applied),
            }
        }
    }

    async fn write_once(&self, api: &Api, object: &Value) -> Result<Applied, Error> {
        let done = |outcome, object| Applied {
            outcome,
            resource: api.resource().clone(),
            object,
        };
        let wanted = with_last_applied(object);
        let Some(name) = object["metadata"]["name"].as_str() else {
            return Ok(done(
                Outcome::Created,
                shown(api.create(&wanted, &self.params).await?),
            ));
        };
        let Some(live) = api.find(name).await? else {
            return Ok(done(
                Outcome::Created,
                shown(api.create(&wanted, &self.params).await?),
            ));
        };
        let last = last_applied(&live).unwrap_or_else(|| json!({}));
        let Some(patch) = three_way(&last, &wanted, &live) else {
            return Ok(done(Outcome::Unchanged, live));
        };
        let after = shown(api.patch(name, Patch::Merge(&patch), &self.params).await?);
        let same = after["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"];
        let outcome = if same {
            Outcome::Unchanged
        } else {
            Outcome::Configured
        };
        Ok(done(outcome, after))
    }

    fn is_fresh(&self, resource: &Resource) -> bool {
        self.fresh
            .iter()
            .any(|fresh| fresh.group == resource.group && fresh.kind == resource.kind)
    }

    /// Waits until objects of a definition can be written.
    async fn establish(&mut self, api: &Api, definition: &Value) -> Result<(), Failure> {
        let name = definition["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if self.params.dry_run {
            return Ok(());
        }
        let started = tokio::time::Instant::now();
        let mut told = false;
        let mut live = definition.clone();
        while !is_established(&live) {
            if let Some(failure) = names_rejected(&live) {
                return Err(failure.at(&name));
            }
            if started.elapsed() > ESTABLISH_TIMEOUT {
                let text = format!(
                    "{name} is not established after {} s",
                    ESTABLISH_TIMEOUT.as_secs()
                );
                return Err(Failure::failed(text)
                    .hint(format!("look at its conditions: skopos get crd {name} -o yaml")));
            }
            if !told && started.elapsed() > PATIENCE {
                told = true;
                terminal::note(&format!("waiting for {name} to be established…"));
            }
            tokio::time::sleep(ESTABLISH_POLL).await;
            live = api.get(&name).await?;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.fresh.push(FreshKind {
            group: text(&live["spec"]["group"]),
            kind: text(&live["spec"]["names"]["kind"]),
        });
        self.catalog = self.discover_with(&live, started + ESTABLISH_TIMEOUT).await?;
        Ok(())
    }

    /// Asks what the server serves until the definition is part of it.
    async fn discover_with(
        &self,
        definition: &Value,
        deadline: tokio::time::Instant,
    ) -> Result<Catalog, Failure> {
        let spec = &definition["spec"];
        let served = |catalog: &Catalog| {
            let wanted = spec["versions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|v| v["served"] == true);
            wanted.into_iter().all(|version| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
                catalog
                    .by_plural(&group, &text(&version["name"]), &plural)
                    .is_some()
            })
        };
        loop {
            let catalog = discover(&self.client).await?;
            if served(&catalog) || tokio::time::Instant::now() > deadline {
                return Ok(catalog);
            }
            tokio::time::sleep(ESTABLISH_POLL).await;
        }
    }
}

/// Shows the server's warnings and returns the object.
fn shown(answer: Answer) -> Value {
    for warning in &answer.warnings {
        terminal::warn(warning);
    }
    answer.value
}

fn gvk(object: &Value) -> Result<GroupVersionKind, Failure> {
    let text = object["apiVersion"].as_str().unwrap_or_default();
    let version: GroupVersion = text.parse().map_err(|_| {
        Failure::failed(format!(
            "apiVersion \"{text}\" is neither VERSION nor GROUP/VERSION"
        ))
    })?;
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    Ok(GroupVersionKind {
        group: version.group,
        version: version.version,
        kind,
    })
}

fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn is_established(definition: &Value) -> bool {
    condition(definition, "Established").is_some_and(|condition| condition["status"] == "True")
}

fn names_rejected(definition: &Value) -> Option<Failure> {
    let names = condition(definition, "NamesAccepted").filter(|condition| condition["status"] == "False")?;
    let message = names["message"]
        .as_str()
        .unwrap_or("another definition has these names");
    Some(Failure::failed(format!("its names were not accepted: {message}")).hint("choose other names"))
}
