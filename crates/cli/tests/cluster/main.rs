//! `skopos run` in a cluster, with the rights that `skopos manifests` gives and no others.
//!
//! With `SKOPOS_TARGET=<kubeconfig>` on that API server, which should check rights (`cargo xtask kube run`); otherwise on
//! one of our own, which does not: there the same works, but nothing is proved about rights.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../support/endpoint.rs"]
mod endpoint;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;
mod world;

use std::net::TcpStream;

use endpoint::{free_port, health};
use serde_json::{Value, json};
use skopos_client::{Call, Sources, WriteParams, connect};
use support::run;
use tokio::sync::Mutex;
use world::{World, all_hold, condition};

/// Every `skopos run` follows the rules of the whole cluster: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Rules of all sorts: read as an account and written as it, written as Skopos itself, told to a file, kept.
fn rules(world: &World) -> String {
    let ops = &world.ops;
    let out = world.dir.path().join("out.jsonl");
    let out = out.display();
    format!(
        "\
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {{name: copies, namespace: {ops}}}
spec:
  watch: {{group: cluster.example.com, kind: Widget}}
  serviceAccountName: writer
  do:
  - sink: maps
    template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: '${{object.metadata.name}}'}}, data: {{size: '${{string(object.spec.size)}}'}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {{name: tells, namespace: {ops}}}
spec:
  watch: {{group: cluster.example.com, kind: Widget}}
  do:
  - {{sink: out}}
  - sink: maps
    template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: 'own-${{object.metadata.name}}'}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: maps, namespace: {ops}}}
