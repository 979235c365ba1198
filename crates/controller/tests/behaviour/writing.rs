//! The caches show what was written before the next reconcile begins; the status is written with care.

use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::{Api, DeleteParams, ListParams, Patch, WriteParams};
use skopos_controller::{Action, Builder, Context, Controller, ControllerConfig, Error, Failure};
use skopos_informer::{Selection, Wanted};
use skopos_object::{CollectionName, Content, FieldSelector, GroupVersionKind, LabelSelector, Object};
use skopos_testkit::{Fault, Rule, eventually};
use tokio::time::Instant;

use crate::stage::{Notes, Stage, n_of};

/// Silence once the maps that every namespace has were listed: four, of a good kilobyte each.
const AFTER_THE_LIST: Fault = Fault::Stall { after_bytes: 5350 };

/// Creates a map with a name that the server chooses, if the cache shows none yet: the classic way to make too many.
async fn make_one(app: Object, context: Context) -> Result<Action, Failure> {
    if context.owned("configmaps").await?.is_empty() {
        let maps = context
            .resource(&GroupVersionKind::new("", "v1", "ConfigMap"))
            .await?;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "generateName": "made-", "ownerReferences": [skopos_controller::controller_reference(&app)]}});
        let maps = Api::namespaced(context.client(), &maps, app.namespace());
        maps.create(&map, &WriteParams::default()).await?;
    }
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn a_slow_cache_does_not_make_a_controller_create_twice() {
    makes_one(Controller::for_("apps.x.io").owns("configmaps")).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_cache_of_a_kind_that_was_not_named_does_not_make_a_controller_create_twice() {
    makes_one(Controller::for_("apps.x.io")).await;
}

async fn makes_one(controller: Builder) {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = controller.reconcile(move |app, context| {
        let seen = seen.clone();
        async move {
            let made = make_one(app, context).await;
            seen.add(made.as_ref().map_or_else(Failure::to_string, |_| "ok".to_owned()));
            made
        }
    });
    // The watch of maps opens, and stays silent for a while: it shows nothing of what is created.
    let stalled = stage
        .server
        .faults()
        .add(Rule::watch().resource("configmaps").then(AFTER_THE_LIST));
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until_count("ok", 1).await;
    for n in 2..6 {
        stage.set("a", n).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    stalled.remove();
    stage.server.faults().cut_open_streams();
    notes.until_count("ok", 2).await;
    let made = async || {
        let mut list = stage.maps().list(&Default::default());
        let mut names = Vec::new();
        while let Some(map) = list.next().await.unwrap() {
            names.push(map.name().to_owned());
        }
        names.into_iter().filter(|name| name.starts_with("made-")).count()
    };
    assert_eq!(made().await, 1);
    running.stop().await;
}

/// Ten objects wait for a cache that hears nothing, with two workers: another one does not wait with them.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_slow_cache_does_not_hold_up_others() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let config = ControllerConfig {
        concurrency: 2,
        ..ControllerConfig::default()
    };
    let controller = Controller::for_("apps.x.io")
        .with(config)
        .owns("configmaps")
        .reconcile(move |app: Object, context: Context| {
            let seen = seen.clone();
            async move {
                seen.add(format!("{} {}", app.name(), n_of(&app)));
                if app.name() != "other" {
                    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": app.name()},
                        "data": {"n": n_of(&app).to_string()}});
                    context.apply_owned(&map).await?;
                }
                Ok(Action::Done)
            }
        });
    let stalled = Rule::watch().resource("configmaps");
    let stalled = stalled.then(AFTER_THE_LIST);
    let stalled = stage.server.faults().add(stalled);
    let running = stage.run(controller);
    let names: Vec<String> = (0..10).map(|n| format!("waits-{n}")).collect();
    for name in &names {
        stage.create(name).await;
        notes.until_count(&format!("{name} 1"), 1).await;
    }
    for name in &names {
        stage.set(name, 2).await;
    }
    stage.create("other").await;
    let begin = Instant::now();
    notes.until_count("other 1", 1).await;
    assert!(
        begin.elapsed() < Duration::from_millis(400),
        "{:?}",
        begin.elapsed()
    );
    assert!(
        notes.all().iter().all(|line| !line.ends_with(" 2")),
        "{:?}",
        notes.all()
    );
    stalled.remove();
    stage.server.faults().cut_open_streams();
    for name in &names {
        notes.until_count(&format!("{name} 2"), 1).await;
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_never_shows_a_write_is_not_waited_for_without_end() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let config = ControllerConfig {
        cache_patience: Duration::from_secs(5),
        ..ControllerConfig::default()
    };
    let controller = Controller::for_("apps.x.io")
        .with(config)
        .owns("configmaps")
        .reconcile(move |app: Object, context: Context| {
            let seen = seen.clone();
            async move {
                let n = n_of(&app);
                seen.add(n.to_string());
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
                    "data": {"n": n.to_string()}});
                context.apply_owned(&map).await?;
                Ok(Action::Done)
            }
        });
    stage
        .server
        .faults()
        .add(Rule::watch().resource("configmaps").then(AFTER_THE_LIST));
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until_count("1", 1).await;
    stage.set("a", 2).await;
    notes.until_count("2", 1).await;
    assert!(running.metric("skopos_controller_cache_waits_total") >= 1.0);
    running.stop().await;
}

