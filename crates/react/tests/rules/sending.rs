//! What is sent.

use serde_json::{Value, json};
use skopos_api::Event as What;
use skopos_journal::{Entry, Observed, Writer};
use skopos_react::rule::{Cause, CompiledRule, Origin, RenderError, Subject};
use skopos_sink::Event;

use crate::{at, change, rule};

fn send(rule: &CompiledRule, entry: &Entry) -> Event {
    rule.event(&Subject::new(entry), Cause::Change, 0, 1 << 20)
        .unwrap()
}

fn with(action: &Value) -> CompiledRule {
    let mut action = action.clone();
    action["sink"] = "out".into();
    rule(&json!({"watch": {"group": "example.com", "kind": "Widget"}, "do": [action]}).to_string())
}

fn update() -> Entry {
    change(
        1,
        Some(&json!({"spec": {"n": 1}, "metadata": {"resourceVersion": "6"}})),
        Some(&json!({"spec": {"n": 2, "m": "x"}})),
    )
}

fn body(event: &Event) -> Value {
    serde_json::from_slice(&event.data).unwrap()
}

#[test]
fn who_wrote_is_told_where_it_is_known() {
    let mut entry = update();
    assert_eq!(body(&send(&with(&json!({})), &entry)).get("by"), None);
    entry.by = ["ada", "bob"]
        .map(|name| Writer {
            manager: name.to_owned(),
            operation: "Apply".to_owned(),
            subresource: String::new(),
        })
        .into();
    assert_eq!(
        body(&send(&with(&json!({"payload": "ref"})), &entry))["by"],
        json!(["ada", "bob"])
    );
    let template = with(&json!({"template": "${change.by.join(\" and \")}"}));
    assert_eq!(send(&template, &entry).data, "ada and bob");
}

