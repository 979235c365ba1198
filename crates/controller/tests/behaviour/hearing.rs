//! Which changes lead to reconciles.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skopos_client::{Api, Patch, WriteParams};
use skopos_controller::{Action, Context, Controller, Failure, Predicate};
use skopos_object::{GroupResource, Object, ObjectKey, Status};
use skopos_testkit::{Fault, Rule, Verb, definition};
use tokio::time::Instant;

use crate::stage::{Notes, Stage, n_of, noting};

#[tokio::test(start_paused = true)]
async fn reconciles_what_is_there_and_what_changes() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    stage.create("a").await;
    let running = stage.run(noting(&notes));
    notes.until(&["a 1"]).await;
    stage.set("a", 2).await;
    notes.until(&["a 1", "a 2"]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_later_is_followed() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("lamps.y.io")
        .owns("shades.y.io")
        .reconcile(move |lamp: Object, _| {
            seen.add(lamp.name());
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.server.put(&definition("y.io", "v1", "Lamp", "lamps")).await;
    stage
        .server
        .apply("{apiVersion: y.io/v1, kind: Lamp, metadata: {name: l, namespace: default}}")
        .await;
    notes.until(&["l"]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_written_by_the_controller_does_not_run_it_again() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        seen.add(format!("{} {}", app.name(), n_of(&app)));
        async move {
            context
                .status(|status| {
                    status.set("seen", n_of(context.object()));
                })
                .await?;
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until(&["a 1"]).await;
    stage.create("b").await;
    notes.until(&["a 1", "b 1"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(notes.all(), ["a 1", "b 1"]);
    let a = stage.apps().get("a").await.unwrap();
    assert_eq!(a["status"], json!({"seen": 1, "observedGeneration": 1}));
    running.stop().await;
}

/// Without the subresource a status is a field like any other: writing it counts the generation up, and is heard of.
/// The same once more changes nothing, and ends it.
#[tokio::test(start_paused = true)]
async fn a_kind_without_a_status_subresource_does_not_run_in_circles() {
    let stage = Stage::new().await;
    let mut lamps = definition("y.io", "v1", "Lamp", "lamps");
    lamps["spec"]["versions"][0]["subresources"] = json!({});
    stage.server.put(&lamps).await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("lamps.y.io").reconcile(move |lamp: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let status = lamp.get(&["status", "lit"]).is_some();
            seen.add(format!("generation {} lit {status}", lamp.generation()));
            let resource = context.resource(&lamp.group_version_kind()).await?;
            let lamps = Api::namespaced(context.client(), &resource, lamp.namespace());
            let lit = json!({"status": {"lit": true}});
            lamps
                .patch(lamp.name(), Patch::Merge(&lit), &WriteParams::default())
                .await?;
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage
        .server
        .apply("{apiVersion: y.io/v1, kind: Lamp, metadata: {name: l, namespace: default}}")
        .await;
    let both = ["generation 1 lit false", "generation 2 lit true"];
    notes.until(&both).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(notes.all(), both);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn related_objects_lead_to_those_that_the_map_names_before_and_after() {
    let stage = Stage::new().await;
    for name in ["a", "b", "c"] {
        stage.create(name).await;
    }
    let notes = Notes::default();
    let seen = notes.clone();
    let named = |map: &Object| {
        let name = map
            .label("app")
            .map(|name| ObjectKey::namespaced("default", name));
        name.into_iter().collect()
    };
    let controller = Controller::for_("apps.x.io")
        .watches("configmaps", named)
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.name());
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    notes.until_count("c", 1).await;
    let map = |app: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "default", "labels": {"app": app}}})
    };
    stage.server.put(&map("a")).await;
    notes.until_count("a", 2).await;
    stage.server.put(&map("b")).await;
    notes.until_count("a", 3).await;
    notes.until_count("b", 2).await;
    assert_eq!(notes.count("c"), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_that_do_not_count_are_left_out() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller =
        Controller::for_("apps.x.io")
            .when(Predicate::labels())
            .reconcile(move |app: Object, _: Context| {
                seen.add(format!("{} {}", app.name(), n_of(&app)));
                async { Ok::<_, Failure>(Action::Done) }
            });
    stage.create("a").await;
    let running = stage.run(controller);
    notes.until(&["a 1"]).await;
    stage.set("a", 2).await;
    stage
        .patch("a", json!({"metadata": {"labels": {"x": "y"}}, "spec": {"n": 3}}))
        .await;
    notes.until(&["a 1", "a 3"]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_done_when_an_object_is_gone_gets_its_key() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let (seen, gone) = (notes.clone(), notes.clone());
    let controller = Controller::for_("apps.x.io")
        .when_gone(move |key: ObjectKey, _| {
            gone.add(format!("{key} is gone"));
            async { Ok::<_, Failure>(Action::Done) }
        })
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.name());
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until(&["a"]).await;
    stage.delete("a").await;
    notes.until(&["a", "default/a is gone"]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_map_that_panics_is_counted_and_later_changes_are_heard() {
    let stage = Stage::new().await;
    stage.create("a").await;
    let notes = Notes::default();
    let seen = notes.clone();
    let named = |map: &Object| {
        assert_ne!(map.label("app").as_deref(), Some("bad"), "no such app");
        let name = map
            .label("app")
            .map(|name| ObjectKey::namespaced("default", name));
        name.into_iter().collect()
    };
    let controller = Controller::for_("apps.x.io")
        .watches("configmaps", named)
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.name());
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    notes.until(&["a"]).await;
    let map = |app: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "default", "labels": {"app": app}}})
    };
    stage.server.put(&map("a")).await;
    notes.until_count("a", 2).await;
    // What it was before still leads to its app.
    stage.server.put(&map("bad")).await;
    notes.until_count("a", 3).await;
    stage.server.put(&map("a")).await;
    notes.until_count("a", 4).await;
    // Of the map after the second change, and of the same map before the third.
    assert_eq!(running.metric("skopos_controller_hearing_panics_total"), 2.0);
    running.stop().await;
}

/// Read as a type of its own, as far as the map needs it.
#[derive(Deserialize)]
struct Route {
    spec: RouteSpec,
}

#[derive(Deserialize)]
struct RouteSpec {
    app: String,
}

/// What it was before still leads to its app, as what it is after does.
#[tokio::test(start_paused = true)]
async fn a_related_object_that_does_not_fit_its_type_is_counted_and_later_changes_are_heard() {
    let stage = Stage::new().await;
    stage
        .server
        .put(&definition("y.io", "v1", "Route", "routes"))
        .await;
    stage.create("a").await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io")
        .watches_as("routes.y.io", |route: &Route| {
            vec![ObjectKey::namespaced("default", route.spec.app.as_str())]
        })
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.name());
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    notes.until(&["a"]).await;
    let route = |app: Value| {
        json!({"apiVersion": "y.io/v1", "kind": "Route", "metadata": {"name": "r", "namespace": "default"},
            "spec": {"app": app}})
    };
    stage.server.put(&route(json!("a"))).await;
    notes.until_count("a", 2).await;
    stage.server.put(&route(json!(7))).await;
    notes.until_count("a", 3).await;
    stage.server.put(&route(json!("a"))).await;
    notes.until_count("a", 4).await;
    // After the second change, and before the third.
    assert_eq!(running.metric("skopos_controller_hearing_errors_total"), 2.0);
    assert_eq!(running.metric("skopos_controller_hearing_panics_total"), 0.0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_predicate_panics_counts() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let even = Predicate::new(|change| {
        let n = change.object().map(n_of).unwrap_or_default();
        assert_ne!(n, 3, "not for me");
        n % 2 == 0
    });
    let controller = Controller::for_("apps.x.io")
        .when(even)
        .reconcile(move |app: Object, _: Context| {
            seen.add(format!("{} {}", app.name(), n_of(&app)));
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    stage.create("a").await;
    stage.set("a", 3).await;
    notes.until(&["a 3"]).await;
    stage.set("a", 4).await;
    notes.until(&["a 3", "a 4"]).await;
    assert_eq!(running.metric("skopos_controller_hearing_panics_total"), 1.0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_a_kind_that_is_not_served_is_an_error_until_it_is() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let owned = context.owned("lamps.x.io").await;
            let owned = owned.map_err(Failure::from);
            seen.add(match &owned {
                Ok(owned) => format!("{} lamps", owned.len()),
                Err(failure) => failure.to_string(),
            });
            owned.map(|_| Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    let error = "cannot find the resource of lamps.x.io: no resource is named lamps.x.io";
    notes.until_count(error, 2).await;
    assert_eq!(running.metric("controller_runtime_reconcile_timeouts_total"), 0.0);
    stage.server.put(&definition("x.io", "v1", "Lamp", "lamps")).await;
    notes.until_count("0 lamps", 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_a_kind_that_may_not_be_read_is_an_error_until_it_may() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let secrets = context.cache("secrets").await;
            let secrets = secrets.inspect_err(|error| seen.add(error.to_string()))?;
            seen.add(format!("{} secrets", secrets.len()));
            Ok(Action::Done)
        }
    });
    let secrets = GroupResource::new("", "secrets");
    let forbidden = Status::forbidden(&secrets, "", r#"User "a" cannot list resource "secrets""#);
    let reading = Rule::of(&[Verb::List, Verb::Watch]).resource("secrets");
    let forbidden = stage.server.faults().add(reading.then(Fault::Answer(forbidden)));
    let running = stage.run(controller);
    stage.create("a").await;
    let begin = Instant::now();
    let error =
        r#"cannot fill the cache of secrets: secrets is forbidden: User "a" cannot list resource "secrets""#;
    notes.until_count(error, 3).await;
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    forbidden.remove();
    notes.until_count("0 secrets", 1).await;
    running.stop().await;
}