/// Where an object cannot show, it is not waited for: the place in question hears nothing, and says so once a minute.
#[tokio::test(start_paused = true)]
async fn a_write_is_waited_for_only_where_it_shows() {
    let elsewhere = Wanted {
        namespaces: vec!["default".to_owned(), "kube-public".to_owned()],
        ..Wanted::from("configmaps")
    };
    writes_without_waiting(Controller::for_("apps.x.io").owns(elsewhere)).await;
    let selected = |labels: &str, fields: &str| Wanted {
        selection: Selection {
            labels: LabelSelector::parse(labels).unwrap(),
            fields: FieldSelector::parse(fields).unwrap(),
        },
        ..Wanted::from("configmaps")
    };
    writes_without_waiting(Controller::for_("apps.x.io").owns(selected("of=others", ""))).await;
    let named = selected("", "metadata.name=other");
    writes_without_waiting(Controller::for_("apps.x.io").owns(named)).await;
    let of_type = Wanted {
        name: CollectionName::from("secrets"),
        ..selected("", "type=x.io/other")
    };
    writes_without_waiting(Controller::for_("apps.x.io").owns(of_type)).await;
}

async fn writes_without_waiting(controller: Builder) {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = controller.reconcile(move |app: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let n = n_of(&app).to_string();
            let metadata = json!({"name": "m"});
            let map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": n}});
            context.apply_owned(&map).await?;
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"n": n}});
            context.apply_owned(&secret).await?;
            seen.add(n);
            Ok(Action::Done)
        }
    });
    never_waits(&stage, controller, &notes).await;
}

/// Changes the object again and again; the reconciler notes each number.
async fn never_waits(stage: &Stage, controller: Controller, notes: &Notes) {
    let running = stage.run(controller);
    stage.create("a").await;
    for n in ["1", "2", "3"] {
        notes.until_count(n, 1).await;
        stage.set("a", n.parse::<i64>().unwrap() + 1).await;
    }
    assert_eq!(running.metric("skopos_controller_cache_waits_total"), 0.0);
    running.stop().await;
}

/// What is only tried changes nothing that a cache could show.
#[tokio::test(start_paused = true)]
async fn a_dry_run_is_not_waited_for() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let resource = context.resource(&app.group_version_kind()).await?;
            let apps = Api::namespaced(context.client(), &resource, app.namespace());
            let changed = json!({"spec": {"n": 100}});
            let params = WriteParams {
                dry_run: true,
                ..WriteParams::default()
            };
            apps.patch(app.name(), Patch::Merge(&changed), &params).await?;
            let params = DeleteParams {
                dry_run: true,
                ..DeleteParams::default()
            };
            apps.delete(app.name(), &params).await?;
            seen.add(n_of(&app).to_string());
            Ok(Action::Done)
        }
    });
    never_waits(&stage, controller, &notes).await;
}

