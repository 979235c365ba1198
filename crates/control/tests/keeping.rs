//! What is kept of rules and records, whatever happens to where they stand: it goes when they certainly went, and only then.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use skopos_control::{Engine, EngineConfig};
use skopos_journal::{Journal, Log as _, Phase, Seq, Wanted};
use skopos_object::Status;
use skopos_react::{Reactor, RuleState};
use skopos_sink::Allowed;
use skopos_testkit::{Fault, Rule, TestServer, Verb, definition};

use support::{Running, all_widgets, put, until, widget};

const RULE: &str = "default/all";

struct Stage {
    server: TestServer,
    dir: tempfile::TempDir,
    files: Vec<PathBuf>,
    from_cluster: bool,
}

/// An engine at work, and what can be seen of it.
struct Life {
    running: Running,
    reactor: Reactor,
    journal: Journal,
    capture: skopos_journal::Capture,
    verdicts: tokio::sync::watch::Receiver<std::sync::Arc<skopos_control::Verdicts>>,
    waiting: tokio::sync::watch::Receiver<Option<String>>,
}

impl Stage {
    async fn new() -> Self {
        Self {
            server: support::server().await,
            dir: tempfile::tempdir().unwrap(),
            files: Vec::new(),
            from_cluster: true,
        }
    }

    /// The rules stand in a file.
    async fn with_file(text: &str) -> Self {
        let mut stage = Self::new().await;
        stage.files = vec![stage.dir.path().join("rules.yaml")];
        stage.write(text);
        stage
    }

    fn write(&self, text: &str) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &self.files[0]).unwrap();
    }

    async fn live(&self) -> Life {
        let config = EngineConfig {
            allowed: Allowed {
                exec: false,
                file: true,
            },
            files: self.files.clone(),
            from_cluster: self.from_cluster,
            status_every: Duration::from_millis(100),
            ..EngineConfig::new(self.dir.path().join("data"))
        };
        let engine = Engine::open(&self.server.client(), config).await.unwrap();
        Life {
            reactor: engine.reactor().clone(),
            journal: engine.journal().clone(),
            capture: engine.capture().clone(),
            verdicts: engine.verdicts(),
            waiting: engine.waiting(),
            running: Running::start(engine),
        }
    }

    /// A rule of the cluster whose sink comes later: what it matches is pending.
    async fn rule(&self, spec: &Value) {
        put(&self.server, "Rule", "default", "all", spec).await;
    }

    async fn widget(&self, name: &str, size: u64) {
        widget(&self.server, "default", name, size).await;
    }

    /// The sink comes: what waited is delivered.
    async fn sink(&self) {
        let file = json!({"file": {"path": self.out()}});
        put(&self.server, "Sink", "default", "later", &file).await;
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out.jsonl")
    }

    /// The names of the objects that events were delivered of, in their order, once there are so many.
    async fn delivered(&self, n: usize) -> Vec<String> {
        until("delivered", async || {
            let events = support::delivered(&self.out());
            let subjects = events
                .iter()
                .map(|one| one["subject"].as_str().unwrap().to_owned());
            let mut subjects: Vec<String> = subjects.collect();
            subjects.sort();
            match subjects.len() >= n {
                true => Ok(subjects),
                false => Err(json!(subjects)),
            }
        })
        .await
    }
}

impl Life {
    async fn stop(self) {
        self.running.stop().await;
    }

    fn rule(&self) -> RuleState {
        self.reactor.status().rules.get(RULE).cloned().unwrap_or_default()
    }

    fn pending(&self) -> u64 {
        self.rule().routes.values().map(|route| route.pending).sum()
    }

    async fn until_pending(&self, n: u64) {
        until("so much pending", async || match self.pending() {
            found if found == n => Ok(()),
            found => Err(json!(found)),
        })
        .await;
    }

    async fn until_watching(&self) {
        until("widgets are watched", async || {
            let status = self.capture.status();
            match status.iter().any(|one| one.phase == Phase::Watching) && self.rule().generation != 0 {
                true => Ok(()),
                false => Err(json!(format!("{status:?}"))),
            }
        })
        .await;
    }

    /// Waits for a plan in which the rule is so.
    async fn until_verdict(&self, is_so: impl Fn(&skopos_control::Verdicts) -> bool) {
        let mut verdicts = self.verdicts.clone();
        let waiting = verdicts.wait_for(|verdicts| is_so(verdicts));
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .unwrap()
            .unwrap();
    }

    /// Waits until what is waited for is so.
    async fn until_waiting(&self, is_so: impl Fn(&Option<String>) -> bool) {
        let mut waiting = self.waiting.clone();
        let waiting = waiting.wait_for(|why| is_so(why));
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .unwrap()
            .unwrap();
    }

    async fn until_invalid(&self) {
        self.until_verdict(|verdicts| {
            let rule = verdicts.rules.get(RULE);
            rule.is_some_and(|rule| !rule.problems.is_empty())
        })
        .await;
    }

