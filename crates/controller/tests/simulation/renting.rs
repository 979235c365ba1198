//! The controller that lives in the simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use skopos_client::{Api, WriteParams};
use skopos_controller::{Action, Context, Controller, ControllerConfig, Failure, controller_reference};
use skopos_object::{GroupVersionKind, Object};

/// Something outside the cluster that each app rents by its UID, and has to give back. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Outside(Arc<Mutex<Rents>>);

#[derive(Default)]
struct Rents {
    rented: BTreeMap<String, i64>,
    given_back: BTreeSet<String>,
    wrongs: Vec<String>,
}

impl Outside {
    fn rent(&self, uid: &str, n: i64) {
        let mut rents = self.0.lock().unwrap();
        if rents.given_back.contains(uid) {
            rents.wrongs.push(format!("{uid} rents what it has given back"));
        }
        rents.rented.insert(uid.to_owned(), n);
    }

    fn give_back(&self, uid: &str) {
        let mut rents = self.0.lock().unwrap();
        rents.rented.remove(uid);
        rents.given_back.insert(uid.to_owned());
    }

    /// What is rented, by UID.
    pub(crate) fn rented(&self) -> BTreeMap<String, i64> {
        self.0.lock().unwrap().rented.clone()
    }

    /// What was seen that must not happen.
    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.0.lock().unwrap().wrongs.clone()
    }
}

/// Makes two maps of each app, one by a name of its own and one by a name that the server chooses, rents something
/// outside, and writes a status. Panics and fails at random. Waits so long for the caches to show what it wrote.
pub(crate) fn controller(outside: &Outside, random: Rng, cache_patience: Duration) -> Controller {
    let (rents, returns) = (outside.clone(), outside.clone());
    let random = Arc::new(Mutex::new(random));
    let config = ControllerConfig {
        cache_patience,
        ..ControllerConfig::default()
    };
    Controller::for_("apps.x.io")
        .with(config)
        .owns("configmaps")
        .finalizer("x.io/rent", move |app: Object, _: Context| {
            returns.give_back(app.uid());
            async { Ok(Action::Done) }
        })
        .reconcile(move |app: Object, context: Context| {
            let (outside, luck) = (rents.clone(), random.lock().unwrap().u8(0..40));
            async move { reconcile(&app, &context, &outside, luck).await }
        })
}

async fn reconcile(app: &Object, context: &Context, outside: &Outside, luck: u8) -> Result<Action, Failure> {
    let n = app.get(&["spec", "n"]).and_then(|n| n.as_i64()).unwrap();
    outside.rent(app.uid(), n);
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