#[test]
fn full_payloads_have_before_after_and_what_differs() {
    let event = send(&with(&json!({})), &update());
    assert_eq!(event.id, "u1.7/ops.test");
    assert_eq!(
        (event.what, event.content_type),
        (What::Updated, "application/json")
    );
    assert_eq!(event.source, "/clusters/prod/example.com/widgets");
    assert_eq!(
        (event.subject.as_str(), event.rule.as_str()),
        ("team/a", "ops/test")
    );
    assert_eq!(event.lane, "/clusters/prod/example.com/widgets/team/a");
    assert_eq!(event.time, "2026-01-01T00:00:01Z");
    let body = body(&event);
    assert_eq!(body["op"], "updated");
    assert_eq!(
        (&body["before"]["spec"]["n"], &body["after"]["spec"]["n"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        body["diff"],
        json!([{"path": "spec.m", "to": "x"}, {"path": "spec.n", "from": 1, "to": 2}])
    );
    let source = json!({"cluster": "prod", "group": "example.com", "version": "v1", "kind": "Widget", "namespace": "team",
        "name": "a", "uid": "u1", "resourceVersion": "7", "observed": "live"});
    assert_eq!(body["source"], source);
    assert_eq!(
        (&body["rule"], &body["id"], &body["time"]),
        (
            &json!("ops/test"),
            &json!("u1.7/ops.test"),
            &json!("2026-01-01T00:00:01Z")
        )
    );
}

/// Brokers keep the order of events with the same key, and of others they do not.
#[test]
fn an_object_made_anew_under_a_name_has_the_lane_of_the_one_before() {
    let deleted = change(5, Some(&json!({})), None);
    let mut created = change(6, None, Some(&json!({})));
    created.uid = "u2".into();
    let [deleted, created] = [deleted, created].map(|entry| send(&with(&json!({})), &entry));
    assert_eq!(deleted.lane, created.lane);
    let mut elsewhere = change(7, None, Some(&json!({})));
    elsewhere.source = "test".into();
    assert_ne!(send(&with(&json!({})), &elsewhere).lane, created.lane);
}

#[test]
fn smaller_payloads_leave_out_the_states() {
    let diff = body(&send(&with(&json!({"payload": "diff"})), &update()));
    assert!(diff.get("before").is_none() && diff["diff"].as_array().unwrap().len() == 2);
    let reference = body(&send(&with(&json!({"payload": "ref"})), &update()));
    assert!(reference.get("diff").is_none() && reference["source"]["name"] == "a");
}

#[test]
fn deletions_found_later_say_so() {
    let mut entry = change(5, Some(&json!({})), None);
    entry.observed = Observed::Relist { after: at(2) };
    let event = send(&with(&json!({})), &entry);
    assert_eq!(
        (event.id.as_str(), event.what),
        ("u1.deleted/ops.test", What::Deleted)
    );
    let body = body(&event);
    assert_eq!(
        (&body["source"]["observed"], &body["source"]["notBefore"]),
        (&json!("relist"), &json!("2026-01-01T00:00:02Z"))
    );
    assert_eq!(
        (&body["after"], &body["before"]["kind"]),
        (&Value::Null, &json!("Widget"))
    );
}

#[test]
fn held_states_have_an_id_of_their_own() {
    let rule = with(&json!({}));
    let entry = change(1, None, Some(&json!({})));
    let event = rule
        .event(&Subject::new(&entry), Cause::Held, 0, 1 << 20)
        .unwrap();
    assert_eq!(
        (event.id.as_str(), event.what),
        ("u1.created.held/ops.test", What::Updated)
    );
    assert_eq!(body(&event)["held"], true);
}

#[test]
fn a_text_is_filled_in() {
    let template = "${object.metadata.name}: ${was(object.spec.n)} -> ${object.spec.n}, ${changed('spec.n') ? 'changed' : ''}${object.status.gone}; $${x} $5 ${{'a': '}'}['a']} ${object.spec}";
    let event = send(&with(&json!({"template": template})), &update());
    assert_eq!(event.content_type, "text/plain");
    let text = String::from_utf8(event.data.to_vec()).unwrap();
    assert_eq!(text, r#"a: 1 -> 2, changed; ${x} $5 } {"m":"x","n":2}"#);
}

#[test]
fn yaml_is_filled_in_and_values_keep_their_type() {
    let template = json!({"n": "${object.spec.n}", "text": "n is ${object.spec.n}", "spec": "${object.spec}", "gone": "${object.status}",
        "list": ["${change.op}", 1, true, null], "when": "${change.time}", "plain": "x", "empty": ""});
    let event = send(&with(&json!({"template": template})), &update());
    assert_eq!(event.content_type, "application/json");
    let expect = json!({"n": 2, "text": "n is 2", "spec": {"n": 2, "m": "x"}, "gone": null, "list": ["updated", 1, true, null],
        "when": "2026-01-01T00:00:01Z", "plain": "x", "empty": ""});
    assert_eq!(body(&event), expect);
}

#[test]
fn actions_of_a_rule_are_told_apart_by_receivers_that_drop_repetitions() {
    let spec = json!({"watch": {"group": "x.io", "kind": "Widget"}, "do": [{"sink": "out"}, {"sink": "out", "payload": "ref"}]});
    let rule = CompiledRule::compile(
        Origin::cluster("ops", "two"),
        &serde_json::from_value(spec).unwrap(),
        None,
    )
    .unwrap();
    let entry = update();
    let ids = [0, 1].map(|action| {
        rule.event(&Subject::new(&entry), Cause::Change, action, 1 << 20)
            .unwrap()
            .id
    });
    assert_eq!(ids, ["u1.7/ops.two", "u1.7/ops.two#2"]);
}

#[test]
fn what_cannot_be_made_is_told() {
    let entry = update();
    let failing = with(&json!({"template": "${object.spec.n / 0}"}));
    let error = failing
        .event(&Subject::new(&entry), Cause::Change, 0, 1 << 20)
        .unwrap_err();
    assert!(error.to_string().contains("division by zero"), "{error}");
    let error = with(&json!({}))
        .event(&Subject::new(&entry), Cause::Change, 0, 100)
        .unwrap_err();
    assert!(
        matches!(error, RenderError::TooLarge { max_bytes: 100, .. }),
        "{error}"
    );
    let error = with(&json!({}))
        .event(&Subject::new(&entry), Cause::Change, 1, 100)
        .unwrap_err();
    assert_eq!(error, RenderError::NoSuchAction(1));
}

#[test]
fn what_is_reconciled_has_an_id_for_each_generation_of_the_rule() {
    use skopos_react::{Evaluator as _, Trigger};
    let spec = json!({"watch": {"group": "example.com", "kind": "Widget"}, "existing": "reconcile",
        "do": [{"sink": "out"}, {"sink": "out"}]});
    let created = change(1, None, Some(&json!({"spec": {"n": 1}})));
    let id = |generation: i64, action: usize, trigger: Trigger| {
        let rule = rule(&spec.to_string()).with_generation(generation);
        rule.render(action, &created, trigger).unwrap().id
    };
    assert_eq!(id(3, 0, Trigger::Change), "u1.created/ops.test");
    assert_eq!(id(3, 0, Trigger::Existing), "u1.reconcile-3/ops.test");
    assert_eq!(id(4, 1, Trigger::Existing), "u1.reconcile-4/ops.test#2");
}
