//! What is kept of answers, and for how long.

use serde_json::json;
use skopos_testkit::object;

use super::*;

#[test]
fn paths_lead_to_collections_and_keys() {
    let check = |path: &str, group: &str, resource: &str, key: &str| {
        let place = Place::of(path).unwrap();
        assert_eq!(place.collection, GroupResource::new(group, resource), "{path}");
        assert_eq!(place.key.to_string(), key, "{path}");
    };
    check("/api/v1/namespaces/a/services/b", "", "services", "a/b");
    check(
        "/apis/apps/v1/namespaces/a/deployments",
        "apps",
        "deployments",
        "a/",
    );
    check(
        "/apis/x.io/v1/namespaces/a/things/b/status",
        "x.io",
        "things",
        "a/b",
    );
    check("/api/v1/namespaces/a", "", "namespaces", "a");
    check("/api/v1/namespaces/a/finalize", "", "namespaces", "a");
    check("/apis/x.io/v1/lamps/b", "x.io", "lamps", "b");
    assert_eq!(Place::of("/version"), None);
}

#[test]
fn a_write_that_changed_nothing_does_not_go_back_in_time() {
    let things = || Place::of("/apis/x.io/v1/things/a").unwrap();
    let mut written = Written::default();
    for version in ["9", "10", "2"] {
        written.note(
            things(),
            &Method::PATCH,
            &json!({"metadata": {"resourceVersion": version}}),
            &[],
        );
    }
    assert_eq!(written.states[&things()].version.as_str(), "10");
}

#[test]
fn labels_are_known_of_objects_and_not_of_their_scale_and_chosen_names_are() {
    let check = |path: &str, place: &str, labels: Option<Value>| {
        let mut written = Written::default();
        let metadata = json!({"name": "b", "resourceVersion": "7", "labels": {"l": "x"}});
        written.note(
            Place::of(path).unwrap(),
            &Method::POST,
            &json!({"metadata": metadata}),
            &[],
        );
        let (noted, state) = written.states.pop_first().unwrap();
        assert_eq!(
            (noted.key.to_string().as_str(), state.labels),
            (place, labels),
            "{path}"
        );
    };
    let labels = || Some(json!({"l": "x"}));
    check("/apis/x.io/v1/namespaces/a/things", "a/b", labels());
    check("/apis/x.io/v1/namespaces/a/things/b/status", "a/b", labels());
    check("/apis/x.io/v1/namespaces/a/things/b/scale", "a/b", None);
}

#[test]
fn fields_are_known_if_they_are_there_and_plain() {
    let secret = json!({"metadata": {}, "type": "Opaque", "immutable": true, "data": {"a": ""}});
    let paths = ["type", "immutable", "data", "spec.nodeName"].map(str::to_owned);
    let version = || ResourceVersion::new("7");
    let known: Vec<_> = State::of(Some(&secret), version(), &paths)
        .fields
        .into_iter()
        .collect();
    let pair = |path: &str, value: &str| (path.to_owned(), value.to_owned());
    assert_eq!(known, [pair("immutable", "true"), pair("type", "Opaque")]);
    assert!(State::of(None, version(), &paths).fields.is_empty());
}

#[test]
fn a_delete_answered_without_a_version_waits_for_the_absence_of_the_uid() {
    let mut written = Written::default();
    let place = Place::of("/api/v1/namespaces/a/services/b").unwrap();
    written.note(
        place,
        &Method::DELETE,
        &json!({"kind": "Status", "metadata": {}, "details": {"uid": "u"}}),
        &[],
    );
    let [gone] = written.gone.as_slice() else {
        panic!("{:?}", written.gone);
    };
    let shown = |uid: &str| {
        let metadata = format!("{{name: b, namespace: a, uid: {uid}, resourceVersion: '9'}}");
        object(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {metadata}}}"
        ))
    };
    let over = [Some(shown("u")), Some(shown("v")), None].map(|shown| gone.is_over(shown.as_ref()));
    assert_eq!(over, [false, true, true]);
}

#[test]
fn what_is_no_longer_applied_is_forgotten_with_the_next_reconcile_that_is_done() {
    let (records, key) = (Records::default(), ObjectKey::from("a/b"));
    let to = |name: &str| (GroupResource::new("", "configmaps"), ObjectKey::from(name));
    let applied = || Applied {
        uid: "m".to_owned(),
        hash: 1,
    };
    records.begin(&key);
    records.set_applied(&key, "u", to("old"), applied());
    records.set_applied(&key, "u", to("kept"), applied());
    records.keep_touched(&key);
    records.begin(&key);
    assert_eq!(records.applied(&key, "u", &to("kept")), Some(applied()));
    records.set_applied(&key, "u", to("new"), applied());
    records.keep_touched(&key);
    let known = ["old", "kept", "new"].map(|name| records.applied(&key, "u", &to(name)).is_some());
    assert_eq!(known, [false, true, true]);
}

#[test]
fn records_of_a_deleted_object_do_not_concern_the_next_of_its_name() {
    let records = Records::default();
    let key = ObjectKey::from("a/b");
    let mut written = Written::default();
    let place = Place::of("/apis/x.io/v1/things/a").unwrap();
    written.note(
        place,
        &Method::PUT,
        &json!({"metadata": {"resourceVersion": "7"}}),
        &[],
    );
    let to = (GroupResource::new("x.io", "things"), ObjectKey::from("a"));
    let applied = Applied {
        uid: "t".to_owned(),
        hash: 1,
    };
    records.add(&key, "u-1", written);
    records.set_applied(&key, "u-1", to.clone(), applied.clone());
    assert!(records.pending(&key, "u-1").is_some());
    assert_eq!(records.applied(&key, "u-1", &to), Some(applied));
    assert_eq!(records.applied(&key, "u-2", &to), None);
    assert!(records.pending(&key, "u-2").is_none());
    assert!(records.pending(&key, "u-1").is_none());
}
