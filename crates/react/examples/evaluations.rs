//! Measures evaluations of typical rules: `cargo run --release -p skopos-react --example evaluations`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a measurement speaks on its terminal"
)]

use std::{hint::black_box, time::Instant};

use serde_json::{Value, json};
use skopos_journal::{Entry, Observed, Seq};
use skopos_object::{GroupVersionKind, Object, ObjectKey, Op, ResourceVersion};
use skopos_react::rule::{Cause, CompiledRule, EdgeState, Origin, Subject};

/// How many evaluations are made between two looks at the time.
const BATCH: u32 = 5_000;

const RULES: [(&str, &str); 5] = [
    (
        "another namespace",
        "{watch: {group: apps, kind: Deployment, namespaces: [other]}, do: [{sink: a}]}",
    ),
    (
        "another label",
        "{watch: {group: apps, kind: Deployment, selector: {matchLabels: {a: b}}}, do: [{sink: a}]}",
    ),
    (
        "fields",
        "{watch: {group: apps, kind: Deployment}, fields: {include: [spec.replicas]}, do: [{sink: a}]}",
    ),
    (
        "fields and when",
        "{watch: {group: apps, kind: Deployment}, fields: {include: [status]}, when: 'object.status.readyReplicas < object.spec.replicas', do: [{sink: a}]}",
    ),
    (
        "became",
        "{watch: {group: apps, kind: Deployment}, when: 'became(object.status.readyReplicas < object.spec.replicas)', do: [{sink: a}]}",
    ),
];

fn main() {
    let entry = entry();
    println!(
        "object of {} bytes",
        entry.after.as_ref().map_or(0, |object| object.bytes().len())
    );
    for (name, yaml) in RULES {
        let spec = skopos_object::yaml::decode(yaml.as_bytes())
            .expect("the rules are YAML")
            .value;
        let spec = serde_json::from_value(spec).expect("the rules are rules");
        let rule =
            CompiledRule::compile(Origin::file("ops", "bench"), &spec, None).expect("the rules compile");
        let edge = EdgeState::default();
        let alone = per_second(|| black_box(rule.evaluate(&Subject::new(&entry), Some(&edge))).matched);
        let subject = Subject::new(&entry);
        let shared = per_second(|| black_box(rule.evaluate(&subject, Some(&edge))).matched);
        println!("{name:>20}: {alone:>9.0}/s, {shared:>9.0}/s for each further rule on the same change");
        if name == "fields and when" {
            let sent = per_second(|| {
                rule.event(&Subject::new(&entry), Cause::Change, 0, 1 << 20)
                    .is_ok()
            });
            println!("{:>20}: {sent:>9.0}/s", "full payload");
        }
    }
}

/// By the time on the processor, where the system tells it: others may be busy on the machine.
fn per_second(mut work: impl FnMut() -> bool) -> f64 {
    let (begun, on_cpu) = (Instant::now(), seconds_on_cpu());
    let mut n_done = 0;
    loop {
        for _ in 0..BATCH {
            black_box(work());
        }
        n_done += BATCH;
        let seconds = match (on_cpu, seconds_on_cpu()) {
            (Some(before), Some(after)) => after - before,
            _ => begun.elapsed().as_secs_f64(),
        };
        if seconds >= 1.0 {
            return f64::from(n_done) / seconds;
        }
    }
}

fn seconds_on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: f64 = text.split(' ').next()?.parse().ok()?;
    Some(nanos / 1e9)
}

fn entry() -> Entry {
    let (before, after) = (deployment(3, 41), deployment(2, 42));
    Entry {
        seq: Seq(1),
        at: "2026-01-01T00:00:00Z".parse().expect("a time"),
        op: Op::Updated,
        source: "kubernetes".to_owned(),
        kind: GroupVersionKind::new("apps", "v1", "Deployment"),
        plural: "deployments".to_owned(),
        key: ObjectKey::namespaced("shop", "web"),
        uid: "0b1c".to_owned(),
        version: ResourceVersion::from("42"),
        observed: Observed::Live,
        by: Vec::new(),
        before: Some(Object::from_value(&before).expect("an object")),
        after: Some(Object::from_value(&after).expect("an object")),
    }
}

fn deployment(ready: u32, version: u32) -> Value {
    let env: Vec<Value> = (0..18)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value of {n}")}))
        .collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "0b1c", "resourceVersion": version.to_string(), "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web", "team": "shop", "tier": "front"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/shop/web:1.2.3", "env": env,
                "ports": [{"containerPort": 8080, "protocol": "TCP"}], "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}}}]}}},
        "status": {"replicas": 3, "readyReplicas": ready, "observedGeneration": 3, "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
    })
}
