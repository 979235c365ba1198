//! Many objects, some of which can never be reconciled.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use skopos_controller::{Action, Context, Controller, ControllerConfig, Failure, Manager, ManagerConfig};
use skopos_object::Object;
use skopos_testkit::{Fault, Faults, Rule, TestServer, definition, eventually, seeds};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const OBJECTS: usize = 10_000;
const POISONOUS: usize = OBJECTS / 100;
const ATTEMPTS: usize = 20;
const SEEDS: u64 = 1;

/// What the reconciles saw.
#[derive(Default)]
struct Seen {
    begin: Option<Instant>,
    done: BTreeSet<String>,
    poisoned: usize,
}

#[test]
fn one_in_a_hundred_poisonous_objects_does_not_starve_the_others() {
    for seed in seeds(SEEDS) {
        let lived = catch_unwind(|| crate::runtime().block_on(live(seed)));
        assert!(
            lived.is_ok(),
            "replay: SEED={seed} cargo test -p skopos-controller --test simulation poison"
        );
    }
}

async fn live(seed: u64) {
    fastrand::seed(seed);
    let mut random = Rng::with_seed(seed);
    let server = TestServer::start_seeded(seed).await;
    server.put(&definition("x.io", "v1", "App", "apps")).await;
    let poisonous: BTreeSet<usize> = random
        .choose_multiple(0..OBJECTS, POISONOUS)
        .into_iter()
        .collect();
    for n in 0..OBJECTS {
        let app = json!({"apiVersion": "x.io/v1", "kind": "App",
            "metadata": {"name": format!("a{n}"), "namespace": "default"},
            "spec": {"poison": poisonous.contains(&n)}});
        server.put(&app).await;
    }
    let faults = disturbed(random.u64(..));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let client = server.client_behind(&faults);
    let mut manager = Manager::new(&client, ManagerConfig::new("x.io/apps")).unwrap();
    let queue = manager.add(controller(&seen));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    eventually(async || match seen.lock().unwrap().done.len() {
        n if n == OBJECTS - POISONOUS => Ok(()),
        n => Err(format!("{n} done")),
    })
    .await;
    let took = seen.lock().unwrap().begin.unwrap().elapsed();
    // Eight at a time, ten milliseconds each: retries took up less than half as much again.
    let alone = Duration::from_millis(10) * u32::try_from(OBJECTS / 8).unwrap();
    assert!(took < alone * 3 / 2, "{took:?}");
    assert!(faults.injected() > 0);
    faults.clear();
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(queue.dead_letters().len(), POISONOUS);
    assert_eq!(seen.lock().unwrap().poisoned, ATTEMPTS * POISONOUS);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// Writes that meet conflicts and failures, watches that are cut and have to begin anew.
fn disturbed(seed: u64) -> Faults {
    let faults = Faults::seeded(seed);
    faults.add(Rule::write().with_chance(0.03).then(Fault::conflict()));
    faults.add(Rule::write().with_chance(0.03).then(Fault::internal()));
    faults.add(
        Rule::watch()
            .with_chance(0.3)
            .then(Fault::Cut { after_bytes: 20_000 }),
    );
    faults.add(Rule::watch().with_chance(0.2).then(Fault::gone()));
    faults
}

/// Takes ten milliseconds for each, and writes a status of those that are not poisonous.
fn controller(seen: &Arc<Mutex<Seen>>) -> Controller {
    let seen = seen.clone();
    let mut config = ControllerConfig::default();
    config.queue.max_attempts = u32::try_from(ATTEMPTS).ok();
    Controller::for_("apps.x.io")
        .with(config)
        .reconcile(move |app: Object, context: Context| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().begin.get_or_insert_with(Instant::now);
                tokio::time::sleep(Duration::from_millis(10)).await;
                if app.get(&["spec", "poison"]) == Some(true.into()) {
                    seen.lock().unwrap().poisoned += 1;
                    return Err(Failure::new("poison"));
                }
                context
                    .status(|status| {
                        status.set("done", true);
                    })
                    .await?;
                seen.lock().unwrap().done.insert(app.name().to_owned());
                Ok(Action::Done)
            }
        })
}
