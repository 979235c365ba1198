//! What a manager does for its controllers.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use skopos_controller::{Action, Context, Controller, Failure, Manager, ManagerConfig};
use skopos_object::Object;
use skopos_testkit::{Fault, Rule, eventually};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::stage::{Notes, Stage, free_address, get, noting};

#[tokio::test(start_paused = true)]
async fn a_controller_of_a_type_gets_the_objects_of_its_kind_as_that_type() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::of::<ConfigMap>().reconcile_as(move |map: ConfigMap, _: Context| {
        let colour = map.data.and_then(|mut data| data.remove("colour"));
        seen.add(colour.unwrap_or_default());
        async { Ok::<_, Failure>(Action::Done) }
    });
    assert_eq!(controller.name(), "configmaps");
    let running = stage.run(controller);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"},
        "data": {"colour": "blue"}});
    stage.server.put(&map).await;
    notes.until_count("blue", 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_of_one_kind_share_its_cache_and_one_watch() {
    let stage = Stage::new().await;
    // Harmless; it counts.
    let watches = Rule::watch()
        .resource("apps")
        .then(Fault::Slow(std::time::Duration::ZERO));
    let watches = stage.server.faults().add(watches);
    let (first, second) = (Notes::default(), Notes::default());
    let seen = second.clone();
    let mut manager = Manager::new(&stage.server.client(), ManagerConfig::new("x.io/apps")).unwrap();
    manager.add(noting(&first));
    manager.add(
        Controller::for_("configmaps")
            .named("second")
            .watches("apps.x.io", move |app: &Object| {
                seen.add(app.name());
                Vec::new()
            })
            .reconcile(|_: Object, _: Context| async { Ok::<_, Failure>(Action::Done) }),
    );
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    stage.create("a").await;
    first.until(&["a 1"]).await;
    second.until_count("a", 1).await;
    assert_eq!(watches.injected(), 1);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// They would share metrics and a field manager, and take each other's fields away.
#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_refused() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let mut manager = Manager::new(&stage.server.client(), ManagerConfig::new("x.io/apps")).unwrap();
    manager.add(noting(&notes));
    manager.add(noting(&notes));
    let error = manager.run(CancellationToken::new()).await.unwrap_err();
    let text = "two controllers are named apps.x.io: give one another name with `named`";
    assert_eq!(error.to_string(), text);
}

/// On a clock that runs: it speaks over sockets.
#[tokio::test]
async fn health_readiness_and_metrics_are_served_where_the_config_says() {
    let mut stage = Stage::new().await;
    let endpoint = free_address();
    stage.config.endpoint = Some(endpoint);
    let notes = Notes::default();
    let running = stage.run(noting(&notes));
    stage.create("a").await;
    notes.until(&["a 1"]).await;
    let reconciles = r#"controller_runtime_reconcile_total{controller="apps.x.io",result="success"}"#;
    let process = "process_resident_memory_bytes ";
    for (path, expect) in [
        ("/healthz", "ok"),
        ("/readyz", "ok"),
        ("/metrics", reconciles),
        ("/metrics", process),
    ] {
        eventually(async || {
            let answer = get(endpoint, path).await;
            if answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(expect) {
                Ok(())
            } else {
                Err(answer)
            }
        })
        .await;
    }
    running.stop().await;
    assert!(TcpStream::connect(endpoint).await.is_err());
}