    async fn until_unreadable(&self) {
        self.until_verdict(|verdicts| !verdicts.unreadable.is_empty())
            .await;
    }

    /// Everything that was written down, as text.
    async fn written(&self) -> String {
        let (entries, _) = self.journal.read(Seq(0), &Wanted::default(), 1000).await.unwrap();
        let states = entries.iter().filter_map(|entry| entry.after.as_ref());
        states
            .map(|object| String::from_utf8_lossy(object.bytes()).into_owned())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_survives_a_start_while_the_server_is_away() {
    let stage = Stage::new().await;
    stage.rule(&all_widgets("later")).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.widget("a", 1).await;
    life.until_pending(1).await;
    life.stop().await;

    stage.server.faults().go_away();
    let life = stage.live().await;
    let is_said = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains("rules.skopos.dev ("));
    life.until_waiting(is_said).await;
    assert_eq!(life.pending(), 1);
    stage.widget("b", 1).await;
    stage.server.faults().come_back();
    life.until_waiting(Option::is_none).await;
    life.until_pending(2).await;
    stage.sink().await;
    assert_eq!(stage.delivered(2).await, ["default/a", "default/b"]);
    life.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_was_broken_goes_on_as_it_was_after_a_restart() {
    let stage = Stage::new().await;
    let mut spec = all_widgets("later");
    spec["when"] = json!("object.spec.size > 1");
    stage.rule(&spec).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.widget("a", 2).await;
    life.until_pending(1).await;
    let mut broken = spec.clone();
    broken["when"] = json!("object.spec.size >");
    stage.rule(&broken).await;
    life.until_invalid().await;
    life.stop().await;

    stage.widget("b", 2).await;
    let life = stage.live().await;
    life.until_invalid().await;
    stage.widget("small", 1).await;
    life.until_pending(2).await;
    stage.rule(&spec).await;
    stage.widget("c", 2).await;
    stage.sink().await;
    assert_eq!(stage.delivered(3).await, ["default/a", "default/b", "default/c"]);
    life.stop().await;
}

const IN_FILE: &str = "
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: all}
spec: {watch: {group: example.com, kind: Widget}, do: [{sink: later}]}
";

const RECORD: &str = "
apiVersion: skopos.dev/v1alpha1
kind: Record
metadata: {name: secretive}
spec: {watch: [{group: example.com, kind: Widget}], redact: [spec.secret]}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_a_mistake_leaves_what_was_read_of_it() {
    let stage = Stage::with_file(&format!("{IN_FILE}---{RECORD}")).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.widget("a", 1).await;
    life.until_pending(1).await;
    stage.write(&format!(
        "{}---{RECORD}  nothing: [",
        IN_FILE.replace("name: all", "name: all: all")
    ));
    life.until_unreadable().await;
    stage.secret_widget("b").await;
    life.until_pending(2).await;
    assert!(!life.written().await.contains("hidden"));
    life.stop().await;

    // At a start nothing was read before.
    stage.secret_widget("c").await;
    let life = stage.live().await;
    life.until_unreadable().await;
    life.until_pending(3).await;
    assert!(!life.written().await.contains("hidden"));
    stage.write(&format!("{IN_FILE}---{RECORD}"));
    life.until_verdict(|verdicts| verdicts.unreadable.is_empty())
        .await;
    stage.sink().await;
    assert_eq!(stage.delivered(3).await, ["default/a", "default/b", "default/c"]);
    life.stop().await;
}

impl Stage {
    async fn secret_widget(&self, name: &str) {
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"size": 1, "secret": "hidden"}});
        self.server.put(&widget).await;
    }

    async fn record(&self, redact: &str) {
        let spec = json!({"watch": [{"group": "example.com", "kind": "Widget"}], "redact": [redact]});
        put(&self.server, "Record", "default", "secretive", &spec).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_broken_redacts_as_it_did_after_a_restart() {
    let stage = Stage::new().await;
    stage.record("spec.secret").await;
    stage.rule(&all_widgets("later")).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.record("spec..secret[").await;
    let is_broken = |verdicts: &skopos_control::Verdicts| {
        let record = verdicts.records.get("default/secretive");
        record.is_some_and(|record| !record.problems.is_empty() && record.in_force == Some(1))
    };
    life.until_verdict(is_broken).await;
    life.stop().await;

    let life = stage.live().await;
    life.until_verdict(is_broken).await;
    life.until_watching().await;
    stage.secret_widget("a").await;
    life.until_pending(1).await;
    assert!(!life.written().await.contains("hidden"));
    life.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_made_anew_under_the_same_name_begins_anew() {
    let stage = Stage::new().await;
    stage.rule(&all_widgets("later")).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.widget("a", 1).await;
    life.until_pending(1).await;
    life.stop().await;

    let rules = stage.server.api("skopos.dev/v1alpha1", "Rule", "rules");
    let rules = skopos_client::Api::namespaced(rules.client(), rules.resource(), "default");
    rules.delete("all", &Default::default()).await.unwrap();
    stage.rule(&all_widgets("later")).await;
    let life = stage.live().await;
    life.until_watching().await;
    life.until_pending(0).await;
    stage.widget("b", 1).await;
    stage.sink().await;
    assert_eq!(stage.delivered(1).await, ["default/b"]);
    life.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_captured_before_it_is_known_what_records_leave_out() {
    let stage = Stage::new().await;
    stage.record("spec.secret").await;
    stage.rule(&all_widgets("later")).await;
    stage.secret_widget("old").await;
    let message = "cannot list resource \"records\"";
    let refused = Fault::Answer(Status::forbidden(&Default::default(), "", message));
    let reading = Rule::of(&[Verb::List, Verb::Watch]).resource("records");
    let refusing = stage.server.faults().add(reading.then(refused));

    let life = stage.live().await;
    let is_named = |why: &Option<String>| {
        let why = why.as_deref().unwrap_or_default();
        why.contains("records.skopos.dev (") && why.contains(message) && !why.contains("rules.skopos.dev")
    };
    life.until_waiting(is_named).await;
    assert!(life.capture.status().is_empty());
    refusing.remove();
    life.until_waiting(Option::is_none).await;
    life.until_watching().await;
    stage.secret_widget("new").await;
    // Both were made after the rule.
    life.until_pending(2).await;
    assert!(!life.written().await.contains("hidden"));
    life.stop().await;
}

/// Another rule is in force: a plan was taken up.
async fn until_other(life: &Life) {
    until("the other rule is in force", async || {
        match life.reactor.status().rules.contains_key("default/other") {
            true => Ok(()),
            false => Err(json!("not yet")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_a_file_survives_a_start_without_it() {
    let mut stage = Stage::with_file(IN_FILE).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.widget("a", 1).await;
    life.until_pending(1).await;
    life.stop().await;

    let files = std::mem::take(&mut stage.files);
    put(&stage.server, "Rule", "default", "other", &all_widgets("nowhere")).await;
    let life = stage.live().await;
    until_other(&life).await;
    life.stop().await;

    stage.files = files;
    let life = stage.live().await;
    life.until_watching().await;
    assert_eq!(life.pending(), 1);
    // It is there to be looked at, and the rule is not in it: now it is gone.
    stage.write("# nothing");
    life.until_pending(0).await;
    life.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_the_cluster_survives_a_start_without_its_rules() {
    let mut stage = Stage::with_file(&IN_FILE.replace("name: all", "name: other")).await;
    stage.rule(&all_widgets("later")).await;
    let life = stage.live().await;
    life.until_watching().await;
    stage.widget("a", 1).await;
    life.until_pending(1).await;
    life.stop().await;

    stage.from_cluster = false;
    let life = stage.live().await;
    let is_sure = |verdicts: &skopos_control::Verdicts| verdicts.rules.contains_key("default/other");
    life.until_verdict(is_sure).await;
    // Files are looked at twice until it is sure what is in them.
    stage.write(&IN_FILE.replace("name: all", "name: next"));
    life.until_verdict(|verdicts| !is_sure(verdicts)).await;
    until("the other rule is forgotten", async || {
        match life.reactor.status().rules.contains_key("default/other") {
            true => Err(json!("not yet")),
            false => Ok(()),
        }
    })
    .await;
    life.stop().await;

    stage.from_cluster = true;
    let life = stage.live().await;
    life.until_watching().await;
    assert_eq!(life.pending(), 1);
    stage.sink().await;
    assert_eq!(stage.delivered(1).await, ["default/a"]);
    life.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_from_a_file_hears_of_what_was_made_before_its_kind_was_first_listed() {
    let stage = Stage::with_file(&IN_FILE.replace("kind: Widget", "kind: Gadget")).await;
    let life = stage.live().await;
    until("the rule is there", async || match life.rule().generation {
        0 => Err(json!("not yet")),
        _ => Ok(()),
    })
    .await;
    // Nobody follows the kind yet: the first list shows the object.
    stage
        .server
        .put(&definition("example.com", "v1", "Gadget", "gadgets"))
        .await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "default"}, "spec": {"size": 3}});
    stage.server.put(&gadget).await;
    life.until_pending(1).await;
    life.stop().await;
}

/// A rule whose edit breaks it and names another kind goes on with the kind it had.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_form_hears_of_its_own_kind() {
    let stage = Stage::new().await;
    stage.rule(&all_widgets("later")).await;
    let life = stage.live().await;
    life.until_watching().await;
    let mut broken = all_widgets("later");
    broken["watch"] = json!({"kind": "ConfigMap"});
    broken["when"] = json!("object.data.size >");
    stage.rule(&broken).await;
    life.until_invalid().await;
    stage.widget("a", 1).await;
    life.until_pending(1).await;
    life.stop().await;
}
