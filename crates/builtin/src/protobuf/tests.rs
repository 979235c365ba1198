//! Round trips, bodies made by hand, and input that is cut or strange.

use serde_json::json;

use super::*;

fn round_trip(object: &Value) {
    let bytes = encode(object).unwrap();
    let (gvk, back) = decode(&bytes).unwrap();
    assert_eq!(gvk.kind, object["kind"]);
    assert_eq!(back, *object);
}

#[test]
fn a_pod_survives_the_round_trip() {
    round_trip(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "generation": 3, "creationTimestamp": "2026-11-15T21:54:24Z",
            "labels": {"a": "b", "c": ""}, "finalizers": ["x", "y"],
            "managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:x": {}}}, "time": "2026-11-15T21:54:24Z"}]},
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "m", "defaultMode": 420}}],
            "securityContext": {"supplementalGroups": [1, -2]},
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m"}}, "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "readinessProbe": {"tcpSocket": {"port": 80}}}]},
        "status": {},
    }));
}

#[test]
fn lists_secrets_leases_and_definitions_survive_the_round_trip() {
    round_trip(
        &json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "5"}, "items": [
        {"metadata": {"name": "s"}, "data": {"k": "aGVsbG8=", "empty": ""}, "type": "Opaque"}]}),
    );
    round_trip(
        &json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"renewTime": "2026-11-15T21:54:24.000120Z", "leaseTransitions": 0, "holderIdentity": ""}}),
    );
    round_trip(
        &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "x"}, "spec": {"group": "g", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["x", 1, null]}},
                "b": {"additionalProperties": true}, "c": {"additionalProperties": {"type": "number", "maximum": 1.5}},
                "d": {"default": {"x": []}, "x-kubernetes-int-or-string": true}}}}}]},
        "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null}}),
    );
    round_trip(
        &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {"user": "u", "extra": {"k": ["a", "b"]}}, "status": {"allowed": false}}),
    );
}

#[test]
fn delete_options_need_no_kind_in_the_envelope() {
    let body = encode::envelope("", "", &[0x08, 0x00, 0x22, 0x0a]);
    assert_eq!(
        decode(&body).unwrap_err().to_string(),
        r#"no kind "" is registered for version """#
    );
    let default = GroupVersionKind {
        group: String::new(),
        version: "v1".into(),
        kind: "DeleteOptions".into(),
    };
    let body = encode::envelope("", "", &[0x08, 0x00, 0x22, 0x01, b'x']);
    let (_, options) = decode_as(&body, Some(&default)).unwrap();
    assert_eq!(options["gracePeriodSeconds"], 0);
    assert_eq!(options["propagationPolicy"], "x");
}

#[test]
fn watch_frames_hold_a_whole_body() {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}});
    let frame = watch_frame("ADDED", &object).unwrap();
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(length as usize, frame.len() - 4);
    let event = types::find("meta.v1.WatchEvent").unwrap();
    let decoded = decode::message(event.get(), &frame[4..], 0).unwrap();
    assert_eq!(decoded["type"], "ADDED");
    assert_eq!(decoded["object"], object);
}

#[test]
fn tables_and_custom_resources_are_not_encoded() {
    assert!(encode(&json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table"})).is_none());
    assert!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Pod"})).is_none());
}

#[test]
fn cut_bodies_are_errors_and_never_panics() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
    let bytes = encode(&pod).unwrap();
    for end in 0..bytes.len() {
        let _ = decode(&bytes[..end]);
        let mut broken = bytes.clone();
        broken[end] ^= 0x5a;
        let _ = decode(&broken);
    }
    assert_eq!(decode(b"{}").unwrap_err(), ProtobufError::NoMagic);
}

#[test]
fn deep_messages_are_refused() {
    let props = types::find("apiextensions.v1.JSONSchemaProps").unwrap().get();
    let not = props.field("not").unwrap().numbers[0];
    let mut nested = Vec::new();
    for _ in 0..1_000 {
        let mut outer = Vec::new();
        wire::put_bytes(&mut outer, not, &nested);
        nested = outer;
    }
    assert_eq!(
        decode::message(props, &nested, 0).unwrap_err(),
        ProtobufError::TooDeep
    );
}