/// An object that a write takes out of what is selected goes from the cache: that is waited for.
#[tokio::test(start_paused = true)]
async fn a_write_that_takes_an_object_out_of_a_selection_is_waited_for() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let selected = Wanted {
        selection: Selection {
            labels: LabelSelector::parse("fresh=yes").unwrap(),
            ..Selection::default()
        },
        ..Wanted::from("configmaps")
    };
    let controller = Controller::for_("apps.x.io").owns(selected.clone()).reconcile(
        move |app: Object, context: Context| {
            let (seen, selected) = (seen.clone(), selected.clone());
            async move {
                let fresh = if n_of(&app) == 1 { "yes" } else { "no" };
                let n_shown = context.owned(selected).await?.len();
                seen.add(format!("{} with {n_shown}", n_of(&app)));
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "m", "labels": {"fresh": fresh}}});
                context.apply_owned(&map).await?;
                Ok(Action::Done)
            }
        },
    );
    stage.server.faults().lag("configmaps", Duration::from_secs(3));
    let running = stage.run(controller);
    stage.create("a").await;
    for n in 1..3 {
        notes.until_count(&format!("{n} with {}", n - 1), 1).await;
        stage.set("a", n + 1).await;
    }
    notes.until_count("3 with 0", 1).await;
    running.stop().await;
}

/// Deletes all of its maps whenever `n` is even, a second after it has written another, and notes how many it sees.
fn clearing(notes: &Notes) -> Controller {
    let seen = notes.clone();
    Controller::for_("apps.x.io")
        .owns("configmaps")
        .reconcile(move |app: Object, context: Context| {
            let seen = seen.clone();
            async move {
                let n_shown = context.owned("configmaps").await?.len();
                seen.add(format!("{} with {n_shown}", n_of(&app)));
                if n_of(&app) % 2 == 0 {
                    let maps = GroupVersionKind::new("", "v1", "ConfigMap");
                    let maps = context.resource(&maps).await?;
                    let maps = Api::namespaced(context.client(), &maps, app.namespace());
                    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"},
                        "data": {"n": n_of(&app).to_string()}});
                    context.apply(&other).await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let ours = ListParams {
                        label_selector: "of=a".to_owned(),
                        ..ListParams::default()
                    };
                    maps.delete_collection(&DeleteParams::default(), &ours).await?;
                    seen.add("cleared");
                }
                Ok(Action::Done)
            }
        })
}

/// Makes two maps of an app; the second one stays when it is deleted.
async fn make_maps(stage: &Stage, app: &Value) {
    let app = Object::from_value(app).unwrap();
    for (name, finalizers) in [("goes", json!([])), ("stays", json!(["x.io/held"]))] {
        let metadata = json!({"name": name, "namespace": "default", "labels": {"of": "a"},
            "finalizers": finalizers,
            "ownerReferences": [skopos_controller::controller_reference(&app)]});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        stage.server.put(&map).await;
    }
}

/// The list that a server answers with has the version of before the deletes.
#[tokio::test(start_paused = true)]
async fn what_was_deleted_with_others_is_waited_for() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let app = stage.create("a").await;
    make_maps(&stage, &app).await;
    stage.server.faults().lag("configmaps", Duration::from_secs(3));
    let running = stage.run(clearing(&notes));
    notes.until(&["1 with 2"]).await;
    stage.set("a", 2).await;
    notes.until_count("cleared", 1).await;
    stage.set("a", 3).await;
    // One is gone, and the other shows that it is to go.
    notes.until_count("3 with 1", 1).await;
    assert_eq!(notes.count("3 with 2"), 0);
    // What was to go already does not change any more, and is not waited for.
    stage.set("a", 4).await;
    notes.until_count("cleared", 2).await;
    stage.set("a", 5).await;
    let begin = Instant::now();
    notes.until_count("5 with 1", 1).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_although_others_change_the_object_meanwhile() {
    let stage = Stage::new().await;
    let controller = Controller::for_("apps.x.io").reconcile(|_: Object, context: Context| async move {
        context
            .status(|status| {
                status
                    .set("phase", "Ready")
                    .condition("Ready", true, "AllWell", "it runs");
            })
            .await?;
        Ok(Action::Done)
    });
    stage
        .server
        .faults()
        .add(Rule::write().resource("apps").first(2).then(Fault::conflict()));
    let running = stage.run(controller);
    stage.create("a").await;
    eventually(async || {
        let app = stage.apps().get("a").await.unwrap();
        if app["status"]["phase"] == "Ready" {
            Ok(())
        } else {
            Err(app["status"].to_string())
        }
    })
    .await;
    let app = stage.apps().get("a").await.unwrap();
    assert_eq!(app["status"]["conditions"][0]["observedGeneration"], 1);
    assert_eq!(app["status"]["conditions"][0]["status"], "True");
    assert_eq!(running.metric("controller_runtime_reconcile_errors_total"), 0.0);
    running.stop().await;
}

