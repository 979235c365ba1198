//! Objects of a cluster.

use std::sync::Arc;

use serde_json::{Value, json};
use skopos_client::Client;
use skopos_sink::{Context, Destination, Event, Failure, connect, rule_annotation};
use skopos_testkit::{Data, Fault, Rule, TestServer};

use crate::support::{Known, event, refused, spec, told};

async fn objects(client: &Client, verb: &str) -> Arc<dyn Destination> {
    let context = Context {
        namespace: "default",
        secrets: &Known::default(),
        allowed: Default::default(),
        search_path: None,
        client: Some(client),
    };
    connect(&spec(&format!("kubernetes: {{verb: {verb}}}")), context)
        .await
        .unwrap()
}

fn carrying(n: usize, object: &Value) -> Event {
    Event {
        data: object.to_string().into(),
        ..event(n, "a")
    }
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
}

async fn maps(server: &TestServer) -> Vec<(String, String)> {
    let mut list = server
        .api("v1", "ConfigMap", "configmaps")
        .list(&Default::default());
    let mut found = Vec::new();
    while let Some(object) = list.next().await.unwrap() {
        let value = object.to_value();
        if object.namespace() == "default" && !object.name().starts_with("kube-") {
            found.push((
                object.name().to_owned(),
                value["data"]["a"].as_str().unwrap_or_default().to_owned(),
            ));
        }
    }
    found
}

async fn check(destination: &dyn Destination, event: Event) {
    let sent = destination.send(&[event]).await;
    assert!(sent.failure.is_none(), "{}", told(&sent.failure.unwrap()));
}

async fn failing(destination: &dyn Destination, event: Event) -> String {
    match destination.send(&[event]).await.failure {
        Some(failure @ Failure::Unavailable { .. }) => told(&failure),
        other => panic!("{other:?}"),
    }
}

fn pairs(expect: &[(&str, &str)]) -> Vec<(String, String)> {
    expect
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn verbs_do_the_same_when_they_are_repeated() {
    let server = TestServer::start().await;
    let client = server.client();
    for value in ["1", "2", "2"] {
        check(
            &*objects(&client, "apply").await,
            carrying(0, &map("applied", value)),
        )
        .await;
    }
    for value in ["1", "2"] {
        check(
            &*objects(&client, "create").await,
            carrying(0, &map("created", value)),
        )
        .await;
    }
    check(
        &*objects(&client, "patch").await,
        carrying(0, &map("created", "3")),
    )
    .await;
    assert_eq!(maps(&server).await, pairs(&[("applied", "2"), ("created", "3")]));
    for _ in 0..2 {
        check(
            &*objects(&client, "delete").await,
            carrying(0, &map("created", "3")),
        )
        .await;
    }
    assert_eq!(maps(&server).await, pairs(&[("applied", "2")]));
}

#[tokio::test]
async fn object_without_a_name_is_made_once_per_event() {
    let server = TestServer::start().await;
    let create = objects(&server.client(), "create").await;
    let mut object = map("", "1");
    object["metadata"] = json!({"generateName": "job-"});
    for n in [0, 0, 1] {
        check(&*create, carrying(n, &object)).await;
    }
    let names: Vec<_> = maps(&server).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("job-") && name.len() == 20),
        "{names:?}"
    );
}

