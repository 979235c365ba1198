//! Drives the built binary against control planes that it starts itself.

#![expect(clippy::unwrap_used, reason = "tests")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;

use support::{Running, examples, run, run_with, skopos, skopos_as, up, up_in_memory};

fn install(dir: &Path) {
    run(
        dir,
        &[
            "apply",
            "-f",
            examples().join("application-crd.yaml").to_str().unwrap(),
        ],
    )
    .ok();
}

fn application(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {{name: {name}}}\nspec: {{image: nginx, replicas: {replicas}}}\n"
    )
}

fn apply(dir: &Path, name: &str, replicas: u32) -> String {
    run_with(dir, &["apply", "-f", "-"], &application(name, replicas)).ok()
}

#[test]
fn up_says_one_line_and_stops_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = up(dir.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert!(dir.path().join(".skopos/kubeconfig").exists());
    server.signal("TERM");
    assert_eq!(server.wait(), 0);
    assert_eq!(server.lines.rest(), Vec::<String>::new());
    assert!(!dir.path().join(".skopos/kubeconfig").exists());
}

#[test]
fn up_on_a_taken_port_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = up(dir.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    let done = run(
        dir.path(),
        &["up", "--in-memory", "--listen", &address, "--data-dir", "other"],
    );
    assert_eq!(done.code, 4, "{done:?}");
    assert!(
        done.err.contains(&address) && done.err.contains("--listen 127.0.0.1:0"),
        "{}",
        done.err
    );
}

#[test]
fn apply_creates_then_leaves_alone_then_configures() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    let examples = examples();
    let files = ["apply", "-f", examples.to_str().unwrap()];
    let first = run(dir.path(), &files).ok();
    assert!(
        first.contains(
            "customresourcedefinition.apiextensions.k8s.io/applications.myapps.example.com created\n"
        )
    );
    assert!(
        first.contains("application.myapps.example.com/shop created\n"),
        "{first}"
    );
    assert!(
        first.contains("apiendpoint.example.com/my-first-endpoint created\n"),
        "{first}"
    );
    let second = run(dir.path(), &files).ok();
    assert!(
        second.lines().all(|line| line.ends_with(" unchanged")),
        "{second}"
    );
    assert_eq!(
        apply(dir.path(), "web", 1),
        "application.myapps.example.com/web created\n"
    );
    assert_eq!(
        apply(dir.path(), "web", 2),
        "application.myapps.example.com/web configured\n"
    );
}

#[test]
fn apply_removes_what_is_no_longer_in_the_file_and_keeps_what_others_set() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    install(dir.path());
    let with = "apiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {name: web, labels: {a: x}}\n\
                spec: {image: nginx, resources: {cpu: 1, memory: 1Mi}}\n";
    run_with(dir.path(), &["apply", "-f", "-"], with).ok();
    let without = with.replace(", labels: {a: x}", "").replace(", memory: 1Mi", "");
    run_with(dir.path(), &["apply", "-f", "-"], &without).ok();
    let yaml = run(dir.path(), &["get", "app", "web", "-o", "yaml"]).ok();
    assert!(
        yaml.contains("cpu: 1\n") && yaml.contains("replicas: 1\n"),
        "{yaml}"
    );
    assert!(
        !yaml.contains("memory: 1Mi") && !yaml.contains("  labels:\n"),
        "{yaml}"
    );
}

#[test]
fn apply_names_the_place_of_each_error_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    install(dir.path());
    let bad = "apiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {name: bad}\nspec: {replicas: many}\n";
    let unknown = "apiVersion: nowhere.example.com/v1\nkind: Thing\nmetadata: {name: t}\n";
    let text = format!("{bad}---\n{unknown}---\na: b: c\n---\n{}", application("good", 1));
    std::fs::write(dir.path().join("mixed.yaml"), text).unwrap();
    let done = run(dir.path(), &["apply", "-f", "mixed.yaml"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.out, "application.myapps.example.com/good created\n");
    for part in [
        "mixed.yaml, document 1 (line 1): Application bad: Application.myapps.example.com \"bad\" is invalid",
        "mixed.yaml, document 2 (line 6): Thing t: no matches for kind \"Thing\" in version \"nowhere.example.com/v1\"",
        "mixed.yaml, document 3 (line 10): ",
        "hint: ",
    ] {
        assert!(done.err.contains(part), "{part} missing in {}", done.err);
    }
}

