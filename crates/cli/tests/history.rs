//! `skopos history` on journals that tests write, without a running process.

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
use support::{Running, examples, run, run_with, skopos};

fn story(dir: &Path) {
    record(
        &dir.join(".skopos"),
        &[
            Step::Put(10, "default/web", "{image: nginx, replicas: 1}"),
            Step::Put(20, "default/web", "{image: nginx, replicas: 3}"),
            Step::Put(30, "shop/db", "{image: pg}"),
            Step::Delete(40, "shop/db"),
        ],
    );
}

#[track_caller]
fn check(dir: &Path, args: &[&str], expect: &str) {
    assert_eq!(run(dir, args).ok(), expect, "{args:?}");
}

#[test]
fn shows_what_happened_in_a_table() {
    let dir = tempfile::tempdir().unwrap();
    story(dir.path());
    check(
        dir.path(),
        &["history", "applications"],
        "\
WHEN                   CHANGE   OP        OBJECT        BY    WHAT
2026-01-01T00:00:10Z   1        created   default/web   -     
2026-01-01T00:00:20Z   2        updated   default/web   -     spec.replicas: 1 -> 3
2026-01-01T00:00:30Z   3        created   shop/db       -     
2026-01-01T00:00:40Z   4        deleted   shop/db       -     
",
    );
    let web = "\
WHEN                   CHANGE   OP        OBJECT        BY    WHAT
2026-01-01T00:00:20Z   2        updated   default/web   -     spec.replicas: 1 -> 3
";
    for args in [
        &["history", "Application", "web", "--since", "2026-01-01T00:00:15Z"][..],
        &["history", "application/web", "-n", "default", "--last", "1"],
        &["history", "app", "web", "--last", "1"],
        &[
            "history",
            "applications.myapps.example.com",
            "web",
            "--until",
            "2026-01-01T00:00:25Z",
            "--last",
            "1",
        ],
    ] {
        check(dir.path(), args, web);
    }
}

#[test]
fn shows_fields_as_the_watch_does() {
    let dir = tempfile::tempdir().unwrap();
    story(dir.path());
    check(
        dir.path(),
        &["history", "applications", "--diff"],
        "\
2026-01-01T00:00:10Z  created  applications.myapps.example.com default/web  (change 1, version 2)
    + spec.image: \"nginx\"
    + spec.replicas: 1
2026-01-01T00:00:20Z  updated  applications.myapps.example.com default/web  (change 2, version 3)
    ~ spec.replicas: 1 -> 3
2026-01-01T00:00:30Z  created  applications.myapps.example.com shop/db  (change 3, version 4)
    + spec.image: \"pg\"
2026-01-01T00:00:40Z  deleted  applications.myapps.example.com shop/db  (change 4, version 5)
    - spec.image: \"pg\"
",
    );
}

#[test]
fn machines_get_a_line_per_change() {
    let dir = tempfile::tempdir().unwrap();
    story(dir.path());
    let out = run(
        dir.path(),
        &["history", "applications", "web", "-o", "json", "--last", "1"],
    )
    .ok();
    let change: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&change["seq"], &change["op"]), (&2.into(), &"updated".into()));
    assert_eq!(
        change["diff"],
        serde_json::json!([{"path": "spec.replicas", "old": 1, "new": 3}])
    );
    assert_eq!(change["before"], Value::Null);
    let out = run(
        dir.path(),
        &[
            "history",
            "applications",
            "web",
            "-o",
            "json",
            "--last",
            "1",
            "--diff",
        ],
    )
    .ok();
    let change: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(change["before"]["spec"]["replicas"], 1);
    let yaml = run(dir.path(), &["history", "applications", "web", "-o", "yaml"]).ok();
    assert_eq!(yaml.matches("---\n").count(), 2, "{yaml}");
}

#[test]
fn shows_the_object_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    story(dir.path());
    let at = |time: &str, name: &str, format: &str| {
        run(
            dir.path(),
            &["history", "applications", name, "--at", time, "-o", format],
        )
    };
    let yaml = at("2026-01-01T00:00:15Z", "web", "text").ok();
    assert!(
        yaml.contains("  replicas: 1\n") && yaml.contains("kind: Application\n"),
        "{yaml}"
    );
    let json: Value = serde_json::from_str(&at("2026-01-01T00:00:20Z", "web", "json").ok()).unwrap();
    assert_eq!(json["spec"]["replicas"], 3);
    at("2026-01-01T00:00:45Z", "db", "text").fails(1, &["was not there", "deleted at 2026-01-01T00:00:40Z"]);
    at("2026-01-01T00:00:01Z", "web", "text").fails(1, &["was not there", "skopos history"]);
}

