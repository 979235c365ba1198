//! Wordings as the real server gave them.

use serde_json::{Value, json};

use super::*;

fn kind_of(plural: &str) -> &'static Kind {
    crate::kinds().iter().find(|k| k.plural == plural).unwrap()
}

fn deployment(spec: &Value) -> Value {
    let mut object =
        json!({"metadata": {"name": "x"}, "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn error_of(plural: &str, mut object: Value) -> String {
    decode(kind_of(plural), &mut object).unwrap_err()
}

#[test]
fn words_type_errors_as_the_server_does() {
    let check = |spec: Value, message: &str| assert_eq!(error_of("deployments", deployment(&spec)), message);
    check(
        json!({"replicas": "3"}),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        json!({"replicas": 99_999_999_999_i64}),
        "json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        json!({"strategy": {"type": 5}}),
        "json: cannot unmarshal number into Go struct field DeploymentStrategy.spec.strategy.type of type v1.DeploymentStrategyType",
    );
    check(
        json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
        "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
    );
    check(
        json!({"selector": {"matchLabels": []}}),
        "json: cannot unmarshal array into Go struct field LabelSelector.spec.selector.matchLabels of type map[string]string",
    );
    check(
        json!({"template": {"spec": {"containers": {}}}}),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    );
    check(
        json!({"template": {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": []}}}]}}}),
        "json: cannot unmarshal array into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
    );
    check(
        json!({"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "abc"}}}]}}}),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    assert_eq!(
        error_of("secrets", json!({"data": {"a": 5}})),
        "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"
    );
    assert_eq!(
        error_of("secrets", json!({"data": {"a": "!!"}})),
        "illegal base64 data at input byte 0"
    );
    assert_eq!(
        error_of("deployments", json!({"metadata": "a"})),
        "json: cannot unmarshal string into Go struct field Deployment.metadata of type v1.ObjectMeta"
    );
}

#[test]
fn drops_and_reports_unknown_fields() {
    let mut object =
        deployment(&json!({"foo": 1, "template": {"spec": {"containers": [{"name": "c", "bar": {}}]}}}));
    let unknown = decode(kind_of("deployments"), &mut object).unwrap();
    assert_eq!(unknown, ["spec.foo", "spec.template.spec.containers[0].bar"]);
    assert!(object["spec"].get("foo").is_none());
}

#[test]
fn writes_what_go_would_write() {
    let mut object = json!({
        "metadata": {"name": "x", "labels": {}, "creationTimestamp": null, "annotations": null},
        "spec": {"replicas": 0, "paused": false, "template": {"spec": {"hostNetwork": false, "containers": [
            {"name": "c", "image": "", "resources": {"limits": {"cpu": "1000m", "memory": 1024}}}]}}},
    });
    decode(kind_of("deployments"), &mut object).unwrap();
    let expected = json!({
        "metadata": {"name": "x"},
        "spec": {"replicas": 0, "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": [
            {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1024"}}}]}}},
        "status": {},
    });
    assert_eq!(object, expected);
    let before = object.clone();
    decode(kind_of("deployments"), &mut object).unwrap();
    assert_eq!(object, before);
}

#[test]
fn resource_definitions_keep_their_schemas() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}},
        "b": {"type": "object", "additionalProperties": true, "default": {"x": [1, null]}}}});
    let mut crd = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
    decode(kind_of("customresourcedefinitions"), &mut crd).unwrap();
    assert_eq!(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema);
}
