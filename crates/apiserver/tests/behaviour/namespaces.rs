//! Namespaces: what they are born with and how they go.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Server, conditions, config_map, has_condition, widget, widgets, with_meta};

const NAMESPACES: &str = "/api/v1/namespaces";
const B: &str = "/api/v1/namespaces/home-b";

async fn with_second_namespace() -> Server {
    let server = Server::start().await;
    server
        .post(NAMESPACES, json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    server
        .until(&format!("{B}/serviceaccounts/default"), |_| true)
        .await;
    server
        .until(&format!("{B}/configmaps/kube-root-ca.crt"), |_| true)
        .await;
    server
}

fn pod(name: &str, metadata: Value) -> Value {
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    with_meta(pod, metadata)
}

#[tokio::test]
async fn a_namespace_is_born_with_an_account_and_a_certificate() {
    let server = with_second_namespace().await;
    let namespace = server.get(B).await.ok();
    assert_eq!(
        namespace["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "home-b"})
    );
    assert_eq!(
        (&namespace["spec"]["finalizers"], &namespace["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let authority = server.get(&format!("{B}/configmaps/kube-root-ca.crt")).await.ok();
    assert!(
        authority["data"]["ca.crt"]
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
}

#[tokio::test]
async fn what_every_namespace_has_comes_back_when_deleted() {
    let server = with_second_namespace().await;
    for path in [
        format!("{B}/serviceaccounts/default"),
        format!("{B}/configmaps/kube-root-ca.crt"),
    ] {
        let before = server.get(&path).await.ok();
        server.delete(&path).await.ok();
        let uid = &before["metadata"]["uid"];
        server
            .until(&path, |object| object["metadata"]["uid"] != *uid)
            .await;
    }
}

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it() {
    let server = with_second_namespace().await;
    server.install(widgets()).await;
    let in_b = "/apis/example.com/v1/namespaces/home-b/widgets";
    server.post(in_b, widget("w", json!({}))).await.ok();
    server
        .post(&format!("{B}/configmaps"), config_map("m", json!({})))
        .await
        .ok();
    server.post(&format!("{B}/pods"), pod("p", json!({}))).await.ok();
    let elsewhere = server
        .post("/api/v1/namespaces/home/configmaps", config_map("m", json!({})))
        .await
        .ok();
    let marked = server.delete(B).await.ok();
    assert_eq!(
        (&marked["kind"], &marked["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    server.until_gone(B).await;
    for path in [
        in_b.to_owned(),
        format!("{B}/configmaps"),
        format!("{B}/pods"),
        format!("{B}/serviceaccounts"),
    ] {
        assert_eq!(server.names(&path).await, [""; 0], "{path}");
    }
    assert_eq!(
        server.get("/api/v1/namespaces/home/configmaps/m").await.ok(),
        elsewhere
    );
    server
        .post(NAMESPACES, json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    server
        .until(&format!("{B}/serviceaccounts/default"), |_| true)
        .await;
}

#[tokio::test]
async fn nothing_can_be_created_in_a_namespace_on_its_way_out() {
    let server = with_second_namespace().await;
    server
        .post(
            &format!("{B}/configmaps"),
            with_meta(config_map("m", json!({})), json!({"finalizers": ["x.io/y"]})),
        )
        .await
        .ok();
    server.delete(B).await.ok();
    let refused = server
        .post(&format!("{B}/configmaps"), config_map("n", json!({})))
        .await;
    let message = "configmaps \"n\" is forbidden: unable to create new content in namespace home-b because it is being terminated";
    refused.refused(403, "Forbidden", message);
    let cause = json!({
        "reason": "NamespaceTerminating", "message": "namespace home-b is being terminated", "field": "metadata.namespace",
    });
    assert_eq!(refused.body["details"]["causes"], json!([cause]));
    server
        .merge(
            &format!("{B}/configmaps/m"),
            json!({"data": {"still": "writable"}}),
        )
        .await
        .ok();
    server
        .merge(
            &format!("{B}/configmaps/m"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .ok();
    server.until_gone(B).await;
}

#[tokio::test]
async fn pods_go_before_everything_else() {
    let server = with_second_namespace().await;
    server
        .post(&format!("{B}/configmaps"), config_map("m", json!({})))
        .await
        .ok();
    server
        .post(&format!("{B}/pods"), pod("p", json!({"finalizers": ["x.io/y"]})))
        .await
        .ok();
    server.delete(B).await.ok();
    server
        .until(&format!("{B}/pods/p"), |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    if !server.is_real() {
        // The real server says nothing about pods here.
        server
            .until(B, |namespace| {
                has_condition(namespace, "NamespaceContentRemaining", "True")
            })
            .await;
    }
    server.get(&format!("{B}/configmaps/m")).await.ok();
    server
        .merge(&format!("{B}/pods/p"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    server.until_gone(&format!("{B}/configmaps/m")).await;
    server.until_gone(B).await;
}

#[tokio::test]
async fn conditions_tell_what_a_namespace_waits_for() {
    let server = with_second_namespace().await;
    for (name, finalizer) in [("m", "x.io/y"), ("n", "x.io/y"), ("o", "x.io/z")] {
        let object = with_meta(config_map(name, json!({})), json!({"finalizers": [finalizer]}));
        server.post(&format!("{B}/configmaps"), object).await.ok();
    }
    server.delete(B).await.ok();
    let waiting = server
        .until(B, |namespace| {
            has_condition(namespace, "NamespaceFinalizersRemaining", "True")
        })
        .await;
    let expected = [
        "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered",
        "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions",
        "NamespaceDeletionContentFailure=False ContentDeleted",
        "NamespaceContentRemaining=True SomeResourcesRemain",
        "NamespaceFinalizersRemaining=True SomeFinalizersRemain",
    ];
    assert_eq!(conditions(&waiting), expected);
    let messages: Vec<&str> = waiting["status"]["conditions"].as_array().unwrap()[3..]
        .iter()
        .map(|c| c["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        messages[0],
        "Some resources are remaining: configmaps. has 3 resource instances"
    );
    assert_eq!(
        messages[1],
        "Some content in the namespace has finalizers remaining: x.io/y in 2 resource instances, x.io/z in 1 resource instances"
    );
    for name in ["m", "n", "o"] {
        server
            .merge(
                &format!("{B}/configmaps/{name}"),
                json!({"metadata": {"finalizers": null}}),
            )
            .await
            .ok();
    }
    server.until_gone(B).await;
}

#[tokio::test]
async fn system_namespaces_are_immortal() {
    let server = Server::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let answer = server.delete(&format!("{NAMESPACES}/{name}")).await;
        let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        answer.refused(403, "Forbidden", &message);
    }
}

#[tokio::test]
async fn asking_twice_changes_nothing() {
    let server = with_second_namespace().await;
    server
        .post(
            &format!("{B}/configmaps"),
            with_meta(config_map("m", json!({})), json!({"finalizers": ["x.io/y"]})),
        )
        .await
        .ok();
    server.delete(B).await.ok();
    let again = server.delete(B).await.ok();
    assert_eq!(
        (&again["kind"], &again["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    server
        .merge(
            &format!("{B}/configmaps/m"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .ok();
    server.until_gone(B).await;
}

#[tokio::test]
async fn finalizers_of_a_namespace_hold_it_after_its_content_is_gone() {
    let server = with_second_namespace().await;
    server
        .merge(B, json!({"metadata": {"finalizers": ["x.io/y"]}}))
        .await
        .ok();
    server.delete(B).await.ok();
    server
        .until(B, |namespace| namespace["spec"].get("finalizers").is_none())
        .await;
    assert_eq!(server.names(&format!("{B}/configmaps")).await, [""; 0]);
    server
        .merge(B, json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    server.until_gone(B).await;
}

#[tokio::test]
async fn the_finalize_endpoint_changes_nothing_but_finalizers_of_the_spec() {
    let server = with_second_namespace().await;
    let mut namespace = server.get(B).await.ok();
    namespace["spec"]["finalizers"] = json!(["kubernetes", "x.io/y"]);
    namespace["metadata"]["labels"]["odd"] = json!("1");
    let updated = server.put(&format!("{B}/finalize"), &namespace).await.ok();
    assert_eq!(updated["spec"]["finalizers"], json!(["kubernetes", "x.io/y"]));
    server.delete(B).await.ok();
    let waiting = server
        .until(B, |namespace| {
            namespace["spec"]["finalizers"] == json!(["x.io/y"])
        })
        .await;
    let mut free = waiting;
    free["spec"] = json!({});
    server.put(&format!("{B}/finalize"), &free).await.ok();
    server.until_gone(B).await;
}

#[tokio::test]
async fn no_object_outlives_its_namespace_however_it_races_the_deletion() {
    let server = Server::with(|_| {}).await;
    for round in 0..10 {
        server
            .post(NAMESPACES, json!({"metadata": {"name": "home-b"}}))
            .await
            .ok();
        let maps = &format!("{B}/configmaps");
        let create = async |i: usize| {
            server
                .post(maps, config_map(&format!("m{i}"), json!({})))
                .await
                .code
        };
        let (codes, _) = tokio::join!(join_all((0..20).map(create)), server.delete(B));
        assert!(
            codes.iter().all(|code| [201, 403, 404].contains(code)),
            "{codes:?}"
        );
        server.until_gone(B).await;
        assert_eq!(server.names(maps).await, [""; 0], "round {round}");
    }
}
