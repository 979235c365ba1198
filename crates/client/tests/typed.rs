//! Access with types, against a scripted server.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use k8s_openapi::api::core::v1::ConfigMap;
use skopos_client::{ListParams, TypedApi, WatchParams, WriteParams, from_object};
use skopos_object::WatchEvent;
use support::{event, exchange, list, scripted};

const MAP: &str =
    r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"1"},"data":{"colour":"blue"}}"#;

const GONE: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"configmaps \"gone\" not found",
    "reason":"NotFound","details":{"name":"gone","kind":"configmaps"},"code":404}"#;

#[tokio::test]
async fn a_kind_that_is_not_served_does_not_mean_that_an_object_is_gone() {
    let (client, _) = scripted(vec![exchange(&["configmaps/a"], 404, "404 page not found\n")]);
    let maps = TypedApi::<ConfigMap>::namespaced(&client, "n");
    let error = maps.find("a").await.unwrap_err();
    assert!(error.is_not_found() && !error.is_object_not_found(), "{error}");
}

#[tokio::test]
async fn types_are_taken_and_given_by_all_verbs() {
    let path = "/api/v1/namespaces/n/configmaps";
    let (client, left) = scripted(vec![
        exchange(&["GET /api/v1/namespaces/n/configmaps/a "], 200, MAP),
        exchange(&["POST", path], 201, MAP),
        exchange(&["PUT", "configmaps/a "], 200, MAP),
        exchange(&["PATCH", "fieldManager=me", "force=true"], 200, MAP),
        exchange(&["GET", path], 200, list(&[MAP.into()], 5, "")),
        exchange(&["watch=true"], 200, event("ADDED", MAP)),
        exchange(&["GET", "configmaps/gone"], 404, GONE),
    ]);
    let maps = TypedApi::<ConfigMap>::namespaced(&client, "n");
    let map = maps.get("a").await.unwrap();
    assert_eq!(map.data.as_ref().unwrap()["colour"], "blue");
    let params = WriteParams::default();
    assert_eq!(maps.create(&map, &params).await.unwrap(), map);
    assert_eq!(maps.update("a", &map, &params).await.unwrap(), map);
    assert_eq!(maps.apply("a", &map, "me", true).await.unwrap(), map);
    let mut all = maps.list(&ListParams::default());
    assert_eq!(all.next().await.unwrap(), Some(map.clone()));
    assert_eq!(all.next().await.unwrap(), None);
    let mut watch = maps.watch(&WatchParams::default()).await.unwrap();
    let Some(WatchEvent::Added(object)) = watch.next().await.unwrap() else {
        panic!("not added")
    };
    assert_eq!(from_object::<ConfigMap>(&object).unwrap(), map);
    assert_eq!(maps.find("gone").await.unwrap(), None);
    assert_eq!(left.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn scales_are_read_and_set() {
    let scale = r#"{"kind":"Scale","spec":{"replicas":3},"status":{"replicas":2,"selector":"app=a"}}"#;
    let (client, _) = scripted(vec![
        exchange(&["GET", "configmaps/a/scale"], 200, scale),
        exchange(&["PATCH", "configmaps/a/scale"], 200, scale),
    ]);
    let api = TypedApi::<ConfigMap>::namespaced(&client, "n");
    let read = api.scale("a").await.unwrap();
    assert_eq!(
        (read.replicas, read.current_replicas, read.selector.as_str()),
        (3, 2, "app=a")
    );
    assert_eq!(
        api.set_scale("a", 3, &WriteParams::default()).await.unwrap(),
        read
    );
}

#[tokio::test]
async fn an_object_that_does_not_fit_the_type_is_an_error_and_no_more() {
    let odd = r#"{"metadata":{"name":"b","namespace":"n"},"data":7}"#;
    let (client, _) = scripted(vec![exchange(&[], 200, list(&[odd.into(), MAP.into()], 5, ""))]);
    let mut all = TypedApi::<ConfigMap>::all(&client).list(&ListParams::default());
    let error = all.next().await.unwrap_err();
    assert!(error.to_string().contains("n/b: it does not fit"), "{error}");
    assert!(all.next().await.unwrap().is_some());
}
