//! Built-in kinds that need more than storing: services, events, secrets, reviews.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Clock, HOME, Server, version};

const SERVICES: &str = "/api/v1/namespaces/home/services";
const EVENTS: &str = "/api/v1/namespaces/home/events";

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    object["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    object
}

fn event(name: &str) -> Value {
    let involved = json!({"kind": "Pod", "namespace": "home", "name": "p"});
    json!({"metadata": {"name": name}, "involvedObject": involved, "reason": "Started", "message": "m", "type": "Normal"})
}

#[tokio::test]
async fn services_get_an_address_of_their_own() {
    let server = Server::start().await;
    let create = async |i: usize| {
        let created = server
            .post(SERVICES, service(&format!("s{i}"), json!({})))
            .await
            .ok();
        assert_eq!(
            created["spec"]["clusterIPs"],
            json!([created["spec"]["clusterIP"]])
        );
        assert_eq!(created["spec"]["type"], "ClusterIP");
        created["spec"]["clusterIP"].as_str().unwrap().to_owned()
    };
    let addresses: BTreeSet<String> = join_all((0..16).map(create)).await.into_iter().collect();
    assert_eq!(addresses.len(), 16, "{addresses:?}");
    assert!(
        addresses.iter().all(|address| address.starts_with("10.")),
        "{addresses:?}"
    );
}

#[tokio::test]
async fn a_service_keeps_its_address() {
    let server = Server::start().await;
    let created = server.post(SERVICES, service("a", json!({}))).await.ok();
    let updated = server
        .put(
            &format!("{SERVICES}/a"),
            &service("a", json!({"selector": {"x": "y"}})),
        )
        .await
        .ok();
    assert_eq!(updated["spec"]["clusterIP"], created["spec"]["clusterIP"]);
    assert_eq!(updated["spec"]["clusterIPs"], created["spec"]["clusterIPs"]);
    assert_eq!(updated["spec"]["selector"], json!({"x": "y"}));
}

#[tokio::test]
async fn a_service_can_change_its_type() {
    let server = Server::start().await;
    let path = &format!("{SERVICES}/a");
    server
        .post(SERVICES, service("a", json!({"type": "NodePort"})))
        .await
        .ok();
    let inside = server
        .merge(path, json!({"spec": {"type": "ClusterIP"}}))
        .await
        .ok();
    assert_eq!(inside["spec"]["ports"][0].get("nodePort"), None);
    let name = json!({"spec": {"type": "ExternalName", "externalName": "example.org"}});
    let outside = server.merge(path, name).await.ok();
    assert_eq!(outside["spec"].get("clusterIP"), None);
    let inside = server
        .merge(path, json!({"spec": {"type": "ClusterIP", "externalName": null}}))
        .await
        .ok();
    assert!(inside["spec"]["clusterIP"].is_string());
}

#[tokio::test]
async fn a_bound_claim_grows_if_its_class_says_so() {
    let server = Server::start().await;
    let class = |name: &str, grows: bool| json!({"metadata": {"name": name}, "provisioner": "p", "allowVolumeExpansion": grows});
    let claims = &format!("{HOME}/persistentvolumeclaims");
    let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    for (name, grows, code) in [("grows", true, 200), ("stays", false, 403)] {
        let classes = "/apis/storage.k8s.io/v1/storageclasses";
        server.post(classes, class(name, grows)).await.ok();
        let mut spec = size("1Gi");
        spec["storageClassName"] = name.into();
        spec["accessModes"] = json!(["ReadWriteOnce"]);
        let claim = json!({"metadata": {"name": name}, "spec": spec});
        server.post(claims, claim).await.ok();
        let path = &format!("{claims}/{name}");
        let status = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        server.merge(&format!("{path}/status"), status).await.ok();
        let answer = server.merge(path, json!({"spec": size("2Gi")})).await;
        assert_eq!(answer.code, code, "{}", answer.text());
        server.delete(&format!("{classes}/{name}")).await.ok();
    }
}

