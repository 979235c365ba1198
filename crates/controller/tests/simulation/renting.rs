//! The controller that lives in the simulation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use serde_json::{Value, json};
use skopos_client::{Api, WriteParams};
use skopos_controller::{Action, Context, Controller, Failure, controller_reference};
use skopos_object::{GroupVersionKind, Object};

/// Something outside the cluster that each app rents by its UID, and has to give back.
pub(crate) type Outside = Arc<Mutex<BTreeMap<String, i64>>>;

/// Makes two maps of each app, one by a name of its own and one by a name that the server chooses, rents something
/// outside, and writes a status. Panics and fails at random.
pub(crate) fn controller(outside: &Outside, random: Rng) -> Controller {
    let (rents, returns) = (outside.clone(), outside.clone());
    let random = Arc::new(Mutex::new(random));
    Controller::for_("apps.x.io")
        .owns("configmaps")
        .finalizer("x.io/rent", move |app: Object, _: Context| {
            returns.lock().unwrap().remove(app.uid());
            async { Ok(Action::Done) }
        })
        .reconcile(move |app: Object, context: Context| {
            let (outside, luck) = (rents.clone(), random.lock().unwrap().u8(0..40));
            async move { reconcile(&app, &context, &outside, luck).await }
        })
}

async fn reconcile(app: &Object, context: &Context, outside: &Outside, luck: u8) -> Result<Action, Failure> {
    let n = app.get(&["spec", "n"]).and_then(|n| n.as_i64()).unwrap();
    outside.lock().unwrap().insert(app.uid().to_owned(), n);
    let data = json!({"n": n.to_string()});
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    context.apply_owned(&map(app.name())).await?;
    match luck {
        0 => panic!("bad luck"),
        1 => return Err(Failure::new("bad luck")),
        2 => std::future::pending().await,
        _ => {}
    }
    let owned = context.owned("configmaps").await?;
    match owned.iter().find(|map| map.name().starts_with("made-")) {
        Some(made) => context.apply_owned(&map(made.name())).await.map(|_| ())?,
        None => make(app, context, &data).await?,
    }
    context
        .status(|status| {
            status.set("n", n);
        })
        .await?;
    Ok(Action::Done)
}

/// Makes a map whose name the server chooses: only a cache that shows the last write keeps this from happening twice.
///
/// A create whose answer is lost is the one thing that cannot be told from one that did not happen; so no such answer
/// is lost here. Who has to live with that chooses the names.
async fn make(app: &Object, context: &Context, data: &Value) -> Result<(), Failure> {
    let maps = context
        .resource(&GroupVersionKind::new("", "v1", "ConfigMap"))
        .await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"generateName": "made-", "ownerReferences": [controller_reference(app)]}});
    let maps = Api::namespaced(context.client(), &maps, app.namespace());
    maps.create(&map, &WriteParams::default()).await?;
    Ok(())
}