#[test]
fn get_shows_tables_and_documents() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    install(dir.path());
    apply(dir.path(), "web", 3);
    let table = run(dir.path(), &["get", "applications"]).ok();
    assert!(
        table.starts_with("NAME   IMAGE   REPLICAS   PHASE   AGE\nweb    nginx   3 "),
        "{table}"
    );
    let all = run(
        dir.path(),
        &["get", "Application", "-A", "-o", "wide", "--no-headers"],
    )
    .ok();
    assert!(all.starts_with("default   web   nginx   3 "), "{all}");
    assert_eq!(
        run(dir.path(), &["get", "app", "-o", "name"]).ok(),
        "application.myapps.example.com/web\n"
    );
    let json: serde_json::Value =
        serde_json::from_str(&run(dir.path(), &["get", "app", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["items"][0]["spec"]["replicas"], 3);
    assert!(json["items"][0]["metadata"]["managedFields"].is_null());
    let none = run(dir.path(), &["get", "app", "-l", "tier=none"]);
    assert_eq!(
        (none.code, none.err.as_str()),
        (0, "No resources found in default namespace.\n")
    );
    let picked = run(
        dir.path(),
        &[
            "get",
            "app",
            "--field-selector",
            "metadata.name=web",
            "-o",
            "name",
        ],
    )
    .ok();
    assert_eq!(picked, "application.myapps.example.com/web\n");
}

#[test]
fn exit_codes_tell_usage_from_refusal_from_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = run(dir.path(), &["get", "pods"]);
    assert_eq!(nobody.code, 3, "{nobody:?}");
    for place in [
        "--kubeconfig",
        "KUBECONFIG",
        "in-cluster",
        ".skopos/kubeconfig",
        "hint: ",
    ] {
        assert!(nobody.err.contains(place), "{place} missing in {}", nobody.err);
    }
    assert_eq!(run(dir.path(), &["get"]).code, 2);
    assert_eq!(run(dir.path(), &["frobnicate"]).code, 2);
    let _server = up_in_memory(dir.path());
    let typo = run(dir.path(), &["get", "namespacs"]);
    assert_eq!(typo.code, 1, "{typo:?}");
    assert!(typo.err.contains("did you mean namespaces?"), "{}", typo.err);
    let missing = run(dir.path(), &["get", "ns", "nope"]);
    assert_eq!(missing.code, 1);
    assert!(
        missing.err.contains("namespaces \"nope\" not found"),
        "{}",
        missing.err
    );
}

