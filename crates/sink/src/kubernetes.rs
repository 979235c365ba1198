//! An object of a cluster.

use std::{error::Error, time::Duration};

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use skopos_api::{KubernetesAction as Spec, KubernetesVerb as Verb};
use skopos_client::{Api, Client, DeleteParams, Discovery, Error as ClientError, Patch, WriteParams};
use skopos_object::{GroupVersionKind, OpenError, Reason};

use crate::{
    Context, Destination, Event, Failure, Sent,
    connect::BadSink,
    mark::{digest, manager, rule_annotation},
};

/// Makes, changes or deletes the object that the event's data is.
#[derive(Debug)]
pub(crate) struct Kubernetes {
    verb: Verb,
    client: Client,
    discovery: Discovery,
    /// Where objects go that name no namespace.
    namespace: String,
}

/// An object, and where it belongs.
struct Target {
    api: Api,
    name: String,
    object: Value,
}

impl Kubernetes {
    pub(crate) fn new(spec: &Spec, context: Context<'_>) -> Result<Self, BadSink> {
        let Some(client) = context.client else {
            return Err(BadSink::NotAllowed(
                "there is no cluster to write to; use another destination",
            ));
        };
        Ok(Self {
            verb: spec.verb,
            client: client.clone(),
            discovery: Discovery::new(client),
            namespace: context.namespace.to_owned(),
        })
    }

    async fn send_one(&self, event: &Event) -> Result<(), Failure> {
        let target = self.target(event).await?;
        let Target { api, name, object } = &target;
        let manager = manager(&event.rule);
        let params = WriteParams {
            field_manager: manager.clone(),
            ..WriteParams::default()
        };
        let answer = match self.verb {
            Verb::Apply => {
                let patch = Patch::Apply {
                    object,
                    manager: &manager,
                    force: false,
                };
                api.patch(name, patch, &WriteParams::default()).await
            }
            Verb::Create => api.create(object, &params).await,
            Verb::Patch => api.patch(name, Patch::Merge(object), &params).await,
            Verb::Delete => api.delete(name, &DeleteParams::default()).await,
        };
        match answer {
            Ok(_) => Ok(()),
            Err(error) if self.is_done(&error) => Ok(()),
            Err(error) => Err(self.judge(&target, event, &error)),
        }
    }

    async fn target(&self, event: &Event) -> Result<Target, Failure> {
        let mut object = parse(event)?;
        let kind = kind(&object)?;
        let resource = self
            .discovery
            .kind(&kind)
            .await
            .map_err(|error| unknown(&kind, error))?;
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or(&self.namespace)
            .to_owned();
        let name = match (object["metadata"]["name"].as_str(), self.verb) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, Verb::Create) => generated_name(&object, &event.id),
            _ => return Err(bad_object("it has no metadata.name")),
        };
        object["metadata"]["name"] = json!(name);
        if resource.namespaced {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if self.verb != Verb::Delete {
            mark(&mut object, event)?;
        }
        let api = match &event.account {
            // What is served is nobody's secret; only the write is made as the account.
            Some(account) => Api::namespaced(&self.client.acting_as(account), &resource, &namespace),
            None => Api::namespaced(&self.client, &resource, &namespace),
        };
        Ok(Target { api, name, object })
    }

    /// What is there already was made by an attempt before, or is as it shall be; what is gone need not be deleted.
    fn is_done(&self, error: &ClientError) -> bool {
        let reason = error.status().map(|status| &status.reason);
        match self.verb {
            Verb::Create => reason == Some(&Reason::AlreadyExists),
            Verb::Delete => error.is_object_not_found(),
            Verb::Apply | Verb::Patch => false,
        }
    }

    fn judge(&self, target: &Target, event: &Event, error: &ClientError) -> Failure {
        let account = event.account.as_ref();
        let acting = account.map_or_else(String::new, |account| format!(" as service account {account}"));
        let hint = match error.status() {
            Some(status) if status.code == 403 => "; `skopos rbac` prints the roles that rules need",
            _ => "",
        };
        let text = format!(
            "cannot {} {} {}{acting}: {}{hint}",
            self.verb_name(),
            target.api.resource().qualified_kind(),
            target.name,
            told(error)
        );
        let Some(status) = error.status() else {
            return match error {
                ClientError::Unsendable { .. } => Failure::refused(text),
                _ => Failure::unavailable(text),
            };
        };
        match status.code {
            400 | 413 | 415 | 422 => Failure::refused(text),
            _ => {
                let seconds = status
                    .details
                    .as_ref()
                    .map_or(0, |details| details.retry_after_seconds);
                let wait = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Failure::unavailable(text).retry_after(wait)
            }
        }
    }

    fn verb_name(&self) -> &'static str {
        match self.verb {
            Verb::Apply => "apply",
            Verb::Create => "create",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        }
    }
}

impl Destination for Kubernetes {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            for (n, event) in events.iter().enumerate() {
                if let Err(failure) = self.send_one(event).await {
                    return Sent::failed(n, failure);
                }
            }
            Sent::all(events)
        })
    }
}

fn parse(event: &Event) -> Result<Value, Failure> {
    let object: Value =
        serde_json::from_slice(&event.data).map_err(|error| bad_object(&error.to_string()))?;
    match object.is_object() && object.get("metadata").is_none_or(Value::is_object) {
        true => Ok(object),
        false => Err(bad_object("it is not an object with metadata")),
    }
}

fn kind(object: &Value) -> Result<GroupVersionKind, Failure> {
    let (Some(api_version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
        return Err(bad_object("it has no apiVersion or no kind"));
    };
    GroupVersionKind::from_api_version(api_version, kind).map_err(|error| bad_object(&error.to_string()))
}

fn bad_object(problem: &str) -> Failure {
    Failure::refused(format!(
        "the data is not a Kubernetes object: {problem}; check the template of the rule"
    ))
}

fn unknown(kind: &GroupVersionKind, error: OpenError) -> Failure {
    match error {
        OpenError::Missing(_) => Failure::unavailable(format!(
            "the cluster does not know kind {} of {}: install its definition, or check the template of the rule",
            kind.kind,
            kind.api_version()
        )),
        other => Failure::unavailable(told(&other)),
    }
}

/// A name that each attempt makes again.
fn generated_name(object: &Value, id: &str) -> String {
    let prefix = object["metadata"]["generateName"].as_str().unwrap_or("skopos-");
    format!("{prefix}{}", digest(id.as_bytes()))
}

/// Leaves the mark of the rule on what is written.
fn mark(object: &mut Value, event: &Event) -> Result<(), Failure> {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    let annotations = annotations
        .as_object_mut()
        .ok_or_else(|| bad_object("its metadata.annotations is not a map"))?;
    annotations.insert(rule_annotation(&event.rule), json!(digest(&event.data)));
    Ok(())
}

fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
