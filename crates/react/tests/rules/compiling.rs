//! What is said of rules that cannot be.

use serde_json::json;
use skopos_react::rule::{CompiledRule, KindNames, Origin};
use skopos_schema::Structural;

use crate::{rule, spec};

fn schema() -> Structural {
    Structural::from_json(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "raw": {"x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "ready": {"type": "boolean"},
            "since": {"type": "string", "format": "date-time"}}},
    }}))
    .unwrap()
}

fn problems(yaml: &str) -> Vec<String> {
    let compiled = CompiledRule::compile(Origin::file("ops", "test"), &spec(yaml), Some(&schema()));
    compiled.unwrap_err().iter().map(ToString::to_string).collect()
}

fn problems_of_when(when: &str) -> String {
    let yaml = json!({"watch": {"group": "example.com", "kind": "Widget"}, "when": when}).to_string();
    problems(&yaml).join("\n")
}

#[test]
fn expressions_are_checked_against_the_schema() {
    for when in [
        "object.spec.replicas > 3 && oldObject.spec.replicas <= 3",
        "oldObject == null || object.spec.raw.anything == 1",
        "became(object.status.phase == 'Failed') && object.metadata.labels['a'] == 'b'",
        "heldFor(object.status.phase == 'Pending', duration('10m'))",
        "now - object.status.since > duration('1h')",
        "was(object.spec.replicas) < object.spec.replicas && changed('spec.replicas')",
        "change.op == 'updated' && change.paths.exists(p, p.startsWith('spec')) && change.namespace != 'x' && change.seq > 3",
        "object.status.ready",
    ] {
        let yaml = json!({"watch": {"group": "example.com", "kind": "Widget"}, "when": when}).to_string();
        let compiled = CompiledRule::compile(Origin::file("ops", "test"), &spec(&yaml), Some(&schema()));
        assert!(compiled.is_ok(), "{when}: {compiled:?}");
    }
    for (when, message, help) in [
        (
            "object.spec.replica > 3",
            "undefined field 'replica'",
            "kubectl explain",
        ),
        (
            "object.spec.replicas == 'a'",
            "found no matching overload for '_==_'",
            "convert one",
        ),
        (
            "objekt.spec.replicas == 1",
            "undeclared reference to 'objekt'",
            "known are object",
        ),
        (
            "object.spec.replicas",
            "the expression gives int, not true or false",
            "compare it",
        ),
        (
            "became(oldObject.spec.replicas > 1)",
            "undeclared reference to 'oldObject'",
            "only `object` can be used",
        ),
        (
            "became(object.status.phase)",
            "found no matching overload for 'became'",
            "",
        ),
        ("object.spec.replicas >", "Syntax error", "docs/cel.md"),
        (
            "changed('spec..a')",
            "is not a path of fields",
            "spec.containers[*].image",
        ),
        (
            "[1].exists(i, became(object.spec.replicas > i))",
            "undeclared reference to 'i'",
            "no variables of macros",
        ),
        (
            "heldFor(object.status.ready, duration('1m')) || heldFor(object.status.ready, duration('2m'))",
            "can be asked once",
            "make a rule of each",
        ),
        (
            "heldFor(object.status.ready, '5m')",
            "found no matching overload for 'heldFor'",
            "duration(",
        ),
    ] {
        let found = problems_of_when(when);
        assert!(found.starts_with("spec.when"), "{when}: {found}");
        assert!(found.contains(message) && found.contains(help), "{when}: {found}");
    }
}

#[test]
fn problems_point_at_the_place() {
    let found = problems_of_when("true &&\n  object.status.fase == 'x'");
    assert_eq!(
        found.lines().take(3).collect::<Vec<_>>(),
        [
            "spec.when:2:16: undefined field 'fase'",
            " |   object.status.fase == 'x'",
            " |                ^"
        ],
    );
    let found = problems_of_when("true &&\n  became(oldObject == null)");
    assert_eq!(
        found.lines().take(3).collect::<Vec<_>>(),
        [
            "spec.when:2:10: undeclared reference to 'oldObject' (in container '')",
            " |   became(oldObject == null)",
            " |          ^",
        ],
    );
}

#[test]
fn every_placeholder_is_checked() {
    let found = problems(
        "watch: {group: example.com, kind: Widget}\n\
         do:\n  - {sink: a, template: \"first\\nphase ${object.status.fase} and ${object.spec.replicas + 'x'}\"}\n\
         \x20 - {sink: b, template: {list: [1, '${now}'], 'a${b}': 1, open: 'x ${object'}}\n",
    );
    let expect = [
        "spec.do[0].template:2:22: undefined field 'fase'",
        "spec.do[0].template:2:56: found no matching overload for '_+_' applied to '(int, string)'",
        "spec.do[1].template.a${b}: ${…} stands in a name",
        "spec.do[1].template.list[1]:1:3: undeclared reference to 'now' (in container '')",
        "spec.do[1].template.open:1:3: ${ is not closed",
    ];
    let mut first: Vec<&str> = found.iter().filter_map(|text| text.lines().next()).collect();
    first.sort_unstable();
    assert_eq!(first, expect);
    assert!(found.iter().any(|text| text.contains("change.time")), "{found:?}");
}

#[test]
fn all_problems_are_told_at_once() {
    let found = problems(
        "watch: {kind: Pod, selector: {matchLabels: {'a b': c}}, matchFields: {'x..y': '1'}}\n\
         fields: {include: ['/spec'], ignore: ['']}\nwhen: nope\n",
    );
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn rules_in_a_namespace_see_only_their_own() {
    let own = spec("watch: {kind: Pod}");
    let other = spec("watch: {kind: Pod, namespaces: [other]}");
    let compile = |origin: Origin, spec| CompiledRule::compile(origin, spec, None);
    let wanted = compile(Origin::cluster("team", "r"), &own).unwrap().wanted();
    assert_eq!(wanted.namespace.as_deref(), Some("team"));
    assert!(
        compile(Origin::cluster("team", "r"), &other).unwrap_err()[0]
            .message
            .contains("sees only that one")
    );
    for origin in [Origin::cluster("skopos-system", "r"), Origin::file("team", "r")] {
        assert_eq!(compile(origin.clone(), &own).unwrap().wanted().namespace, None);
        assert_eq!(
            compile(origin, &other).unwrap().wanted().namespace.as_deref(),
            Some("other")
        );
    }
}

#[test]
fn short_names_are_resolved_by_who_knows_them() {
    let names = KindNames {
        group: "example.com".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        short_names: vec!["wd".into()],
    };
    let rule = rule("watch: {group: example.com, kind: wd}").with_names(names);
    assert_eq!(rule.wanted().kind, Some(("example.com".into(), "Widget".into())));
    assert!(crate::matches(&rule, None, Some(&json!({}))));
}