#[test]
fn shows_holes_and_what_was_found_later() {
    let dir = tempfile::tempdir().unwrap();
    record(
        &dir.path().join(".skopos"),
        &[
            Step::Put(10, "default/web", "{replicas: 1}"),
            Step::Put(11, "default/db", "{replicas: 1}"),
            Step::Away(
                100,
                &[
                    Step::Put(50, "default/web", "{replicas: 2}"),
                    Step::Delete(60, "default/db"),
                ],
            ),
        ],
    );
    let later = ["history", "applications", "--since", "2026-01-01T00:00:12Z"];
    check(
        dir.path(),
        &later,
        "\
WHEN                   CHANGE   OP        OBJECT        BY    WHAT
2026-01-01T00:00:11Z   -        hole      -             -     until 2026-01-01T00:01:40Z changes may be missing (expired)
2026-01-01T00:01:40Z   3        updated   default/web   -     spec.replicas: 1 -> 2 (found later: it happened after 2026-01-01T00:00:11Z)
2026-01-01T00:01:40Z   4        deleted   default/db    -     (found later: it happened after 2026-01-01T00:00:11Z)
",
    );
    let doubtful = run(
        dir.path(),
        &["history", "applications", "web", "--at", "2026-01-01T00:00:55Z"],
    );
    assert!(
        doubtful
            .err
            .contains("between 2026-01-01T00:00:11Z and 2026-01-01T00:01:40Z"),
        "{}",
        doubtful.err
    );
    assert!(doubtful.ok().contains("replicas: 1"));
    let json = run(dir.path(), &["history", "applications", "-o", "json"]).ok();
    let holes = json
        .lines()
        .filter(|line| line.starts_with(r#"{"hole":{"#))
        .count();
    assert_eq!(holes, 1, "{json}");
}

#[test]
fn bad_input_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let none = run(dir.path(), &["history", "applications"]);
    none.fails(1, &["there is no journal in .skopos", "--data-dir"]);
    assert!(!dir.path().join(".skopos").exists(), "nothing is made by looking");
    story(dir.path());
    run(dir.path(), &["history"]).fails(2, &["TYPE"]);
    run(dir.path(), &["history", "gadgets"]).fails(1, &["gadgets", "applications.myapps.example.com"]);
    run(dir.path(), &["history", "gad"]).fails(
        1,
        &[
            "no changes of \"gad\"",
            "applications.myapps.example.com",
            "write the plural or the kind",
        ],
    );
    run(dir.path(), &["history", "deploy"]).fails(1, &["no changes of \"deployments.apps\" were captured"]);
    run(dir.path(), &["history", "applications", "--since", "soon"]).fails(2, &["7d"]);
    run(dir.path(), &["history", "applications", "--at", "1h"]).fails(2, &["which?"]);
    run(dir.path(), &["history", "applications", "a", "b"]).fails(2, &["one name"]);
    let nobody = ["history", "applications", "nobody"];
    run(dir.path(), &nobody).fails(
        1,
        &[
            "nothing is known of applications.myapps.example.com nobody",
            "skopos history",
        ],
    );
    let quiet = run(
        dir.path(),
        &["history", "applications", "web", "--since", "2026-02-01"],
    );
    assert_eq!(
        (quiet.code, quiet.out.as_str()),
        (0, ""),
        "it is known, and nothing happened"
    );
    assert!(quiet.err.contains("No changes"), "{}", quiet.err);
    std::fs::write(dir.path().join(".skopos/admin.json"), "{").unwrap();
    run(dir.path(), &["history", "applications"]).fails(1, &["admin.json"]);
    // A process that was killed leaves its file behind; nobody listens on port 1.
    std::fs::write(
        dir.path().join(".skopos/admin.json"),
        r#"{"address":"127.0.0.1:1","token":"x","pid":1}"#,
    )
    .unwrap();
    run(dir.path(), &["history", "applications"]).ok();
}

#[test]
fn restores_what_was_after_showing_it() {
    let dir = tempfile::tempdir().unwrap();
    // A server that keeps no journal: the one in the directory is asked.
    let flags = [
        "apiserver",
        "--secure-port",
        "0",
        "--kubeconfig",
        ".skopos/kubeconfig",
    ];
    let server = Running::start(skopos(dir.path()).args(flags));
    server.lines.find("ready");
    let definition = examples().join("application-crd.yaml");
    run(dir.path(), &["apply", "-f", definition.to_str().unwrap()]).ok();
    story(dir.path());
    let now = "apiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {name: web}\nspec: {image: bad, replicas: 9}\n";
    run_with(dir.path(), &["apply", "-f", "-"], now).ok();
    let restore = |args: &[&str]| {
        let mut all = vec!["history", "restore", "app", "web", "--at", "2026-01-01T00:00:20Z"];
        all.extend(args);
        run(dir.path(), &all)
    };
    let shown = restore(&[]).ok();
    assert!(
        shown.contains("dry run") && shown.contains("~ spec.image: \"bad\" -> \"nginx\""),
        "{shown}"
    );
    let live = |path: &str| {
        let out = run(dir.path(), &["get", "app", "web", "-o", "json"]).ok();
        serde_json::from_str::<Value>(&out)
            .unwrap()
            .pointer(path)
            .cloned()
    };
    assert_eq!(live("/spec/replicas"), Some(9.into()));
    let done: Value = serde_json::from_str(&restore(&["--yes", "-o", "json"]).ok()).unwrap();
    assert_eq!(
        (&done["op"], &done["dryRun"]),
        (&"restored".into(), &false.into())
    );
    assert_eq!(
        (live("/spec/replicas"), live("/spec/image")),
        (Some(3.into()), Some("nginx".into()))
    );
    run(dir.path(), &["delete", "app", "web"]).ok();
    assert!(restore(&["--yes"]).ok().contains("created anew"));
    assert_eq!(live("/spec/replicas"), Some(3.into()));
    run(dir.path(), &["history", "restore", "app", "web"]).fails(2, &["--at"]);
    run(dir.path(), &["history", "restore", "app", "--at", "1h"]).fails(2, &["which object"]);
}
