//! Cases whose outcome was compared with a real server.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the cases read better without references"
)]

use serde_json::json;

use super::*;

fn check(kind: (&str, &str), document: Value, patch: Value, expected: Value) {
    let kind = crate::kind(kind.0, "v1", kind.1).unwrap();
    assert_eq!(strategic_merge(kind, &document, &patch).unwrap(), expected);
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

const POD: (&str, &str) = ("", "Pod");

#[test]
fn merges_lists_by_their_key_and_keeps_the_servers_order() {
    check(
        POD,
        pod(json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]})),
        json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}}),
        pod(
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}),
        ),
    );
}

#[test]
fn deletes_list_items_and_fields() {
    check(
        POD,
        pod(json!({"hostname": "h", "containers": [{"name": "a"}, {"name": "b"}]})),
        json!({"spec": {"hostname": null, "containers": [{"name": "a", "$patch": "delete"}]}}),
        pod(json!({"containers": [{"name": "b"}]})),
    );
}

#[test]
fn replaces_lists_and_maps_when_told() {
    check(
        POD,
        pod(json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}})),
        json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}],
            "nodeSelector": {"$patch": "replace", "y": "2"}}}),
        pod(json!({"containers": [{"name": "c"}], "nodeSelector": {"y": "2"}})),
    );
}

#[test]
fn puts_items_in_the_wanted_order() {
    check(
        POD,
        pod(json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})),
        json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "d"}],
            "containers": [{"name": "d"}, {"name": "b", "$patch": "delete"}]}}),
        pod(json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "d"}]})),
    );
}

#[test]
fn merges_lists_of_strings_and_deletes_from_them() {
    check(
        POD,
        json!({"metadata": {"finalizers": ["a", "b"]}}),
        json!({"metadata": {"finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}}),
        json!({"metadata": {"finalizers": ["c", "a"]}}),
    );
}

#[test]
fn retains_only_the_named_keys() {
    check(
        ("apps", "Deployment"),
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
}

#[test]
fn replaces_lists_that_have_no_merge_strategy() {
    check(
        POD,
        pod(json!({"containers": [{"name": "a", "args": ["x", "y"]}]})),
        json!({"spec": {"containers": [{"name": "a", "args": ["z"]}]}}),
        pod(json!({"containers": [{"name": "a", "args": ["z"]}]})),
    );
}

#[test]
fn drops_nulls_and_directives_of_values_that_are_new() {
    check(
        POD,
        json!({}),
        json!({"spec": {"hostname": null, "containers": [{"name": "a", "image": null}, {"name": "b", "$patch": "delete"}]}}),
        json!({"spec": {"containers": [{"name": "a"}]}}),
    );
}

#[test]
fn refuses_what_it_cannot_apply() {
    let kind = crate::kind("", "v1", "Pod").unwrap();
    let error =
        |document: Value, patch: Value| strategic_merge(kind, &document, &patch).unwrap_err().to_string();
    assert_eq!(
        error(
            pod(json!({"containers": [{"name": "a"}]})),
            json!({"spec": {"containers": [{"image": "x"}]}})
        ),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert_eq!(
        error(json!({}), json!({"$patch": "frob"})),
        "unknown patch type: frob in map: map[$patch:frob]"
    );
    assert_eq!(
        error(json!({"foo": {}}), json!({"foo": {"a": 1}})),
        r#"unable to find api field in struct Pod for the json field "foo""#
    );
    assert_eq!(
        error(
            pod(json!({"a": 1})),
            json!({"spec": {"$retainKeys": ["a"], "hostname": "x"}})
        ),
        "invalid patch format of retainKeys"
    );
}
