//! `skopos check`, `rbac`, `crd`, `backtest` and `explain` on files and journals that tests write.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]

#[path = "support/journal.rs"]
mod journal;
mod support;

use std::path::Path;

use journal::{Step, record};
use serde_json::Value;
use support::{examples, run, run_with};

const RULES: &str = "\
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: scaled, namespace: ops}
spec:
  watch: {group: myapps.example.com, kind: Application, events: [updated]}
  fields: {include: [spec.replicas]}
  when: object.spec.replicas > 2
  serviceAccountName: writer
  do:
  - {sink: hook, template: '${object.metadata.name} has ${string(object.spec.replicas)}'}
  - sink: jobs
    template: {apiVersion: batch/v1, kind: Job, metadata: {generateName: x-}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {name: hook, namespace: ops}
spec: {webhook: {url: 'https://example.com/hook', hmac: {secret: {secret: {name: hook-key, key: k}}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {name: jobs, namespace: ops}
spec: {kubernetes: {verb: create}}
---
apiVersion: skopos.dev/v1alpha1
kind: Record
metadata: {name: keep, namespace: ops}
spec: {watch: [{kind: ConfigMap}], redact: [data.password]}
---
apiVersion: skopos.dev/v1alpha1
kind: RuleTest
metadata: {name: scaled, namespace: ops}
spec:
  rule: scaled
  cases:
  - name: more
    before: {metadata: {name: web}, spec: {replicas: 1}}
    after: {metadata: {name: web}, spec: {replicas: 3}}
    expect: {matches: true, payload: web has 3}
  - name: fewer
    before: {metadata: {name: web}, spec: {replicas: 3}}
    after: {metadata: {name: web}, spec: {replicas: 1}}
    expect: {matches: false}
";

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

fn definition() -> String {
    examples()
        .join("application-crd.yaml")
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn check_passes_what_is_right() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "rules.yaml", RULES);
    let out = run(dir.path(), &["check", "-f", "rules.yaml", &definition()]).ok();
    assert_eq!(
        out,
        "6 objects in 2 files: 0 problems, 0 warnings; 2 of 2 test cases passed\n"
    );
    let json = run(dir.path(), &["check", "-f", "rules.yaml", "-o", "json"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["testsPassed"], &json["problems"]),
        (&2.into(), &Value::Array(vec![]))
    );
}

#[test]
fn check_finds_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let application = "---\napiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {name: a}\nspec: {replicas: many, colour: red}\n";
    let wrong = RULES
        .replace("object.spec.replicas > 2", "object.spec.replica > 2")
        .replace("https://example.com/hook", "nowhere")
        .replace("data.password", "metadata.name");
    write(dir.path(), "wrong.yaml", &format!("{wrong}{application}"));
    let done = run(dir.path(), &["check", "-f", "wrong.yaml", &definition()]);
    done.fails(
        1,
        &[
            "wrong.yaml:1: Rule ops/scaled: spec.when",
            "replica",
            "Sink ops/hook",
            "Record ops/keep: spec.redact[0]",
            "Application a: unknown field \"spec.colour\"",
            "Application a: spec.replicas",
            "0 of 2 test cases passed",
        ],
    );
    write(dir.path(), "test.yaml", &RULES.replace("web has 3", "web has 4"));
    run(dir.path(), &["check", "-f", "test.yaml"])
        .fails(1, &["case \"more\"", "web has 4", "1 of 2 test cases"]);
    write(dir.path(), "twice.yaml", &format!("{RULES}---\n{RULES}"));
    run(dir.path(), &["check", "-f", "twice.yaml"]).fails(1, &["is there twice"]);
    let pointer = RULES.replace("data.password", "/data/password");
    write(dir.path(), "pointer.yaml", &pointer);
    run(dir.path(), &["check", "-f", "pointer.yaml"]).fails(1, &["spec.redact[0]", "write dots"]);
    write(dir.path(), "broken.yaml", "a: b: c\n");
    run(dir.path(), &["check", "-f", "broken.yaml"]).fails(1, &["broken.yaml:1"]);
    run(dir.path(), &["check", "-f", "nothing.yaml"]).fails(1, &["nothing.yaml"]);
    run(dir.path(), &["check"]).fails(2, &["--filename"]);
    let lone = run_with(
        dir.path(),
        &["check", "-f", "-"],
        RULES.split("---").next().unwrap(),
    );
    assert!(
        lone.out.contains("warning") && lone.out.contains("the sink \"hook\" is not in these files"),
        "{lone:?}"
    );
    assert_eq!(lone.code, 0);
}

#[test]
fn check_warns_of_a_rule_that_matches_everything() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "apiVersion: skopos.dev/v1alpha1\nkind: Rule\nmetadata: {name: all}\nspec: {watch: {kind: Pod}, do: [{sink: out}]}\n";
    let sink =
        "---\napiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: out}\nspec: {stdout: {}}\n";
    let check = |rule: &str| {
        write(dir.path(), "all.yaml", &format!("{rule}{sink}"));
        run(dir.path(), &["check", "-f", "all.yaml"]).ok()
    };
    let warned = check(rule);
    assert!(
        warned.contains("all.yaml:1: Rule default/all: matches every change of every Pod: narrow it by"),
        "{warned}"
    );
    for narrow in [
        "when: 'true', do",
        "limits: {maxActionsPerMinute: 60}, do",
        "fields: {include: [spec]}, do",
    ] {
        let quiet = check(&rule.replace("do", narrow));
        assert!(quiet.contains("0 problems, 0 warnings"), "{quiet}");
    }
}

#[test]
fn check_finds_rules_and_sinks_that_can_never_work() {
    let dir = tempfile::tempdir().unwrap();
    let object = |kind: &str, spec: &str| {
        format!(
            "---\n{{apiVersion: skopos.dev/v1alpha1, kind: {kind}, metadata: {{name: a}}, spec: {spec}}}\n"
        )
    };
    let problem = |text: &str, expected: &str| {
        write(dir.path(), "wrong.yaml", text);
        run(dir.path(), &["check", "-f", "wrong.yaml", &definition()]).fails(1, &["wrong.yaml", expected]);
    };
    let app = "group: myapps.example.com, kind: Application";
    let rule = |watch: &str, more: &str| {
        let spec = format!("{{watch: {{{watch}, events: [created]}}, do: [{{sink: a}}]{more}}}");
        object("Rule", &spec)
    };
    for (text, expected) in [
        (rule("group: '*', kind: '*'", ""), "no kind is called"),
        (
            rule(&format!("{app}, version: v9"), ""),
            "captured in version v1, not v9",
        ),
        (
            rule("kind: Pod, version: v9", ""),
            "captured in version v1, not v9",
        ),
        (
            rule("kind: Node, namespaces: [a]", ""),
            "nodes are in no namespace",
        ),
        (
            rule("kind: Pod, namespaces: [Bad Name]", ""),
            "no namespace is called \"Bad Name\"",
        ),
        (
            rule("kind: Pod", ", serviceAccountName: Not A Name"),
            "spec.serviceAccountName",
        ),
        (
            rule("kind: Pod", "") + &object("Sink", "{kubernetes: {}}"),
            "the sink \"a\" writes objects, and no object is given",
        ),
        (
            object("Sink", "{stdout: {}, delivery: {maxAttempts: 0}}"),
            "spec.delivery.maxAttempts",
        ),
        (
            object("Sink", "{kubernetes: {}, delivery: {timeout: 0s}}"),
            "spec.delivery.timeout",
        ),
        (
            object(
                "Sink",
                "{stdout: {}, delivery: {backoff: {initial: 2s, max: 1s}}}",
            ),
            "the first wait (2s) is longer than the longest (1s)",
        ),
        (
            object("Record", "{watch: [{kind: Pod}], keep: {for: 0s}}"),
            "spec.keep.for",
        ),
        (
            object("Record", "{watch: [{kind: Pod}], keep: {changes: 0}}"),
            "spec.keep.changes",
        ),
        (
            object("Record", "{watch: [{kind: '*'}]}"),
            "there are no wildcards",
        ),
        (
            object("Sinkk", "{}"),
            "kind \"Sinkk\" of apiVersion \"skopos.dev/v1alpha1\" is none of ours",
        ),
        (
            object("Rule", "{}").replace("v1alpha1", "v1alpha2"),
            "expected Rule, Sink, Record or RuleTest of skopos.dev/v1alpha1",
        ),
    ] {
        problem(&text, expected);
    }
    // From a file a rule may watch what is in no namespace; in a cluster it may not from everywhere.
    write(dir.path(), "wrong.yaml", &rule("kind: Node", ""));
    let warned = run(dir.path(), &["check", "-f", "wrong.yaml"]).ok();
    assert!(
        warned.contains("warning") && warned.contains("nodes are in no namespace"),
        "{warned}"
    );
}

#[test]
fn files_below_a_directory_count_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("rules/team/.hidden")).unwrap();
    write(&dir.path().join("rules/team"), "rules.yaml", RULES);
    write(&dir.path().join("rules/team/.hidden"), "broken.yaml", "a: b: c\n");
    let checked = run(dir.path(), &["check", "-f", "rules", &definition()]).ok();
    assert!(
        checked.starts_with("6 objects in 2 files: 0 problems"),
        "{checked}"
    );
    for args in [
        &["rbac", "-f", "rules", &definition()][..],
        &["manifests", "--image", "a:1", "-f", "rules", &definition()],
    ] {
        let printed = run(dir.path(), args).ok();
        assert!(
            printed.contains("hook-key"),
            "the Secret of a sink below: {printed}"
        );
    }
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    run(dir.path(), &["check", "-f", "empty"]).fails(1, &["no .yaml, .yml or .json file in empty or below"]);
}

