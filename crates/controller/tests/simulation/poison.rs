//! Many objects, some of which can never be reconciled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use skopos_controller::{Action, Context, Controller, ControllerConfig, Failure, Manager, ManagerConfig};
use skopos_object::Object;
use skopos_testkit::{TestServer, definition, eventually};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const OBJECTS: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn one_in_a_hundred_poisonous_objects_does_not_starve_the_others() {
    let server = TestServer::start().await;
    server.put(&definition("x.io", "v1", "App", "apps")).await;
    for n in 0..OBJECTS {
        let poison = n % 100 == 7;
        let app = serde_json::json!({"apiVersion": "x.io/v1", "kind": "App",
            "metadata": {"name": format!("a{n}"), "namespace": "default"}, "spec": {"poison": poison}});
        server.put(&app).await;
    }
    let (done, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (n_done, n_failed) = (done.clone(), failed.clone());
    let mut config = ControllerConfig::default();
    config.queue.max_attempts = Some(20);
    let controller = Controller::for_("apps.x.io")
        .with(config)
        .reconcile(move |app: Object, _: Context| {
            let poison = app.get(&["spec", "poison"]) == Some(true.into());
            let counter = if poison { &n_failed } else { &n_done };
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if poison {
                    Err(Failure::new("poison"))
                } else {
                    Ok(Action::Done)
                }
            }
        });
    let mut manager = Manager::new(&server.client(), ManagerConfig::new("x.io/apps")).unwrap();
    let queue = manager.add(controller);
    let (begin, shutdown) = (Instant::now(), CancellationToken::new());
    let running = tokio::spawn(manager.run(shutdown.clone()));
    eventually(async || {
        let n = done.load(Ordering::SeqCst);
        if n == OBJECTS - OBJECTS / 100 {
            Ok(())
        } else {
            Err(n.to_string())
        }
    })
    .await;
    // Eight at a time, ten milliseconds each: retries took up less than half as much again.
    let alone = Duration::from_millis(10) * u32::try_from(OBJECTS / 8).unwrap();
    assert!(begin.elapsed() < alone * 3 / 2, "{:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(queue.dead_letters().len(), OBJECTS / 100);
    assert_eq!(failed.load(Ordering::SeqCst), 20 * OBJECTS / 100);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
