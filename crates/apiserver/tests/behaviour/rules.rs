//! Validation rules of definitions: whom they stop, and whom not. The words are compared in `scenarios/writes/rules`.

use serde_json::{Value, json};

use crate::harness::{CRDS, Server, definition};

const JARS: &str = "/apis/example.com/v1/namespaces/home/jars";

fn jars(spec: Value) -> Value {
    let mut jars = definition("jars", "Jar");
    jars["spec"]["versions"][0]["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    jars
}

fn jar(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Jar", "metadata": {"name": "a"}, "spec": spec})
}

fn sized(rules: Value) -> Value {
    let size = json!({"type": "integer", "x-kubernetes-validations": rules});
    jars(json!({"type": "object", "properties": {"size": size, "note": {"type": "string"}}}))
}

#[tokio::test]
async fn a_rule_is_asked_at_every_write() {
    let server = Server::start().await;
    let rules = json!([{"rule": "self > 1", "message": "too small"}, {"rule": "self >= oldSelf"}]);
    server.install(sized(rules)).await;
    let refused = server.post(JARS, jar(json!({"size": 1}))).await;
    let why = "Jar.example.com \"a\" is invalid: spec.size: Invalid value: 1: too small";
    refused.refused(422, "Invalid", why);
    server.post(JARS, jar(json!({"size": 3}))).await.ok();
    let shrunk = server
        .merge(&format!("{JARS}/a"), json!({"spec": {"size": 2}}))
        .await;
    let why = "Jar.example.com \"a\" is invalid: spec.size: Invalid value: 2: failed rule: self >= oldSelf";
    shrunk.refused(422, "Invalid", why);
}

#[tokio::test]
async fn what_broke_a_rule_before_it_was_made_is_forgiven_with_a_warning() {
    let server = Server::with(|_| {}).await;
    server.install(sized(json!([]))).await;
    server.post(JARS, jar(json!({"size": 1}))).await.ok();
    let rules = sized(json!([{"rule": "self > 1", "message": "too small"}]));
    let patch = json!({"spec": {"versions": rules["spec"]["versions"]}});
    server
        .merge(&format!("{CRDS}/jars.example.com"), patch)
        .await
        .ok();
    let noted = server
        .merge(&format!("{JARS}/a"), json!({"spec": {"note": "x"}}))
        .await;
    assert_eq!(noted.warnings(), ["spec.size: Invalid value: 1: too small"]);
    noted.ok();
    let changed = server
        .merge(&format!("{JARS}/a"), json!({"spec": {"size": 0}}))
        .await;
    assert_eq!(changed.code, 422);
}

fn listed(rules: Value) -> Value {
    let items = json!({"type": "string", "x-kubernetes-validations": rules});
    jars(json!({"type": "object", "properties": {"list": {"type": "array", "items": items}}}))
}

/// Items of a plain list have no old state of their own: that of the list counts. Without it every update of an
/// object that was there before the rule would be refused.
#[tokio::test]
async fn what_broke_a_rule_in_a_list_is_forgiven_while_the_list_stays() {
    let server = Server::with(|_| {}).await;
    server.install(listed(json!([]))).await;
    server
        .post(JARS, jar(json!({"list": ["bad", "good"]})))
        .await
        .ok();
    let rules = listed(json!([{"rule": "self != 'bad'"}]));
    let patch = json!({"spec": {"versions": rules["spec"]["versions"]}});
    server
        .merge(&format!("{CRDS}/jars.example.com"), patch)
        .await
        .ok();
    let labelled = server
        .merge(&format!("{JARS}/a"), json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    let told = "spec.list[0]: Invalid value: \"bad\": failed rule: self != 'bad'";
    assert_eq!(labelled.warnings(), [told]);
    labelled.ok();
    let longer = server
        .merge(
            &format!("{JARS}/a"),
            json!({"spec": {"list": ["bad", "good", "more"]}}),
        )
        .await;
    longer.refused(
        422,
        "Invalid",
        &format!("Jar.example.com \"a\" is invalid: {told}"),
    );
}

#[tokio::test]
async fn a_rule_blames_a_key_of_a_map_in_brackets() {
    let server = Server::start().await;
    let mut spec = json!({"type": "object", "properties": {
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    spec["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.map)", "message": "no", "fieldPath": ".map['it\\'s']"}]);
    server.install(jars(spec)).await;
    let refused = server.post(JARS, jar(json!({"map": {}}))).await;
    let why = "Jar.example.com \"a\" is invalid: spec.map[it's]: Invalid value: no";
    refused.refused(422, "Invalid", why);
}

#[tokio::test]
async fn a_default_that_breaks_a_rule_is_refused_with_its_definition() {
    let server = Server::start().await;
    let mut jars = sized(json!([{"rule": "self > 1", "message": "too small"}]));
    let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
    jars.pointer_mut(size).unwrap()["default"] = json!(1);
    let refused = server.post(CRDS, jars).await;
    let why = "CustomResourceDefinition.apiextensions.k8s.io \"jars.example.com\" is invalid: \
               spec.validation.openAPIV3Schema.properties[spec].properties[size].default: Invalid value: 1: too small";
    refused.refused(422, "Invalid", why);
}

#[tokio::test]
async fn a_message_that_costs_too_much_is_told_in_place_of_it() {
    let server = Server::start().await;
    let expression =
        "string(self.list.map(x, self.list.map(y, self.list.map(z, x + y + z).size()).size()).size())";
    let mut spec = json!({"type": "object", "properties": {
        "list": {"type": "array", "maxItems": 60, "items": {"type": "integer"}},
    }});
    spec["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.list)", "messageExpression": expression}, {"rule": "false"}]);
    server.install(jars(spec)).await;
    let refused = server.post(JARS, jar(json!({"list": vec![1; 60]}))).await;
    let why = format!(
        "Jar.example.com \"a\" is invalid: spec: Invalid value: \"object\": no further validation rules will be run due \
         to call cost exceeds limit for messageExpression: \"{expression}\""
    );
    refused.refused(422, "Invalid", &why);
}

#[tokio::test]
async fn a_definition_with_a_rule_that_does_not_compile_is_refused() {
    let server = Server::start().await;
    let refused = server.post(CRDS, sized(json!([{"rule": "self.x"}]))).await;
    assert_eq!(refused.code, 422);
    let why = refused.body["message"].as_str().unwrap();
    let place = "compilation failed: ERROR: <input>:1:5: type 'int' does not support field selection";
    assert!(why.contains(place), "{why}");
}
