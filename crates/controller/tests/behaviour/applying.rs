//! Objects that ought to be there.

use serde_json::json;
use skopos_client::{DeleteParams, Patch, WriteParams};
use skopos_controller::{Action, Context, Controller, ControllerConfig, Failure};
use skopos_object::Object;
use skopos_testkit::{Fault, Rule, definition, eventually, value};

use crate::stage::{Notes, Stage, n_of};

/// Makes a map for each app, with `n` in it, and more while `n` is odd.
async fn make_map(app: Object, context: Context) -> Result<Action, Failure> {
    let n = n_of(&app);
    let mut data = json!({"n": n.to_string()});
    if n % 2 == 1 {
        data["odd"] = "yes".into();
    }
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": app.name()}, "data": data});
    context.apply_owned(&map).await?;
    Ok(Action::Done)
}

fn controller() -> Controller {
    Controller::for_("apps.x.io")
        .named("maps")
        .owns("configmaps")
        .reconcile(make_map)
}

pub(crate) async fn until_data(stage: &Stage, expect: &serde_json::Value) {
    eventually(async || {
        let map = stage.maps().find("a").await.unwrap();
        let data = map.map(|map| map["data"].clone()).unwrap_or_default();
        if data == *expect {
            Ok(())
        } else {
            Err(data.to_string())
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_wanted_is_removed_and_what_others_added_stays() {
    let stage = Stage::new().await;
    let running = stage.run(controller());
    stage.create("a").await;
    until_data(&stage, &json!({"n": "1", "odd": "yes"})).await;
    let patch = json!({"data": {"theirs": "x"}});
    stage
        .maps()
        .patch("a", Patch::Merge(&patch), &WriteParams::default())
        .await
        .unwrap();
    stage.set("a", 2).await;
    until_data(&stage, &json!({"n": "2", "theirs": "x"})).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_and_a_deleted_object_comes_back() {
    let stage = Stage::new().await;
    let running = stage.run(controller());
    stage.create("a").await;
    let wanted = json!({"n": "1", "odd": "yes"});
    until_data(&stage, &wanted).await;
    let patch = json!({"data": {"n": "77", "odd": null}});
    stage
        .maps()
        .patch("a", Patch::Merge(&patch), &WriteParams::default())
        .await
        .unwrap();
    until_data(&stage, &wanted).await;
    stage.maps().delete("a", &DeleteParams::default()).await.unwrap();
    until_data(&stage, &wanted).await;
    running.stop().await;
}

/// Makes a map with a field, and a second one while `n` is odd: without it, it is what it was before.
pub(crate) fn adding_a_field() -> Controller {
    Controller::for_("apps.x.io")
        .named("maps")
        .owns("configmaps")
        .reconcile(|app: Object, context: Context| async move {
            let mut data = json!({"always": "yes"});
            if n_of(&app) % 2 == 1 {
                data["odd"] = "yes".into();
            }
            let map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            context.apply_owned(&map).await?;
            Ok(Action::Done)
        })
}

/// A field is added, and nobody hears that it is; before that is tried again, it is not wanted any more. What is wanted
/// then is what was applied last with an answer, and the object contains it.
#[tokio::test(start_paused = true)]
async fn a_field_that_was_added_without_an_answer_is_removed() {
    let stage = Stage::new().await;
    let running = stage.run(adding_a_field());
    stage.create("a").await;
    stage.set("a", 2).await;
    until_data(&stage, &json!({"always": "yes"})).await;
    let lost = Rule::write().resource("configmaps").then(Fault::LostAnswer);
    let lost = stage.server.faults().add(lost);
    stage.set("a", 3).await;
    until_data(&stage, &json!({"always": "yes", "odd": "yes"})).await;
    stage.set("a", 4).await;
    lost.remove();
    until_data(&stage, &json!({"always": "yes"})).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_would_change_nothing_is_not_sent() {
    let stage = Stage::new().await;
    let running = stage.run(controller());
    stage.create("a").await;
    until_data(&stage, &json!({"n": "1", "odd": "yes"})).await;
    let version = |map: serde_json::Value| map["metadata"]["resourceVersion"].clone();
    let before = version(stage.maps().get("a").await.unwrap());
    for label in ["x", "y"] {
        stage
            .patch("a", json!({"metadata": {"labels": {"l": label}}}))
            .await;
    }
    eventually(async || {
        let n = running.metric("skopos_controller_writes_suppressed_total");
        if n >= 2.0 { Ok(()) } else { Err(n.to_string()) }
    })
    .await;
    assert_eq!(version(stage.maps().get("a").await.unwrap()), before);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_controller_is_left_alone() {
    let stage = Stage::new().await;
    let map = value(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, ownerReferences: [
          {apiVersion: v1, kind: Secret, name: s, uid: u, controller: true}]}, data: {k: v}}",
    );
    // Its owner must exist, or it is garbage.
    let secret = value("{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: default}}");
    let secret = stage.server.put(&secret).await;
    let mut map = map;
    map["metadata"]["ownerReferences"][0]["uid"] = secret["metadata"]["uid"].clone();
    stage.server.put(&map).await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io")
        .owns("configmaps")
        .reconcile(move |app, context| {
            let seen = seen.clone();
            async move {
                let made = make_map(app, context).await;
                seen.add(
                    made.as_ref()
                        .map_or_else(Failure::to_string, |_| "made".to_owned()),
                );
                made
            }
        });
    let running = stage.run(controller);
    stage.create("a").await;
    notes
        .until_count("ConfigMap default/a is controlled by Secret s", 1)
        .await;
    assert_eq!(stage.maps().get("a").await.unwrap()["data"], json!({"k": "v"}));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn owned_objects_are_found_by_their_owner() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller =
        Controller::for_("apps.x.io")
            .owns("configmaps")
            .reconcile(move |app: Object, context: Context| {
                let seen = seen.clone();
                async move {
                    make_map(app, context.clone()).await?;
                    let owned = context.owned("configmaps").await?;
                    seen.add(format!("{} owns {}", context.key(), owned.len()));
                    Ok(Action::Done)
                }
            });
    let running = stage.run(controller);
    stage.create("a").await;
    stage.create("b").await;
    notes.until_count("default/a owns 1", 1).await;
    notes.until_count("default/b owns 1", 1).await;
    running.stop().await;
}

/// An owner is deleted and made anew; what the earlier one controlled is held by somebody else, and still there.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_owner_of_the_same_name_controls_is_not_taken() {
    let stage = Stage::new().await;
    let earlier = Object::from_value(&stage.create("a").await).unwrap();
    let owner = skopos_controller::controller_reference(&earlier);
    let metadata =
        json!({"name": "a", "namespace": "default", "finalizers": ["z.io/held"], "ownerReferences": [owner]});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}});
    stage.server.put(&map).await;
    stage.delete("a").await;
    stage.create("a").await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller =
        Controller::for_("apps.x.io")
            .owns("configmaps")
            .reconcile(move |app: Object, context: Context| {
                let seen = seen.clone();
                async move {
                    seen.add(format!("owns {}", context.owned("configmaps").await?.len()));
                    if let Err(failure) = make_map(app, context).await {
                        seen.add(failure.to_string());
                    }
                    Ok(Action::Done)
                }
            });
    let running = stage.run(controller);
    notes
        .until_count("ConfigMap default/a is controlled by App a", 1)
        .await;
    assert_eq!(notes.all()[0], "owns 0");
    assert_eq!(stage.maps().get("a").await.unwrap()["data"], json!({"k": "v"}));
    running.stop().await;
}

/// Who applies an object as it was read would send them; the server refuses that.
#[tokio::test(start_paused = true)]
async fn managed_fields_are_never_sent() {
    let stage = Stage::new().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    stage.maps().create(&map, &WriteParams::default()).await.unwrap();
    let (notes, maps) = (Notes::default(), stage.maps());
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let (seen, maps) = (seen.clone(), maps.clone());
        async move {
            let mut map = maps.get("a").await?;
            assert!(map["metadata"]["managedFields"].is_array(), "{map}");
            map["data"]["more"] = "yes".into();
            let applied = context.apply(&map).await;
            seen.add(applied.map_or_else(|error| Failure::from(error).to_string(), |_| "applied".to_owned()));
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until(&["applied"]).await;
    until_data(&stage, &json!({"k": "v", "more": "yes"})).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_applied_is_said_in_words() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            for wrong in [
                "{kind: ConfigMap}",
                "{apiVersion: v1, kind: ConfigMap}",
                "{apiVersion: v1, kind: ConfigMap, metadata: {}}",
                "{apiVersion: z.io/v1, kind: Lamp, metadata: {name: a}}",
            ] {
                let error = context.apply(&value(wrong)).await.unwrap_err();
                seen.add(Failure::from(error).to_string());
            }
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    notes
        .until(&[
            "the object to apply has no apiVersion or no kind",
            "the ConfigMap to apply has no metadata",
            "the ConfigMap to apply has no name",
            "cannot find the resource of Lamp: no resource is named Lamp (z.io/v1)",
        ])
        .await;
    running.stop().await;
}

/// Applied, written as status, and edited for the finalizer.
#[tokio::test(start_paused = true)]
async fn fields_belong_to_the_manager_that_is_configured_or_else_to_the_controllers_name() {
    for (configured, expect) in [(None, "maps"), (Some("somebody"), "somebody")] {
        let stage = Stage::new().await;
        let config = ControllerConfig {
            field_manager: configured.map(str::to_owned),
            ..ControllerConfig::default()
        };
        let controller = Controller::for_("apps.x.io")
            .named("maps")
            .with(config)
            .finalizer("x.io/held", |_: Object, _: Context| async { Ok(Action::Done) })
            .reconcile(|app: Object, context: Context| async move {
                context.status(|status| _ = status.set("phase", "Ready")).await?;
                make_map(app, context).await
            });
        let running = stage.run(controller);
        stage.create("a").await;
        until_data(&stage, &json!({"n": "1", "odd": "yes"})).await;
        let owners = |object: &serde_json::Value| -> Vec<String> {
            let entries = object["metadata"]["managedFields"].as_array().unwrap();
            let text =
                |entry: &serde_json::Value, field: &str| entry[field].as_str().unwrap_or("").to_owned();
            let named = entries.iter().map(|entry| (text(entry, "manager"), entry));
            let ours = named.filter(|(manager, _)| manager == expect);
            ours.map(|(_, entry)| format!("{} {}", text(entry, "operation"), text(entry, "subresource")))
                .collect()
        };
        let map = stage.maps().get("a").await.unwrap();
        assert_eq!(owners(&map), ["Apply "]);
        let app = stage.apps().get("a").await.unwrap();
        assert_eq!(owners(&app), ["Update ", "Update status"]);
        running.stop().await;
    }
}

/// Makes a map for the only cluster, in a namespace if it names one.
async fn applied_for_a_cluster(namespace: Option<&str>) -> (Stage, String) {
    let stage = Stage::new().await;
    let mut clusters = definition("y.io", "v1", "Cluster", "clusters");
    clusters["spec"]["scope"] = "Cluster".into();
    stage.server.put(&clusters).await;
    let notes = Notes::default();
    let (seen, namespace) = (notes.clone(), namespace.map(str::to_owned));
    let controller = Controller::for_("clusters.y.io").reconcile(move |_: Object, context: Context| {
        let (seen, namespace) = (seen.clone(), namespace.clone());
        async move {
            let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
            if let Some(namespace) = namespace {
                map["metadata"]["namespace"] = namespace.into();
            }
            let applied = context.apply_owned(&map).await;
            seen.add(applied.map_or_else(|error| error.to_string(), |map| map.key().to_string()));
            Ok::<_, Failure>(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage
        .server
        .apply("{apiVersion: y.io/v1, kind: Cluster, metadata: {name: c}}")
        .await;
    notes.until_some().await;
    running.stop().await;
    (stage, notes.all().remove(0))
}

#[tokio::test(start_paused = true)]
async fn what_has_no_namespace_and_is_for_one_that_has_none_is_refused_with_words() {
    let (_, said) = applied_for_a_cluster(None).await;
    assert_eq!(
        said,
        "the ConfigMap m to apply needs a namespace: the Cluster c has none"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_has_no_namespace_may_own_what_has_one() {
    let (stage, said) = applied_for_a_cluster(Some("default")).await;
    assert_eq!(said, "default/m");
    let map = stage.maps().get("m").await.unwrap();
    let owner = &map["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Cluster"), &json!("c")));
}