spec: {{kubernetes: {{verb: apply}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: out, namespace: {ops}}}
spec: {{file: {{path: {out}}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: hook, namespace: {ops}}}
spec: {{webhook: {{url: 'http://127.0.0.1:1/', hmac: {{secret: {{secret: {{name: key, key: k}}}}}}}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Record
metadata: {{name: keep, namespace: {ops}}}
spec: {{watch: [{{kind: ConfigMap}}]}}
"
    )
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
}

/// Prints the manifests for the rules in `rules.yaml`, with what the arguments add, and applies them.
async fn install(world: &World, more: &[&str]) -> Vec<Value> {
    let system = world.system.as_str();
    let args = [
        "manifests",
        "-f",
        "rules.yaml",
        "widgets.yaml",
        "--image",
        "skopos:test",
    ];
    let args = [&args[..], &["-n", system, "--name", system, "-o", "json"], more].concat();
    let printed: Value = serde_json::from_str(&world.skopos(&args)).unwrap();
    world.apply("manifests.json", &printed.to_string()).await;
    printed["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_manifests_are_enough() {
    let _alone = ALONE.lock().await;
    let world = World::new("rights").await;
    let installed = check_rights(&world, &[]).await;
    check_pods(&world, &installed).await;
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_one_namespace_are_enough_to_watch_it() {
    let _alone = ALONE.lock().await;
    let world = World::new("namespace").await;
    let watch = ["--watch-namespace", &world.ops];
    let installed = check_rights(&world, &watch).await;
    let kinds: Vec<&str> = installed
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert!(
        !kinds.contains(&"ClusterRole") && !kinds.contains(&"ClusterRoleBinding"),
        "{kinds:?}"
    );
    let pod = serde_json::to_string(&installed).unwrap();
    assert!(pod.contains(&format!("--watch-namespace={}", world.ops)), "{pod}");
    let record = world.ours("Record", "keep", |_| true).await;
    let captured = format!("configmaps in {}", world.ops);
    assert_eq!(condition(&record, "Ready")["message"], captured);

    // What is in no namespace is not looked at.
    let mut running = world.start(&world.kubeconfig, &watch);
    let ops = &world.ops;
    let spaces = format!(
        "{{apiVersion: skopos.dev/v1alpha1, kind: Rule, metadata: {{name: spaces, namespace: {ops}}}, \
          spec: {{watch: {{kind: Namespace}}, do: [{{sink: out}}]}}}}"
    );
    world.apply("spaces.yaml", &spaces).await;
    let rule = world
        .ours("Rule", "spaces", |rule| {
            condition(rule, "Ready")["reason"] == "Invalid"
        })
        .await;
    let message = condition(&rule, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("namespaces are in no namespace"), "{message}");
    running.signal("TERM");
    assert_eq!(running.wait(), 0);

    // What was captured in one namespace is not gone on with in all.
    let mut other = world.start(&world.kubeconfig, &[]);
    assert_eq!(other.wait(), 4);
    let said = other.errors.rest().join("\n");
    assert!(
        said.contains("has changes of some namespaces") && said.contains("--data-dir"),
        "{said}"
    );
    world.clean_up().await;
}

/// Runs with the rights of the manifests, and sees that everything works and nothing is refused. Returns the manifests.
async fn check_rights(world: &World, watch: &[&str]) -> Vec<Value> {
    std::fs::write(world.dir.path().join("rules.yaml"), rules(world)).unwrap();
    let installed = install(world, watch).await;
    world.put(&account(&world.ops, "writer")).await;
    world
        .put(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": world.ops},
            "stringData": {"k": "secret"}}),
        )
        .await;
    let kubeconfig = world.kubeconfig_of(&world.system, &world.system).await;
    let n_refused = match world.is_real {
        true => world.n_refused().await,
        false => 0.0,
    };

    let leading = ["--leader-elect", "--leader-identity", "one", "--leader-namespace"];
    let mut running = world.start(&kubeconfig, &[&leading[..], &[&world.system], watch].concat());
    running.lines.find("skopos is watching");
    world.apply("rules.yaml", &rules(world)).await;
    for rule in ["copies", "tells"] {
        world
            .ours("Rule", rule, |rule| all_hold(rule, &["Ready", "CaptureComplete"]))
            .await;
    }
    world.widget("a", 1).await;
    assert_eq!(world.delivered(1).await, [format!("{}/a 1", world.ops)]);
    for rule in ["copies", "tells"] {
        world
            .ours("Rule", rule, |rule| {
                rule["status"]["matched"] == 1 && rule["status"]["pending"] == 0
            })
            .await;
    }
    let maps = world.api("v1", "ConfigMap", "configmaps", &world.ops);
    assert_eq!(maps.get("a").await.unwrap()["data"]["size"], "1");
    maps.get("own-a").await.unwrap();
    for sink in ["maps", "out", "hook"] {
        world.ours("Sink", sink, |sink| all_hold(sink, &["Ready"])).await;
    }
    world
        .ours("Record", "keep", |record| {
            all_hold(record, &["Ready", "CaptureComplete"])
        })
        .await;
    let leases = world.api("coordination.k8s.io/v1", "Lease", "leases", &world.system);
    assert_eq!(
        leases.get("skopos").await.unwrap()["spec"]["holderIdentity"],
        "one"
    );
    running.signal("TERM");
    assert_eq!(running.wait(), 0);
    let rbac = [&["rbac", "-n", &world.system], watch].concat();
    let of_cluster = world.skopos(&rbac);
    let of_files = world.skopos(&[&rbac[..], &["-f", "rules.yaml", "widgets.yaml"]].concat());
    assert_eq!(of_cluster, of_files);
    if world.is_real {
        assert_eq!(world.n_refused().await, n_refused, "{:?}", running.errors.rest());
        // The count counts: what was not given is refused.
        let sources = Sources {
            explicit: Some(kubeconfig),
            ..Sources::default()
        };
        let call = Call::get(format!("/api/v1/namespaces/{}/secrets", world.ops));
        connect(&sources).await.unwrap().call(&call).await.unwrap_err();
        assert_eq!(world.n_refused().await, n_refused + 1.0);
    }
    installed
}

/// The server accepts the pods that the manifests lead to, in a namespace that allows no privileges.
async fn check_pods(world: &World, installed: &[Value]) {
    let sets = installed.iter().filter(|one| one["kind"] == "StatefulSet");
    let pods: Vec<Value> = sets.map(|one| one["spec"]["template"].clone()).collect();
    assert_eq!(pods.len(), 1);
    let mut pod = pods[0].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("skopos-0");
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    let dry = WriteParams {
        dry_run: true,
        ..WriteParams::default()
    };
    let answer = world
        .api("v1", "Pod", "pods", &world.system)
        .create(&pod, &dry)
        .await
        .unwrap();
    assert_eq!(answer.warnings, Vec::<String>::new());
}

/// A rule that copies widgets as an account which has no rights yet.
async fn copying(world: &World) {
    world.put(&account(&world.ops, "writer")).await;
    std::fs::write(world.dir.path().join("rules.yaml"), rules(world)).unwrap();
    world
        .apply("crds.yaml", &run(world.dir.path(), &["crd"]).ok())
        .await;
    world.apply("rules.yaml", &rules(world)).await;
}

fn role(world: &World, name: &str, rule: &Value) -> [Value; 2] {
    let api = "rbac.authorization.k8s.io";
    let metadata = json!({"name": name, "namespace": world.ops});
    [
        json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "writer", "namespace": world.ops}]}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_does_what_its_account_may_and_no_more() {
    let _alone = ALONE.lock().await;
    let world = World::new("account").await;
    if !world.is_real {
        return;
    }
    copying(&world).await;
    let mut running = world.start(&world.kubeconfig.clone(), &["--data-dir", "data"]);
    let rule = world
        .ours("Rule", "copies", |rule| {
            condition(rule, "Ready")["reason"] == "Forbidden"
        })
        .await;
    let message = condition(&rule, "Ready")["message"].as_str().unwrap();
    let missing = "may not get, list, watch widgets.cluster.example.com in namespace";
    assert!(message.contains(missing), "{message}");
    assert!(
        message.contains("kubectl create role writer-reads-widgets"),
        "{message}"
    );
    world
        .ours("Rule", "tells", |rule| {
            all_hold(rule, &["Ready", "CaptureComplete"])
        })
        .await;
    world.widget("a", 1).await;
    world.delivered(1).await;

    let read = json!({"apiGroups": ["cluster.example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]});
    for object in role(&world, "reads", &read) {
        world.put(&object).await;
    }
    // What happened meanwhile has waited; but the account may not write.
    let rule = world
        .ours("Rule", "copies", |rule| {
            condition(rule, "Delivering")["reason"] == "Failing"
        })
        .await;
    let message = condition(&rule, "Delivering")["message"].as_str().unwrap();
    let account = format!("as service account {}/writer", world.ops);
    assert!(
        message.contains(&account) && message.contains("cannot patch resource"),
        "{message}"
    );
    let maps = world.api("v1", "ConfigMap", "configmaps", &world.ops);
    assert!(maps.find("a").await.unwrap().is_none());

    let write = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]});
    for object in role(&world, "writes", &write) {
        world.put(&object).await;
    }
    world
        .ours("Rule", "copies", |rule| rule["status"]["delivered"] == 1)
        .await;
    maps.get("a").await.unwrap();
    running.signal("TERM");
    assert_eq!(running.wait(), 0);
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_writes_what_it_watches_is_suspended() {
    let _alone = ALONE.lock().await;
    let world = World::new("loop").await;
    world
        .apply("crds.yaml", &run(world.dir.path(), &["crd"]).ok())
        .await;
    let ops = &world.ops;
    let rules = format!(
        "\
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {{name: grows, namespace: {ops}}}
spec:
  watch: {{group: cluster.example.com, kind: Widget}}
  do:
  - sink: patch
    template: {{apiVersion: cluster.example.com/v1, kind: Widget, metadata: {{name: '${{object.metadata.name}}'}}, spec: {{size: '${{object.spec.size + 1}}'}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: patch, namespace: {ops}}}
spec: {{kubernetes: {{verb: patch}}}}
"
    );
    world.apply("rules.yaml", &rules).await;
    let _running = world.start(&world.kubeconfig.clone(), &["--data-dir", "data"]);
    world
        .ours("Rule", "grows", |rule| {
            all_hold(rule, &["Ready", "CaptureComplete"])
        })
        .await;
    world.widget("a", 1).await;
    let rule = world
        .ours("Rule", "grows", |rule| {
            condition(rule, "Delivering")["reason"] == "Suspended"
        })
        .await;
    let message = condition(&rule, "Delivering")["message"].as_str().unwrap();
    assert!(message.contains("reacts to its own writes"), "{message}");
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_goes_on_where_a_killed_leader_stopped() {
    let _alone = ALONE.lock().await;
    let world = World::new("standby").await;
    world
        .apply("crds.yaml", &run(world.dir.path(), &["crd"]).ok())
        .await;
    let rules: Vec<String> = rules(&world).split("---\n").map(str::to_owned).collect();
    let (tells, _) = rules[1].split_once("  - sink: maps").unwrap();
    world
        .apply("rules.yaml", &format!("{tells}---\n{}", rules[3]))
        .await;
    let start = |name: &str, port: u16| {
        let endpoint = format!("127.0.0.1:{port}");
        let leading = [
            "--leader-elect",
            "--leader-namespace",
            &world.system,
            "--leader-identity",
            name,
        ];
        // A volume that both can reach; only the leader opens it.
        let args = [&leading[..], &["--data-dir", "shared", "--endpoint", &endpoint]].concat();
        world.start(&world.kubeconfig, &args)
    };
    let leader = start("leader", free_port());
    leader.lines.find("skopos is watching");
    let port = free_port();
    let standby = start("standby", port);
    world
        .ours("Rule", "tells", |rule| {
            all_hold(rule, &["Ready", "CaptureComplete"])
        })
        .await;
    for n in 0..10 {
        world.widget(&format!("w{n}"), 1).await;
    }
    world
        .until("the standby answers", async || {
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| json!(error.to_string()))
        })
        .await;
    let alive = health(port, "/healthz?verbose");
    assert!(
        alive.starts_with("HTTP/1.1 200 OK") && alive.contains("[+]election ok"),
        "{alive}"
    );
    assert!(health(port, "/readyz").starts_with("HTTP/1.1 200 OK"));
    // Killed in the middle of its work.
    drop(leader);
    for n in 0..10 {
        world.widget(&format!("w{n}"), 2).await;
    }
    standby.lines.find("skopos is watching");
    world.widget("w0", 3).await;
    let mut delivered = world.delivered(21).await;
    delivered.sort();
    let mut expected: Vec<String> = (0..10)
        .flat_map(|n| [1, 2].map(|size| format!("{}/w{n} {size}", world.ops)))
        .chain([format!("{}/w0 3", world.ops)])
        .collect();
    expected.sort();
    assert_eq!(delivered, expected);
    world.clean_up().await;
}