#[tokio::test]
async fn objects_that_can_never_be_are_refused_and_the_rest_is_tried_again() {
    let server = TestServer::start().await;
    let client = server.client();
    let (apply, create) = (objects(&client, "apply").await, objects(&client, "create").await);
    let text = refused(&*create, carrying(0, &map("Bad_Name", "1"))).await;
    assert!(text.contains("cannot create configmap Bad_Name"), "{text}");
    for bad in [
        json!([]),
        json!({"kind": "A"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
    ] {
        let text = refused(&*apply, carrying(0, &bad)).await;
        assert!(text.contains("check the template of the rule"), "{text}");
    }
    let unknown = json!({"apiVersion": "a.io/v1", "kind": "B", "metadata": {"name": "c"}});
    let text = failing(&*apply, carrying(0, &unknown)).await;
    assert!(text.contains("does not know kind B of a.io/v1"), "{text}");
    let mut elsewhere = map("a", "1");
    elsewhere["metadata"]["namespace"] = json!("nowhere");
    let text = failing(&*create, carrying(0, &elsewhere)).await;
    assert!(text.contains("namespaces \"nowhere\" not found"), "{text}");
    let text = failing(&*objects(&client, "patch").await, carrying(0, &map("gone", "1"))).await;
    assert!(text.contains("not found"), "{text}");
    // Fields of others are not taken from them.
    let mut theirs = map("theirs", "1");
    theirs["metadata"]["namespace"] = json!("default");
    server.put(&theirs).await;
    let text = failing(&*apply, carrying(0, &map("theirs", "2"))).await;
    assert!(text.contains("conflict"), "{text}");
}

#[tokio::test]
async fn server_in_trouble_is_asked_again_and_left_alone_for_as_long_as_it_wants() {
    let server = TestServer::start().await;
    let apply = objects(&server.client(), "apply").await;
    check(&*apply, carrying(0, &map("a", "1"))).await;
    server
        .faults()
        .add(Rule::any().nth(1).then(Fault::unavailable(5)));
    let sent = apply.send(&[carrying(1, &map("a", "2"))]).await;
    assert!(
        matches!(sent.failure, Some(Failure::Unavailable { retry_after: Some(wait), .. }) if wait.as_secs() == 5),
        "{sent:?}"
    );
    check(&*apply, carrying(1, &map("a", "2"))).await;
    assert_eq!(maps(&server).await, pairs(&[("a", "2")]));
}

#[tokio::test]
async fn what_is_written_tells_which_rule_wrote_it_and_the_same_again_changes_nothing() {
    let server = TestServer::start().await;
    let apply = objects(&server.client(), "apply").await;
    let configs = server.api("v1", "ConfigMap", "configmaps");
    let api = skopos_client::Api::namespaced(configs.client(), configs.resource(), "default");
    check(&*apply, carrying(0, &map("a", "1"))).await;
    let first = api.get("a").await.unwrap();
    let rule = &event(0, "a").rule;
    let mark = &first["metadata"]["annotations"][rule_annotation(rule)];
    assert!(mark.is_string(), "{first}");
    check(&*apply, carrying(1, &map("a", "1"))).await;
    assert_eq!(api.get("a").await.unwrap(), first);
    check(&*apply, carrying(2, &map("a", "2"))).await;
    let second = api.get("a").await.unwrap();
    assert_ne!(&second["metadata"]["annotations"][rule_annotation(rule)], mark);
}

#[tokio::test]
async fn two_rules_write_parts_of_one_object() {
    let server = TestServer::start().await;
    let apply = objects(&server.client(), "apply").await;
    for (rule, field) in [("ops/a", "a"), ("ops/b", "b"), ("ops/a", "a")] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "both"}, "data": {field: rule}});
        let event = Event {
            rule: rule.into(),
            ..carrying(0, &object)
        };
        check(&*apply, event).await;
    }
    let configs = server.api("v1", "ConfigMap", "configmaps");
    let api = skopos_client::Api::namespaced(configs.client(), configs.resource(), "default");
    let both = api.get("both").await.unwrap();
    assert_eq!(both["data"], json!({"a": "ops/a", "b": "ops/b"}));
}

#[tokio::test]
async fn a_job_is_started_once_per_event() {
    let server = TestServer::start().await;
    let create = objects(&server.client(), "create").await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "backup-"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "backup:1", "args": ["a"]}]}}}});
    for n in [0, 0, 1] {
        check(&*create, carrying(n, &job)).await;
    }
    let mut list = server.api("batch/v1", "Job", "jobs").list(&Default::default());
    let mut names = Vec::new();
    while let Some(found) = list.next().await.unwrap() {
        let found = found.to_value();
        assert_eq!(
            found["spec"]["template"]["spec"]["containers"][0]["image"],
            "backup:1"
        );
        names.push(found["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("backup-")), "{names:?}");
}

#[tokio::test]
async fn server_that_is_stopped_and_started_gets_what_failed_meanwhile() {
    let mut server = TestServer::start().await;
    let (apply, create) = {
        let client = server.client();
        (objects(&client, "apply").await, objects(&client, "create").await)
    };
    check(&*apply, carrying(0, &map("a", "1"))).await;
    server.faults().go_away();
    failing(&*apply, carrying(1, &map("a", "2"))).await;
    failing(&*create, carrying(2, &map("b", "1"))).await;
    server.restart(Data::Kept).await;
    failing(&*apply, carrying(1, &map("a", "2"))).await;
    server.faults().come_back();
    check(&*apply, carrying(1, &map("a", "2"))).await;
    check(&*create, carrying(2, &map("b", "1"))).await;
    assert_eq!(maps(&server).await, pairs(&[("a", "2"), ("b", "1")]));
}
