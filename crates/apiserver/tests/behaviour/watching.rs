//! Watches: what comes first, what comes next, in which order, and how they end.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{CRDS, Clock, MAPS, Server, WIDGETS, config_map, version, widget, widgets, with_meta};

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_there_is() {
    let server = Server::with_widgets().await;
    let a = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    for query in ["", "?resourceVersion=", "?resourceVersion=0"] {
        let mut watch = server.watch(&format!("{WIDGETS}{query}")).await;
        let first = watch.next().await;
        assert_eq!((first.kind.as_str(), &first.object), ("ADDED", &a), "{query}");
        assert_eq!(watch.next().await.brief(), "ADDED b");
        server
            .merge(
                &format!("{WIDGETS}/b"),
                json!({"metadata": {"labels": {"q": format!("v{}", query.len())}}}),
            )
            .await
            .ok();
        assert_eq!(watch.next().await.brief(), "MODIFIED b");
    }
}

#[tokio::test]
async fn a_watch_from_a_version_begins_right_after_it() {
    let server = Server::with_widgets().await;
    let a = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let modified = server
        .merge(&format!("{WIDGETS}/a"), json!({"spec": {"size": 2}}))
        .await
        .ok();
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    server.delete(&format!("{WIDGETS}/a")).await.ok();
    let mut watch = server
        .watch(&format!("{WIDGETS}?resourceVersion={}", version(&a)))
        .await;
    let first = watch.next().await;
    assert_eq!((first.kind.as_str(), &first.object), ("MODIFIED", &modified));
    assert_eq!(watch.briefs(2).await, ["ADDED b", "DELETED a"]);
    let list = version(&server.get(WIDGETS).await.ok());
    let mut from_list = server.watch(&format!("{WIDGETS}?resourceVersion={list}")).await;
    server.post(WIDGETS, widget("c", json!({}))).await.ok();
    assert_eq!(from_list.next().await.brief(), "ADDED c");
    assert_eq!(watch.next().await.brief(), "ADDED c");
}

#[tokio::test]
async fn a_deletion_carries_the_last_state_and_its_own_version() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({"size": 3}))).await.ok();
    let mut watch = server
        .watch(&format!("{WIDGETS}?resourceVersion={}", version(&created)))
        .await;
    server.delete(&format!("{WIDGETS}/a")).await.ok();
    let deleted = watch.next().await;
    assert_eq!(deleted.kind, "DELETED");
    assert!(version(&deleted.object) > version(&created));
    let at_creation = with_meta(
        deleted.object,
        json!({"resourceVersion": created["metadata"]["resourceVersion"]}),
    );
    assert_eq!(at_creation, created);
}

#[tokio::test]
async fn a_selecting_watch_sees_objects_come_and_go() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a");
    for (selector, inside, outside) in [
        (
            "labelSelector=team%3Dx",
            json!({"metadata": {"labels": {"team": "x"}}}),
            json!({"metadata": {"labels": {"team": "y"}}}),
        ),
        (
            "fieldSelector=spec.color%3Dred",
            json!({"spec": {"color": "red"}}),
            json!({"spec": {"color": "blue"}}),
        ),
    ] {
        let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
        let mut watch = server
            .watch(&format!(
                "{WIDGETS}?{selector}&resourceVersion={}",
                version(&created)
            ))
            .await;
        let came = server.merge(path, inside).await.ok();
        let event = watch.next().await;
        assert_eq!(
            (event.kind.as_str(), &event.object),
            ("ADDED", &came),
            "{selector}"
        );
        let stayed = server.merge(path, json!({"spec": {"size": 9}})).await.ok();
        let event = watch.next().await;
        assert_eq!((event.kind.as_str(), &event.object), ("MODIFIED", &stayed));
        let left = server.merge(path, outside).await.ok();
        let event = watch.next().await;
        let version_of_change = json!({"resourceVersion": left["metadata"]["resourceVersion"]});
        let expected = with_meta(stayed, version_of_change);
        assert_eq!(
            (event.kind.as_str(), &event.object),
            ("DELETED", &expected),
            "the last state inside"
        );
        server.merge(path, json!({"spec": {"size": 10}})).await.ok();
        server.delete(path).await.ok();
        let inside = with_meta(
            widget("b", json!({"color": "red"})),
            json!({"labels": {"team": "x"}}),
        );
        server.post(WIDGETS, inside).await.ok();
        assert_eq!(
            watch.next().await.brief(),
            "ADDED b",
            "what happens outside is not seen"
        );
        server.delete(&format!("{WIDGETS}/b")).await.ok();
        assert_eq!(watch.next().await.brief(), "DELETED b");
    }
}