#[test]
fn delete_removes_by_name_selector_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    install(dir.path());
    for name in ["a", "b", "c"] {
        apply(dir.path(), name, 1);
    }
    let named = run(dir.path(), &["delete", "app/a"]).ok();
    assert_eq!(
        named,
        "application.myapps.example.com \"a\" deleted from default namespace\n"
    );
    let again = run(dir.path(), &["delete", "app", "a"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert_eq!(
        run(dir.path(), &["delete", "app", "a", "--ignore-not-found"]).code,
        0
    );
    assert_eq!(run(dir.path(), &["delete", "app"]).code, 2);
    run_with(dir.path(), &["delete", "-f", "-"], &application("b", 1)).ok();
    run(dir.path(), &["delete", "app", "--all"]).ok();
    assert_eq!(run(dir.path(), &["get", "app", "-o", "name"]).ok(), "");
}

#[test]
fn watch_reports_each_change_with_its_difference() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    install(dir.path());
    let mut watch = Running::start(skopos(dir.path()).args(["watch", "app", "-o", "json", "--count", "3"]));
    watch
        .errors
        .find("watching applications.myapps.example.com: 0 now");
    apply(dir.path(), "web", 2);
    apply(dir.path(), "web", 5);
    run(dir.path(), &["delete", "app", "web"]).ok();
    assert_eq!(watch.wait(), 0);
    let seen: Vec<serde_json::Value> = watch
        .lines
        .rest()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ops: Vec<&str> = seen.iter().map(|change| change["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["created", "updated", "deleted"]);
    assert!(seen.iter().all(|change| change["key"] == "default/web"));
    let replicas = seen[1]["diff"]
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["path"] == "spec.replicas")
        .unwrap();
    assert_eq!(
        (replicas["old"].as_i64(), replicas["new"].as_i64()),
        (Some(2), Some(5))
    );
    assert_eq!(seen[2]["object"]["spec"]["replicas"], 5);
}

#[test]
fn watch_goes_on_where_it_stopped_when_a_durable_server_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = up(dir.path(), &["--listen", "127.0.0.1:0"]);
    install(dir.path());
    apply(dir.path(), "web", 2);
    let watch = Running::start(skopos(dir.path()).args(["watch", "app"]));
    watch.errors.find(": 1 now");
    server.signal("KILL");
    server.wait();
    watch.errors.find("trying again");
    let _server = up(dir.path(), &["--listen", &address]).0;
    apply(dir.path(), "web", 3);
    watch.lines.find("~ spec.replicas: 2 -> 3");
    watch.errors.find("reconnected; nothing was missed");
}

#[test]
fn watch_reports_what_vanished_with_a_server_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = up(dir.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    install(dir.path());
    apply(dir.path(), "old", 2);
    let watch = Running::start(skopos(dir.path()).args(["watch", "app"]));
    watch.errors.find(": 1 now");
    server.signal("TERM");
    server.wait();
    let _server = up(dir.path(), &["--in-memory", "--listen", &address]).0;
    install(dir.path());
    watch
        .lines
        .find("deleted  applications.myapps.example.com default/old");
    apply(dir.path(), "new", 1);
    watch
        .lines
        .find("created  applications.myapps.example.com default/new");
}

#[test]
fn watch_tells_when_its_kind_goes_and_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    install(dir.path());
    apply(dir.path(), "web", 2);
    let watch = Running::start(skopos(dir.path()).args(["watch", "app"]));
    watch.errors.find(": 1 now");
    run(dir.path(), &["delete", "crd", "applications.myapps.example.com"]).ok();
    watch
        .lines
        .find("deleted  applications.myapps.example.com default/web");
    watch
        .errors
        .find("the server no longer has applications.myapps.example.com");
    install(dir.path());
    apply(dir.path(), "web", 3);
    watch
        .errors
        .find("the server has applications.myapps.example.com again, in version v1");
    watch
        .lines
        .find("created  applications.myapps.example.com default/web");
    apply(dir.path(), "web", 4);
    watch.lines.find("~ spec.replicas: 3 -> 4");
}

#[test]
fn watch_waits_for_a_kind_if_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let _server = up_in_memory(dir.path());
    let at_once = run(dir.path(), &["watch", "applications"]);
    assert_eq!(at_once.code, 1, "{at_once:?}");
    assert!(at_once.err.contains("--wait"), "{}", at_once.err);
    let mut watch = Running::start(skopos(dir.path()).args([
        "watch",
        "applications",
        "--wait",
        "-o",
        "json",
        "--count",
        "1",
    ]));
    watch.errors.find("waiting for a resource type \"applications\"");
    install(dir.path());
    watch
        .errors
        .find("watching applications.myapps.example.com: 0 now");
    apply(dir.path(), "web", 1);
    assert_eq!(watch.wait(), 0);
    let change: serde_json::Value = serde_json::from_str(&watch.lines.rest()[0]).unwrap();
    assert_eq!(
        (change["op"].as_str(), change["reason"].as_str()),
        (Some("created"), Some("watch"))
    );
}

