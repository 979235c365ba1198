//! Which changes match.

use serde_json::{Value, json};

use crate::{change, evaluate, matches, rule, when};

#[test]
fn kinds_are_found_by_kind_plural_and_singular() {
    for (kind, expect) in [
        ("Widget", true),
        ("widgets", true),
        ("widget", true),
        ("Gadget", false),
    ] {
        let rule = rule(&format!("watch: {{group: example.com, kind: {kind}}}"));
        assert_eq!(matches(&rule, None, Some(&json!({}))), expect, "{kind}");
    }
    for watch in [
        "{group: other.com, kind: Widget}",
        "{group: example.com, version: v2, kind: Widget}",
        "{kind: Widget}",
    ] {
        assert!(
            !matches(&rule(&format!("watch: {watch}")), None, Some(&json!({}))),
            "{watch}"
        );
    }
}

#[test]
fn events_are_those_asked_for() {
    let object = json!({"spec": {"n": 1}});
    let other = json!({"spec": {"n": 2}});
    for (events, expect) in [
        ("[]", [true, true, true]),
        ("[created]", [true, false, false]),
        ("[updated]", [false, true, false]),
        ("[deleted, created]", [true, false, true]),
    ] {
        let rule = rule(&format!(
            "watch: {{group: example.com, kind: Widget, events: {events}}}"
        ));
        let found = [
            matches(&rule, None, Some(&object)),
            matches(&rule, Some(&object), Some(&other)),
            matches(&rule, Some(&object), None),
        ];
        assert_eq!(found, expect, "{events}");
    }
}

#[test]
fn objects_that_enter_or_leave_the_selection_are_told() {
    let rule = rule(
        "watch: {group: example.com, kind: Widget, selector: {matchLabels: {app: web}, matchExpressions: [{key: old, operator: DoesNotExist}]}}",
    );
    let yes = json!({"metadata": {"labels": {"app": "web"}}});
    let no = json!({"metadata": {"labels": {"app": "db"}}});
    let old = json!({"metadata": {"labels": {"app": "web", "old": ""}}});
    assert!(matches(&rule, Some(&yes), Some(&no)));
    assert!(matches(&rule, Some(&no), Some(&yes)));
    assert!(!matches(&rule, Some(&no), Some(&old)));
}

#[test]
fn fields_with_values_select_objects() {
    let rule = rule(
        "watch: {group: example.com, kind: Widget, matchFields: {spec.tier: gold, 'spec.ports[*].port': '80'}}",
    );
    let of = |tier: &str, port: i64| json!({"spec": {"tier": tier, "ports": [{"port": 1}, {"port": port}]}});
    assert!(matches(&rule, None, Some(&of("gold", 80))));
    assert!(!matches(&rule, None, Some(&of("gold", 81))));
    assert!(!matches(&rule, None, Some(&of("tin", 80))));
    assert!(matches(&rule, Some(&of("gold", 80)), Some(&of("tin", 80))));
}

#[test]
fn updates_count_by_the_fields_that_changed() {
    let of = |replicas: i64, image: &str| json!({"spec": {"replicas": replicas, "containers": [{"name": "web", "image": image}]}});
    let (base, scaled, rolled) = (of(1, "a"), of(2, "a"), of(1, "b"));
    for (fields, on_scale, on_roll) in [
        ("{}", true, true),
        ("{include: [spec.replicas]}", true, false),
        ("{include: ['spec.containers[*].image']}", false, true),
        ("{ignore: [spec.replicas]}", false, true),
        ("{include: [spec], ignore: [spec.containers]}", true, false),
    ] {
        let rule = rule(&format!(
            "watch: {{group: example.com, kind: Widget}}\nfields: {fields}"
        ));
        assert_eq!(matches(&rule, Some(&base), Some(&scaled)), on_scale, "{fields}");
        assert_eq!(matches(&rule, Some(&base), Some(&rolled)), on_roll, "{fields}");
        assert!(
            matches(&rule, None, Some(&base)),
            "creations count whatever the fields"
        );
    }
}

#[test]
fn what_the_server_keeps_for_itself_does_not_count_unless_named() {
    let of = |version: &str, beat: &str| {
        json!({"metadata": {"resourceVersion": version, "generation": version.len()},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]}})
    };
    let (a, b) = (of("1", "x"), of("22", "y"));
    for (fields, expect) in [
        ("{}", false),
        ("{include: [status]}", false),
        ("{include: ['status.conditions[*].lastHeartbeatTime']}", true),
        ("{include: [metadata.generation]}", true),
    ] {
        let rule = rule(&format!(
            "watch: {{group: example.com, kind: Widget}}\nfields: {fields}"
        ));
        assert_eq!(matches(&rule, Some(&a), Some(&b)), expect, "{fields}");
    }
}