#[tokio::test]
async fn an_object_deleted_by_the_change_that_takes_it_out_is_deleted_once() {
    let server = Server::with_widgets().await;
    let metadata = json!({"labels": {"team": "x"}, "finalizers": ["x.io/y"]});
    server
        .post(WIDGETS, with_meta(widget("a", json!({})), metadata))
        .await
        .ok();
    let mut watch = server.watch(&format!("{WIDGETS}?labelSelector=team%3Dx")).await;
    server.delete(&format!("{WIDGETS}/a")).await.ok();
    let last = json!({"metadata": {"finalizers": null, "labels": null}});
    server.merge(&format!("{WIDGETS}/a"), last).await.ok();
    assert_eq!(watch.briefs(3).await, ["ADDED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn one_object_can_be_watched_by_selector_and_by_prefix() {
    let server = Server::start().await;
    for name in ["a", "ab", "b"] {
        server.post(MAPS, config_map(name, json!({}))).await.ok();
    }
    let prefixed = MAPS.replace("/v1/", "/v1/watch/");
    assert_eq!(
        server.get(&format!("{MAPS}/a?watch=true")).await.ok()["kind"],
        "ConfigMap",
        "a path with a name is a get"
    );
    for path in [
        format!("{MAPS}?fieldSelector=metadata.name%3Da"),
        format!("{prefixed}/a"),
    ] {
        let mut watch = server.watch(&path).await;
        assert_eq!(watch.next().await.brief(), "ADDED a", "{path}");
        let label = json!({"metadata": {"labels": {"l": path.len().to_string()}}});
        server.merge(&format!("{MAPS}/ab"), label.clone()).await.ok();
        server.merge(&format!("{MAPS}/a"), label).await.ok();
        assert_eq!(watch.next().await.brief(), "MODIFIED a", "{path}");
    }
}

#[tokio::test]
async fn a_watch_over_all_namespaces_sees_all_of_them() {
    let server = Server::with_widgets().await;
    let from = version(&server.get(WIDGETS).await.ok());
    server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    let mut all = server
        .watch(&format!("/apis/example.com/v1/widgets?resourceVersion={from}"))
        .await;
    let mut home = server.watch(&format!("{WIDGETS}?resourceVersion={from}")).await;
    server
        .post(&WIDGETS.replace("home", "home-b"), widget("there", json!({})))
        .await
        .ok();
    server.post(WIDGETS, widget("here", json!({}))).await.ok();
    assert_eq!(all.briefs(2).await, ["ADDED there", "ADDED here"]);
    assert_eq!(home.next().await.brief(), "ADDED here");
}

#[tokio::test]
async fn streamed_lists_end_with_a_bookmark() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = server.watch(&format!("{WIDGETS}?{query}")).await;
    assert_eq!(watch.next().await.brief(), "ADDED a");
    let end = watch.next().await;
    assert_eq!(end.kind, "BOOKMARK");
    assert_eq!(end.object["kind"], "Widget");
    assert_eq!(
        end.object["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    let at = version(&end.object);
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    assert_eq!(watch.next().await.brief(), "ADDED b");
    let mut resumed = server.watch(&format!("{WIDGETS}?resourceVersion={at}")).await;
    assert_eq!(
        resumed.next().await.brief(),
        "ADDED b",
        "a bookmark's version is good to resume from"
    );
}

/// Such a watch begins with what there is, as one that asks for it.
#[tokio::test]
async fn a_watch_from_no_version_with_bookmarks_tells_when_it_has_told_all() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    for query in ["", "&resourceVersion=0"] {
        let path = format!("{WIDGETS}?allowWatchBookmarks=true{query}");
        let mut watch = server.watch(&path).await;
        assert_eq!(watch.next().await.brief(), "ADDED a");
        let end = watch.next().await;
        let annotations = &end.object["metadata"]["annotations"];
        assert_eq!(
            annotations,
            &json!({"k8s.io/initial-events-end": "true"}),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_streamed_list_from_the_future_is_an_error_in_the_stream() {
    let server = Server::start().await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999999";
    let mut watch = server.watch(&format!("{MAPS}?{query}")).await;
    let error = watch.next().await;
    assert_eq!(
        (error.kind.as_str(), &error.object["code"]),
        ("ERROR", &json!(504))
    );
    assert_eq!(
        error.object["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(watch.try_next().await, None);
}

#[tokio::test]
async fn initial_events_can_be_declined() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = server.watch(&format!("{WIDGETS}?{query}")).await;
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    assert_eq!(watch.next().await.brief(), "ADDED b");
}

#[tokio::test]
async fn bookmarks_come_while_nothing_else_does() {
    let server = Server::with(|config| config.bookmark_interval = Duration::from_millis(5)).await;
    let mut watch = server
        .watch(&format!(
            "{MAPS}?allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone"
        ))
        .await;
    let first = watch.next().await;
    assert_eq!(first.kind, "BOOKMARK");
    assert_eq!(
        (&first.object["apiVersion"], &first.object["kind"]),
        (&json!("v1"), &json!("ConfigMap"))
    );
    let elsewhere = server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    loop {
        let event = watch.next().await;
        assert_eq!(event.kind, "BOOKMARK");
        if version(&event.object) >= version(&elsewhere) {
            break;
        }
    }
}

#[tokio::test]
async fn only_who_asks_gets_bookmarks() {
    let server = Server::with(|config| config.bookmark_interval = Duration::from_millis(1)).await;
    let mut asks = server
        .watch(&format!("{MAPS}?allowWatchBookmarks=true&labelSelector=l"))
        .await;
    let mut does_not = server.watch(&format!("{MAPS}?labelSelector=l")).await;
    assert_eq!(asks.next().await.kind, "BOOKMARK");
    server
        .post(
            MAPS,
            with_meta(config_map("a", json!({})), json!({"labels": {"l": ""}})),
        )
        .await
        .ok();
    assert_eq!(does_not.next().await.brief(), "ADDED a");
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_last_bookmark_before() {
    let server = Server::with(|_| {}).await;
    let now = version(&server.get(MAPS).await.ok());
    let clock = Clock::stop();
    let mut watch = server
        .watch(&format!(
            "{MAPS}?timeoutSeconds=30&allowWatchBookmarks=true&labelSelector=l&resourceVersion={now}"
        ))
        .await;
    let mut plain = server
        .watch(&format!("{MAPS}?timeoutSeconds=30&labelSelector=l"))
        .await;
    let advance = async {
        clock.advance(Duration::from_secs(29)).await;
        clock.advance(Duration::from_secs(2)).await;
    };
    let (mark, end, ()) = tokio::join!(async { watch.next().await.kind }, plain.try_next(), advance);
    assert_eq!((mark.as_str(), end), ("BOOKMARK", None));
    assert_eq!(watch.try_next().await, None);
}

#[tokio::test]
async fn a_watch_without_a_timeout_gets_one() {
    let server = Server::with(|config| config.min_watch_timeout = Duration::from_millis(10)).await;
    let mut watch = server.watch(&format!("{MAPS}?labelSelector=l")).await;
    assert_eq!(watch.try_next().await, None);
}

#[tokio::test]
async fn a_version_that_is_forgotten_is_an_error_in_the_stream() {
    let server = Server::with(|config| config.store.history.max_events = 4).await;
    let then = version(&server.post(MAPS, config_map("a", json!({}))).await.ok());
    for i in 0..10 {
        server
            .merge(&format!("{MAPS}/a"), json!({"data": {"i": i.to_string()}}))
            .await
            .ok();
    }
    let mut watch = server.watch(&format!("{MAPS}?resourceVersion={then}")).await;
    let error = watch.next().await;
    assert_eq!(
        (error.kind.as_str(), &error.object["kind"]),
        ("ERROR", &json!("Status"))
    );
    assert_eq!(
        (&error.object["code"], &error.object["reason"]),
        (&json!(410), &json!("Expired"))
    );
    let message = error.object["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("too old resource version: {then} (")),
        "{message}"
    );
    assert_eq!(watch.try_next().await, None);
}

#[tokio::test]
async fn a_watcher_that_falls_behind_is_cut_off_without_a_gap() {
    let server = Server::with(|config| config.store.history.max_events = 16).await;
    let created = server.post(MAPS, config_map("a", json!({"i": "0"}))).await.ok();
    let mut watch = server
        .watch(&format!("{MAPS}?resourceVersion={}", version(&created)))
        .await;
    for i in 1..=100 {
        server
            .merge(&format!("{MAPS}/a"), json!({"data": {"i": i.to_string()}}))
            .await
            .ok();
    }
    let mut expected = 1;
    loop {
        let event = watch.next().await;
        if event.kind == "ERROR" {
            assert_eq!(event.object["code"], 410);
            break;
        }
        assert_eq!(
            event.object["data"]["i"],
            expected.to_string(),
            "no event is skipped"
        );
        expected += 1;
    }
    assert!(expected <= 100, "a watcher that slow cannot have seen everything");
    assert_eq!(watch.try_next().await, None);
}

#[tokio::test]
async fn all_watches_see_the_same_order() {
    let server = Server::with_widgets().await;
    let from = version(&server.get(WIDGETS).await.ok());
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(server.watch(&format!("{WIDGETS}?resourceVersion={from}")).await);
    }
    let write = async |i: usize| {
        let name = format!("w{i}");
        server.post(WIDGETS, widget(&name, json!({}))).await.ok();
        server
            .merge(&format!("{WIDGETS}/{name}"), json!({"spec": {"size": 5}}))
            .await
            .ok();
        server.delete(&format!("{WIDGETS}/{name}")).await.ok();
    };
    join_all((0..10).map(write)).await;
    let mut orders = Vec::new();
    for watch in &mut watches {
        let mut seen = Vec::new();
        for _ in 0..30 {
            let event = watch.next().await;
            seen.push((version(&event.object), event.brief()));
        }
        assert!(
            seen.is_sorted_by(|a, b| a.0 < b.0),
            "versions go upwards: {seen:?}"
        );
        orders.push(seen);
    }
    assert!(orders.iter().all(|order| *order == orders[0]));
}

#[tokio::test]
async fn a_watch_in_tables_sends_columns_once() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    server
        .post(WIDGETS, widget("b", json!({"color": "red"})))
        .await
        .ok();
    let mut watch = server
        .watch_as(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await;
    let (first, second) = (watch.next().await.object, watch.next().await.object);
    assert_eq!(
        (
            first["kind"].as_str(),
            first["columnDefinitions"].as_array().unwrap().len()
        ),
        (Some("Table"), 3)
    );
    assert_eq!(first["rows"][0]["cells"][0], "a");
    assert_eq!(
        (&second["columnDefinitions"], &second["rows"][0]["cells"]),
        (&Value::Null, &json!(["b", "red", 1]))
    );
}

#[tokio::test]
async fn a_watch_survives_changes_of_the_definition() {
    let server = Server::with(|_| {}).await;
    server.install(widgets()).await;
    let mut watch = server.watch(WIDGETS).await;
    let add = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/new", "value": {"type": "string", "default": "yes"}}]);
    server
        .patch(&format!("{CRDS}/widgets.example.com"), "json-patch", add)
        .await
        .ok();
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let event = watch.next().await;
    assert_eq!(
        (event.brief().as_str(), &event.object["spec"]["new"]),
        ("ADDED a", &json!("yes"))
    );
}

#[tokio::test]
async fn a_watch_tells_its_content_type() {
    let server = Server::start().await;
    let watch = server.watch(MAPS).await;
    assert_eq!(watch.headers["content-type"], "application/json");
}