#[tokio::test]
async fn headless_and_external_services_have_no_address() {
    let server = Server::start().await;
    let headless = server
        .post(SERVICES, service("a", json!({"clusterIP": "None"})))
        .await
        .ok();
    assert_eq!(
        (&headless["spec"]["clusterIP"], &headless["spec"]["clusterIPs"]),
        (&json!("None"), &json!(["None"]))
    );
    let external =
        json!({"metadata": {"name": "b"}, "spec": {"type": "ExternalName", "externalName": "example.org"}});
    let external = server.post(SERVICES, external).await.ok();
    assert_eq!(external["spec"].get("clusterIP"), None);
}

#[tokio::test]
async fn an_address_can_be_asked_for_and_given_once() {
    let server = Server::with(|_| {}).await;
    let wish = json!({"clusterIP": "10.96.7.7"});
    let created = server.post(SERVICES, service("a", wish.clone())).await.ok();
    assert_eq!(created["spec"]["clusterIP"], "10.96.7.7");
    let taken = server.post(SERVICES, service("b", wish)).await;
    let message = "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.7.7\"]: failed to allocate IP 10.96.7.7: provided IP is already allocated";
    taken.refused(422, "Invalid", message);
}

#[tokio::test]
async fn the_server_is_a_service_of_its_own() {
    let server = Server::start().await;
    let service = server
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .ok();
    assert!(service["spec"]["clusterIP"].as_str().unwrap().ends_with(".0.1"));
}

#[tokio::test]
async fn old_events_are_forgotten() {
    let server = Server::with(|config| config.event_ttl = Duration::ZERO).await;
    let clock = Clock::stop();
    let created = server.post(EVENTS, event("a")).await.ok();
    let mut watch = server
        .watch(&format!("{EVENTS}?resourceVersion={}", version(&created)))
        .await;
    let (deleted, ()) = tokio::join!(watch.next(), clock.advance(Duration::from_secs(60)));
    assert_eq!(deleted.brief(), "DELETED a");
}

#[tokio::test]
async fn young_events_stay() {
    let server = Server::with(|config| config.event_ttl = Duration::from_secs(3600)).await;
    let clock = Clock::stop();
    server.post(EVENTS, event("a")).await.ok();
    for _ in 0..5 {
        clock.advance(Duration::from_secs(60)).await;
    }
    server.get(&format!("{EVENTS}/a")).await.ok();
}

#[tokio::test]
async fn both_event_groups_show_the_same_events() {
    let server = Server::start().await;
    let created = server.post(EVENTS, event("a")).await.ok();
    let new = server
        .get("/apis/events.k8s.io/v1/namespaces/home/events/a")
        .await
        .ok();
    assert_eq!(
        (&new["apiVersion"], &new["kind"]),
        (&json!("events.k8s.io/v1"), &json!("Event"))
    );
    assert_eq!(
        (&new["note"], &new["regarding"]),
        (&created["message"], &created["involvedObject"])
    );
    assert_eq!(new["metadata"], created["metadata"]);
    let selected = server
        .names(&format!(
            "{EVENTS}?fieldSelector=involvedObject.name%3Dp,reason%3DStarted"
        ))
        .await;
    assert_eq!(selected, ["a"]);
}

#[tokio::test]
async fn secrets_take_text_and_keep_bytes() {
    let server = Server::start().await;
    let secrets = &format!("{HOME}/secrets");
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"k": "text"}, "data": {"b": "Ynl0ZXM="}});
    let created = server.post(secrets, secret).await.ok();
    assert_eq!(created["data"], json!({"b": "Ynl0ZXM=", "k": "dGV4dA=="}));
    assert_eq!(
        (created.get("stringData"), &created["type"]),
        (None, &json!("Opaque"))
    );
    let retyped = server
        .merge(&format!("{secrets}/a"), json!({"type": "x/y"}))
        .await;
    let message = "Secret \"a\" is invalid: type: Invalid value: \"x/y\": field is immutable";
    retyped.refused(422, "Invalid", message);
}

#[tokio::test]
async fn an_administrator_may_do_everything() {
    let server = Server::start().await;
    let review =
        json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "home"}}});
    let answer = server
        .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        .await;
    assert_eq!(
        (answer.code, &answer.body["status"]["allowed"]),
        (201, &json!(true))
    );
}
