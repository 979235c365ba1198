//! A `MyApp` becomes a Deployment and a Service, and is listed in a directory of all apps.

use serde::Deserialize;
use serde_json::{Value, json};
use skopos::controller::{Action, Context, Controller, Failure};
use skopos::{GroupVersionKind, Object, ObjectKey};

/// Where all apps are listed. It is no app's namespace, so no app can own its entry: a finalizer removes it.
pub const DIRECTORY: &str = "myapp-directory";

/// The custom resource, as far as it is read here.
#[derive(Debug, Deserialize)]
pub struct MyApp {
    /// What it asks for.
    pub spec: Spec,
}

/// What a `MyApp` asks for.
#[derive(Debug, Deserialize)]
pub struct Spec {
    /// What to run.
    pub image: String,
    /// How often.
    pub replicas: i64,
    /// Where it listens.
    pub port: u16,
}

/// The controller: watches apps and what it makes of them.
pub fn controller() -> Controller {
    Controller::for_("myapps.stable.example.com")
        .named("myapp")
        .owns("deployments.apps")
        .owns("services")
        .finalizer("stable.example.com/directory", leave_directory)
        .reconcile_as(reconcile)
}

async fn reconcile(app: MyApp, context: Context) -> Result<Action, Failure> {
    let name = context.object().name();
    let deployment = context.apply_owned(&deployment(name, &app.spec)).await?;
    context.apply_owned(&service(name, &app.spec)).await?;
    context.apply(&entry(context.key(), &app.spec)).await?;

    let available = deployment.get(&["status", "availableReplicas"]);
    let available = available.and_then(|n| n.as_i64()).unwrap_or(0);
    let wanted = app.spec.replicas;
    let enough = available >= wanted;
    let reason = if enough { "AllAvailable" } else { "SomeUnavailable" };
    let message = format!("{available} of {wanted} replicas are available");
    context
        .status(|status| {
            status.set("availableReplicas", available);
            status.condition("Available", enough, reason, message.as_str());
        })
        .await?;
    Ok(Action::Done)
}

/// What owner references cannot do: the entry is in another namespace.
async fn leave_directory(app: Object, context: Context) -> Result<Action, Failure> {
    let entries = GroupVersionKind::new("", "v1", "ConfigMap");
    context.delete(&entries, &entry_key(&app.key()), None).await?;
    Ok(Action::Done)
}

fn deployment(name: &str, spec: &Spec) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "app",
                    "image": spec.image,
                    "ports": [{"containerPort": spec.port}],
                }]},
            },
        },
    })
}

fn service(name: &str, spec: &Spec) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"app": name},
            "ports": [{"port": spec.port, "targetPort": spec.port}],
        },
    })
}

fn entry(app: &ObjectKey, spec: &Spec) -> Value {
    let ObjectKey { namespace, name } = entry_key(app);
    let address = format!("{}.{}:{}", app.name, app.namespace, spec.port);
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"address": address},
    })
}

fn entry_key(app: &ObjectKey) -> ObjectKey {
    ObjectKey::namespaced(DIRECTORY, format!("{}.{}", app.namespace, app.name))
}