/// Each reconcile says that it begins, and that all is well again: which is what the cache has shown all along.
#[tokio::test(start_paused = true)]
async fn a_status_written_twice_in_a_reconcile_is_the_second_in_the_end() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            for phase in ["Updating", "Ready"] {
                context.status(|status| _ = status.set("phase", phase)).await?;
            }
            seen.add("reconciled");
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    for n in 1..3 {
        notes.until_count("reconciled", n).await;
        let app = stage.apps().get("a").await.unwrap();
        assert_eq!(app["status"]["phase"], "Ready", "after {n}");
        stage
            .patch("a", json!({"metadata": {"annotations": {"n": n.to_string()}}}))
            .await;
    }
    running.stop().await;
}

/// The same, by way of the client.
#[tokio::test(start_paused = true)]
async fn a_status_takes_account_of_what_the_reconcile_wrote_by_itself() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let apps = context.resource(&app.group_version_kind()).await?;
            let apps = Api::namespaced(context.client(), &apps, app.namespace());
            let updating = json!({"status": {"phase": "Updating"}});
            apps.patch_subresource("a", "status", Patch::Merge(&updating), &WriteParams::default())
                .await?;
            context.status(|status| _ = status.set("phase", "Ready")).await?;
            seen.add("reconciled");
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    for n in 1..3 {
        notes.until_count("reconciled", n).await;
        let app = stage.apps().get("a").await.unwrap();
        assert_eq!(app["status"]["phase"], "Ready", "after {n}");
        stage
            .patch("a", json!({"metadata": {"annotations": {"n": n.to_string()}}}))
            .await;
    }
    running.stop().await;
}

/// A cache of nothing but metadata does not show the status, and conditions are replaced as a whole.
#[tokio::test(start_paused = true)]
async fn conditions_of_others_stay_although_the_cache_has_only_metadata() {
    let stage = Stage::new().await;
    let metadata = CollectionName::from("apps.x.io").with_content(Content::Metadata);
    let controller = Controller::for_(metadata).reconcile(|_: Object, context: Context| async move {
        context
            .status(|status| _ = status.condition("Ready", true, "AllWell", ""))
            .await?;
        Ok(Action::Done)
    });
    stage.create("a").await;
    let theirs = json!({"status": {"conditions": [{"type": "Theirs", "status": "True", "reason": "Is",
        "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}});
    stage
        .apps()
        .patch_subresource("a", "status", Patch::Merge(&theirs), &WriteParams::default())
        .await
        .unwrap();
    let running = stage.run(controller);
    eventually(async || {
        let app = stage.apps().get("a").await.unwrap();
        let conditions = app["status"]["conditions"].as_array().unwrap().clone();
        let kinds: Vec<_> = conditions.iter().map(|it| it["type"].clone()).collect();
        if kinds == ["Theirs", "Ready"] {
            Ok(())
        } else {
            Err(format!("{kinds:?}"))
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_status_says_what_to_do() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("configmaps").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            if context.object().name() == "m" {
                let error = context
                    .status(|status| {
                        status.set("x", 1);
                    })
                    .await
                    .unwrap_err();
                seen.add(error.to_string());
            }
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage
        .server
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: default}}")
        .await;
    let text = "configmaps has no status subresource: add `subresources: {status: {}}` to its definition";
    notes.until_count(text, 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_meant_for_an_object_is_not_written_to_the_next_of_its_name() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let (seen, apps) = (notes.clone(), stage.apps());
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let (seen, apps) = (seen.clone(), apps.clone());
        async move {
            if n_of(&app) == 2 {
                return Ok(Action::Done);
            }
            apps.delete("a", &DeleteParams::default()).await?;
            let next =
                json!({"apiVersion": "x.io/v1", "kind": "App", "metadata": {"name": "a"}, "spec": {"n": 2}});
            apps.create(&next, &WriteParams::default()).await?;
            let written = context.status(|status| {
                status.set("seen", 1);
            });
            match written.await {
                Err(Error::Replaced(object)) => seen.add(format!("{object} is another")),
                other => seen.add(format!("{other:?}")),
            }
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until(&["default/a is another"]).await;
    let next = stage.apps().get("a").await.unwrap();
    assert_eq!((&next["spec"]["n"], &next["status"]), (&json!(2), &json!(null)));
    running.stop().await;
}
