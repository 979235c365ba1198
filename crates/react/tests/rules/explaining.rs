//! Why a rule matched or not.

use fastrand::Rng;
use serde_json::json;
use skopos_react::rule::Subject;

use crate::{change, rule, when};

#[test]
fn the_values_that_decided_are_shown() {
    let rule = when(
        "became(object.status.phase == 'Failed') && object.spec.replicas > 3 && now > timestamp('2020-01-01T00:00:00Z')",
    );
    let before = json!({"status": {"phase": "Running"}, "spec": {"replicas": 2}});
    let after = json!({"status": {"phase": "Failed"}, "spec": {"replicas": 2}});
    let entry = change(1, Some(&before), Some(&after));
    let text = rule.explain(&Subject::new(&entry), None).to_string();
    for line in [
        "ops/test does not match u1.7",
        "  yes kind: wanted Widget of group \"example.com\", any version; it is Widget of group \"example.com\", v1",
        "  yes fields: 1 of 1 changed fields count",
        "        status.phase = \"Running\" -> \"Failed\"",
        "        became(object.status.phase == 'Failed') = true",
        "        object.spec.replicas > 3 = false",
        "        object.spec.replicas = 2",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(text.contains("  NO  when: "), "{text}");
}

#[test]
fn explanations_agree_with_evaluations() {
    let rules = [
        "watch: {group: example.com, kind: Widget}\nwhen: became(object.spec.n > 1)",
        "watch: {group: example.com, kind: Widget, events: [updated]}\nfields: {include: [spec.m]}",
        "watch: {group: example.com, kind: Widget, selector: {matchLabels: {a: '1'}}}\nwhen: object.spec.gone == 1 || object.spec.n == 2",
        "watch: {group: example.com, kind: widgets, matchFields: {spec.n: '1'}, namespaces: [team]}",
        "watch: {group: example.com, kind: Gadget}",
    ]
    .map(rule);
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let mut state = || {
            let (n, m) = (rng.i32(0..3), rng.i32(0..2));
            let labels = json!({"a": m.to_string()});
            rng.bool()
                .then(|| json!({"spec": {"n": n, "m": m}, "metadata": {"labels": labels}}))
        };
        let (before, after) = (state(), state());
        if before.is_none() && after.is_none() {
            continue;
        }
        let entry = change(1, before.as_ref(), after.as_ref());
        let subject = Subject::new(&entry);
        for rule in &rules {
            let (found, explained) = (rule.evaluate(&subject, None), rule.explain(&subject, None));
            assert_eq!(found.matched, explained.matched, "seed {seed}: {explained}");
        }
    }
}