/// Compares what a command prints with a file; writes the file with `UPDATE=1`.
#[track_caller]
fn check_golden(dir: &Path, args: &[&str], name: &str) {
    let out = run(dir, args).ok();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&golden, &out).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    assert_eq!(out, expected, "run with UPDATE=1");
}

#[test]
fn rbac_gives_what_is_needed_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "rules.yaml", RULES);
    let definition = definition();
    let args = ["rbac", "-f", "rules.yaml", &definition];
    check_golden(dir.path(), &args, "rbac.yaml");
    let scoped = [
        &args[..],
        &["--watch-namespace", "ops", "--watch-namespace", "shop"],
    ]
    .concat();
    check_golden(dir.path(), &scoped, "rbac-namespaces.yaml");
    let elsewhere = run(dir.path(), &[&args[..], &["--watch-namespace", "shop"]].concat());
    assert!(
        elsewhere.err.contains("Rule ops/scaled does not count") && elsewhere.code == 0,
        "{elsewhere:?}"
    );
    let guessed = run(dir.path(), &["rbac", "-f", "rules.yaml"]);
    assert!(
        guessed.err.contains("applications") && guessed.code == 0,
        "{guessed:?}"
    );
    write(dir.path(), "broken.yaml", "kind: [");
    run(dir.path(), &["rbac", "-f", "broken.yaml"]).fails(1, &["broken.yaml"]);
}