#[test]
fn demo_ends_well_and_shows_every_kind_of_change() {
    let dir = tempfile::tempdir().unwrap();
    let text = run(dir.path(), &["demo", "--once"]).ok();
    for part in [
        "created  applications.myapps.example.com default/shop",
        "+ spec.image: \"nginx:1.27\"",
        "~ spec.image: \"nginx:1.27\" -> \"nginx:1.28\"",
        "~ spec.env[name=LOG_LEVEL].value: \"info\" -> \"debug\"",
        "~ spec.replicas: 2 -> 5",
        "+ status.phase: \"Running\"",
        "422: Application.myapps.example.com \"shop\" is invalid: spec.image: Invalid value: \"\": spec.image in body should be at least 1 chars long",
        "deleted  applications.myapps.example.com default/checkout",
        "2 created, 3 updated, 1 deleted",
    ] {
        assert!(text.contains(part), "{part} missing in {text}");
    }
    assert!(!dir.path().join(".skopos").exists());
}

#[test]
fn demo_stays_until_it_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Running::start(skopos(dir.path()).arg("demo"));
    demo.lines.find("Ctrl-C ends the demo");
    assert!(run(dir.path(), &["get", "app"]).ok().contains("shop"));
    run(dir.path(), &["delete", "app", "shop"]).ok();
    demo.lines
        .find("deleted  applications.myapps.example.com default/shop");
    demo.signal("INT");
    assert_eq!(demo.wait(), 0);
}

#[test]
fn answers_to_kube_apiserver_and_etcd_as_envtest_starts_them() {
    let dir = tempfile::tempdir().unwrap();
    let link = |name: &str| {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_skopos"), &link).unwrap();
        link
    };
    let (apiserver, etcd) = (link("kube-apiserver"), link("etcd"));
    let help = skopos_as(&apiserver, dir.path()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("--secure-port") && !help.contains("--insecure-port"),
        "{help}"
    );
    let mut store = Running::start(
        skopos_as(&etcd, dir.path()).args(["--data-dir=x", "--listen-client-urls=http://127.0.0.1:0"]),
    );
    store.errors.find("--data-dir");
    // From here on it hears signals.
    store.errors.find("health check");
    store.signal("TERM");
    assert_eq!(store.wait(), 0);
    let mut server = Running::start(skopos_as(&apiserver, dir.path()).args([
        "--secure-port=0",
        "--bind-address=127.0.0.1",
        "--cert-dir=certs",
        "--etcd-servers=http://127.0.0.1:1",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--some-new-flag=1",
    ]));
    server.errors.find("--some-new-flag");
    assert!(
        server
            .lines
            .next()
            .starts_with("skopos apiserver is ready at https://127.0.0.1:")
    );
    let kubeconfig = dir.path().join("certs/kubeconfig");
    run(
        dir.path(),
        &["get", "ns", "--kubeconfig", kubeconfig.to_str().unwrap()],
    )
    .ok();
    server.signal("TERM");
    assert_eq!(server.wait(), 0);
}

/// envtest puts its own serving certificate into the certificate directory and trusts nothing else.
#[test]
fn certificates_of_others_are_served_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let start = |certs: &str| {
        let certs = format!("--cert-dir={certs}");
        let server = Running::start(skopos(dir.path()).args(["apiserver", "--secure-port=0", &certs]));
        server.lines.find("ready at");
        server
    };
    drop(start("made"));
    std::fs::create_dir(dir.path().join("given")).unwrap();
    for file in ["apiserver.crt", "apiserver.key"] {
        std::fs::copy(
            dir.path().join("made/skopos").join(file),
            dir.path().join("given").join(file),
        )
        .unwrap();
    }
    let before = std::fs::read(dir.path().join("given/apiserver.crt")).unwrap();
    let _server = start("given");
    assert_eq!(
        std::fs::read(dir.path().join("given/apiserver.crt")).unwrap(),
        before
    );
}

#[test]
fn version_and_completion_need_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let version: serde_json::Value =
        serde_json::from_str(&run(dir.path(), &["version", "-o", "json"]).ok()).unwrap();
    assert_eq!(version["client"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(run(dir.path(), &["completion", "bash"]).ok().contains("skopos"));
}