#[test]
fn an_update_that_shows_nothing_counts_for_redacted_values() {
    let of = |version: &str, password: &str, beat: &str| {
        json!({"metadata": {"resourceVersion": version, "generation": version.len()},
            "spec": {"users": [{"name": "ada", "password": password}]}, "status": {"lastHeartbeatTime": beat}})
    };
    let check = |fields: &str, before: &Value, after: &Value| {
        let rule = rule(&format!(
            "watch: {{group: example.com, kind: Widget}}\nfields: {fields}"
        ));
        matches(&rule, Some(before), Some(after))
    };
    let (a, b) = (of("1", "[redacted]", "x"), of("22", "[redacted]", "x"));
    for (fields, expect) in [
        ("{}", true),
        ("{include: [spec]}", true),
        ("{include: ['spec.users[*].password']}", true),
        ("{include: ['spec.users[*].name']}", false),
        ("{ignore: [spec.users]}", false),
    ] {
        assert_eq!(check(fields, &a, &b), expect, "{fields}");
    }
    assert!(
        !check("{}", &a, &of("22", "[redacted]", "y")),
        "something else explains the update"
    );
    assert!(
        !check("{}", &of("1", "open", "x"), &of("22", "open", "x")),
        "nothing is hidden"
    );
}

#[test]
fn missing_fields_are_false_and_counted_other_errors_are_told() {
    let entry = change(1, None, Some(&json!({"spec": {"text": "x", "list": []}})));
    for (expression, matched, n_missing) in [
        ("object.status.phase == 'x'", false, 1),
        ("oldObject.spec.text == 'x'", false, 1),
        ("was(object.spec.text) == 'x'", false, 1),
        ("object.spec.list[0] == 1", false, 1),
        ("object.status.phase == 'x' || object.spec.text == 'x'", true, 0),
        ("!(object.status.phase == 'x')", false, 1),
        ("became(object.status.ready)", false, 1),
    ] {
        let found = evaluate(&when(expression), &entry);
        assert_eq!(
            (found.matched, found.n_missing),
            (matched, n_missing),
            "{expression}"
        );
        assert_eq!(found.error, None, "{expression}");
    }
    for expression in [
        "object.spec.text > 1",
        "object.spec.text",
        "became(object.spec.text > 1)",
        "int(object.spec.text) == 1",
    ] {
        let found = evaluate(&when(expression), &entry);
        assert!(!found.matched && found.error.is_some(), "{expression}: {found:?}");
    }
}

#[test]
fn an_evaluation_has_a_bounded_cost() {
    let list: Vec<i64> = (0..2_000).collect();
    let entry = change(1, None, Some(&json!({"spec": {"list": list}})));
    let found = evaluate(
        &when("object.spec.list.all(a, object.spec.list.all(b, a + b >= 0))"),
        &entry,
    );
    assert!(found.error.unwrap().contains("cost"), "the budget ends it");
}

#[test]
fn expressions_see_the_change() {
    let before = json!({"spec": {"replicas": 1, "list": [{"name": "a", "v": 1}]}});
    let after = json!({"spec": {"replicas": 2, "list": [{"name": "a", "v": 2}]}});
    for (expression, expect) in [
        ("change.op == 'updated'", true),
        ("change.paths == ['spec.list[name=a].v', 'spec.replicas']", true),
        (
            "change.id == 'u1.7' && change.kind == 'Widget' && change.name == 'a' && change.namespace == 'team'",
            true,
        ),
        (
            "change.observed == 'live' && change.time == timestamp('2026-01-01T00:00:01Z') && change.seq == 2",
            true,
        ),
        ("now == change.time", true),
        (
            "changed('spec') && changed('spec.list[*].v') && !changed('status')",
            true,
        ),
        ("changed('spec.' + 'replicas')", true),
        ("oldObject.spec.replicas + 1 == object.spec.replicas", true),
        (
            "was(object.spec.replicas == 1) && was(object.spec).replicas == 1",
            true,
        ),
        ("was(object.spec.list)[0].v == 1", true),
    ] {
        assert_eq!(
            matches(&when(expression), Some(&before), Some(&after)),
            expect,
            "{expression}"
        );
    }
    assert!(matches(
        &when("oldObject == null && !changed('spec')"),
        None,
        Some(&after)
    ));
    assert!(matches(
        &when("object.spec.replicas == 1 && oldObject.spec.replicas == 1 && !changed('spec')"),
        Some(&before),
        None
    ));
}