#[test]
fn manifests_hold_everything_that_runs_in_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "rules.yaml", RULES);
    let definition = definition();
    let args = [
        "manifests",
        "-f",
        "rules.yaml",
        &definition,
        "--image",
        "a:1",
        "-o",
        "json",
    ];
    let printed = |more: &[&str]| -> Vec<Value> {
        let out = run(dir.path(), &[&args[..], more].concat()).ok();
        let list: Value = serde_json::from_str(&out).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let kinds = |objects: &[Value]| -> Vec<String> {
        let kinds = objects.iter().map(|one| one["kind"].as_str().unwrap().to_owned());
        kinds.collect()
    };
    let rights = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"];
    let one = printed(&[]);
    for kind in [
        &rights[..],
        &["Namespace", "CustomResourceDefinition", "Role", "RoleBinding"],
    ]
    .concat()
    {
        assert!(kinds(&one).iter().any(|one| one == kind), "{kind}");
    }
    assert!(kinds(&one).ends_with(&["StatefulSet", "Service", "PodDisruptionBudget"].map(str::to_owned)));
    let two = printed(&["--journal-secret", "journal/address"]);
    let deployment = two.iter().find(|one| one["kind"] == "Deployment").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(env.contains(r#"{"key":"address","name":"journal"}"#), "{env}");
    run(dir.path(), &args[..4]).fails(2, &["--image"]);
}

#[test]
fn crd_prints_our_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = run(dir.path(), &["crd"]).ok();
    for name in ["rules.skopos.dev", "sinks.skopos.dev", "records.skopos.dev"] {
        assert!(yaml.contains(&format!("name: {name}\n")), "{name}");
    }
    let json: Value = serde_json::from_str(&run(dir.path(), &["crd", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 3);
    write(dir.path(), "crds.yaml", &yaml);
    run(dir.path(), &["check", "-f", "crds.yaml"]).ok();
}

#[test]
fn backtest_and_explain_say_what_a_rule_makes_of_the_past() {
    let dir = tempfile::tempdir().unwrap();
    record(
        &dir.path().join(".skopos"),
        &[
            Step::Put(10, "default/web", "{image: nginx, replicas: 1}"),
            Step::Put(20, "default/web", "{image: nginx, replicas: 3}"),
            Step::Put(30, "default/web", "{image: nginx, replicas: 2}"),
        ],
    );
    let rule = RULES
        .split("---")
        .next()
        .unwrap()
        .replace("  serviceAccountName: writer\n", "");
    write(dir.path(), "rule.yaml", &rule);
    let since = ["--since", "2026-01-01", "--payloads", "1"];
    let backtest = [&["backtest", "-f", "rule.yaml"], &since[..]].concat();
    let out = run(dir.path(), &backtest).ok();
    assert_eq!(
        out,
        "\
ops/scaled would have matched 1 of 3 changes, of 1 objects
  changes     2026-01-01T00:00:10Z to 2026-01-01T00:00:30Z
  deliveries  1 to hook
  deliveries  1 to jobs
  at most     1 in the minute of 2026-01-01T00:00:00Z
2026-01-01T00:00:20Z  updated  default/web -> hook  (change 2)
    web has 3
"
    );
    let json: Value =
        serde_json::from_str(&run(dir.path(), &[&backtest[..], &["-o", "json"]].concat()).ok()).unwrap();
    assert_eq!(json["matched"], 1);
    let why = run(dir.path(), &["explain", "3", "-f", "rule.yaml"]).ok();
    assert!(
        why.contains("ops/scaled does not match") && why.contains("NO  when"),
        "{why}"
    );
    let recent = run(dir.path(), &["explain", "-f", "rule.yaml"]).ok();
    assert!(recent.contains("ops/scaled matches change 2"), "{recent}");
    run(dir.path(), &["explain", "99", "-f", "rule.yaml"]).fails(1, &["no change \"99\"", "1 to 3"]);
    run(dir.path(), &["explain", "2"]).fails(1, &["no rules are in force", "-f"]);
    run(dir.path(), &["explain"]).fails(2, &["CHANGE|RULE"]);
    run(dir.path(), &["explain", "what", "-f", "rule.yaml"]).fails(2, &["neither the number"]);
    write(
        dir.path(),
        "bad.yaml",
        &rule.replace("object.spec.replicas > 2", "object.spec.replicas >"),
    );
    run(dir.path(), &["backtest", "-f", "bad.yaml"]).fails(1, &["spec.when"]);
    run(
        dir.path(),
        &["backtest", "-f", "rule.yaml", "--data-dir", "elsewhere"],
    )
    .fails(1, &["no journal in elsewhere"]);
    run(dir.path(), &["backtest", "-f", "gone.yaml"]).fails(1, &["gone.yaml"]);
}
