//! The proof at the end of the tour: a watcher that is killed again and again loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::{Api, DeleteParams, Patch, WriteParams};

use crate::failure::Failure;
use crate::terminal::{self, FAINT, STRONG};

/// What is asked of the watcher: every change of an application, into a file.
const RULES: &str = r#"apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {name: record}
spec:
  file: {path: RECORD}
---
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: every-change}
spec:
  watch: {group: myapps.example.com, kind: Application}
  existing: emit
  do:
    - sink: record
"#;
/// What is not delivered within this time never will be.
const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: u32 = 3;
const APPS: u32 = 12;

/// Changes made, by object, as the ids under which they must be delivered.
#[derive(Debug, Default)]
struct Truth {
    by_object: BTreeMap<String, Vec<String>>,
}

/// What the watcher delivered.
#[derive(Debug, Default)]
struct Record {
    n_lines: usize,
    by_object: BTreeMap<String, Vec<String>>,
}

/// The watcher, another process of this program.
#[derive(Debug)]
struct Watcher {
    kubeconfig: PathBuf,
    dir: PathBuf,
    child: Option<Child>,
}

/// Kills a watcher again and again while objects change, and compares what it delivered with what happened.
pub(super) async fn prove(api: &Api, kubeconfig: &Path, is_shown: bool) -> Result<(), Failure> {
    let dir = std::env::temp_dir().join(format!("skopos-proof-{}", std::process::id()));
    let mut watcher = Watcher::new(kubeconfig, &dir)?;
    let outcome = kill_and_compare(api, &mut watcher, is_shown).await;
    watcher.kill();
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

async fn kill_and_compare(api: &Api, watcher: &mut Watcher, is_shown: bool) -> Result<(), Failure> {
    let say = |text: &str| match is_shown {
        true => terminal::say(text),
        false => Ok(()),
    };
    let mut truth = Truth::default();
    watcher.start()?;
    // What happened before it was there the first time is nobody's loss: it tells of what it finds, and then of changes.
    watcher.until(|record| record.n_lines > 0).await?;
    watcher.kill();
    for round in 1..=ROUNDS {
        watcher.start()?;
        change_some(api, &mut truth, round).await?;
        watcher.kill();
        say(&format!(
            "    {FAINT}killed the watcher (kill -9), and went on changing and deleting{FAINT:#}"
        ))?;
        change_some(api, &mut truth, round + 100).await?;
        delete_some(api, &mut truth, round).await?;
    }
    watcher.start()?;
    let record = watcher.until(|record| record.has(&truth)).await?.check(&truth)?;
    let n_changes: usize = truth.by_object.values().map(Vec::len).sum();
    let n_again = record.n_lines - record.by_object.values().map(Vec::len).sum::<usize>();
    say(&format!(
        "\n{STRONG}{n_changes} changes, {ROUNDS} kills: 0 lost, 0 out of order, {n_again} delivered twice with the same id.{STRONG:#}"
    ))?;
    Ok(())
}

/// Creates what is not there, changes what is.
async fn change_some(api: &Api, truth: &mut Truth, round: u32) -> Result<(), Failure> {
    let by = WriteParams {
        field_manager: "skopos-demo".to_owned(),
        ..WriteParams::default()
    };
    for i in 0..APPS {
        let name = format!("app-{i}");
        let spec = json!({"spec": {"image": format!("shop:{round}"), "replicas": round % 7}});
        match api.find(&name).await? {
            Some(_) => {
                let changed = api.patch(&name, Patch::Merge(&spec), &by).await?.value;
                truth.note(&changed, version(&changed));
            }
            None => {
                let object = json!({"apiVersion": api.resource().api_version(), "kind": "Application",
                    "metadata": {"name": name}, "spec": spec["spec"]});
                let created = api.create(&object, &by).await?.value;
                truth.note(&created, "created");
            }
        }
    }
    Ok(())
}

async fn delete_some(api: &Api, truth: &mut Truth, round: u32) -> Result<(), Failure> {
    for i in (0..APPS).filter(|i| i % 3 == round % 3) {
        let name = format!("app-{i}");
        let object = api.get(&name).await?;
        api.delete(&name, &DeleteParams::default()).await?;
        truth.note(&object, "deleted");
    }
    Ok(())
}

impl Truth {
    fn note(&mut self, object: &Value, what: &str) {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let ids = self.by_object.entry(uid.to_owned()).or_default();
        ids.push(format!("{uid}.{what}/default.every-change"));
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

impl Watcher {
    fn new(kubeconfig: &Path, dir: &Path) -> Result<Self, Failure> {
        let cannot = |error| Failure::failed(format!("cannot write to {}: {error}", dir.display()));
        std::fs::create_dir_all(dir).map_err(cannot)?;
        let record = dir.join("record.jsonl").display().to_string();
        std::fs::write(dir.join("rules.yaml"), RULES.replace("RECORD", &record)).map_err(cannot)?;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            dir: dir.to_owned(),
            child: None,
        })
    }

    /// Starts the watcher, as a process of its own.
    fn start(&mut self) -> Result<(), Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find the program itself: {error}")))?;
        let child = Command::new(program)
            .args(["run", "--no-cluster-rules", "--no-install"])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--data-dir")
            .arg(self.dir.join("data"))
            .arg("--filename")
            .arg(self.dir.join("rules.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot start the watcher: {error}")))?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills it without a chance to do anything.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until what was delivered is enough.
    async fn until(&self, enough: impl Fn(&Record) -> bool) -> Result<Record, Failure> {
        let wait = async {
            loop {
                let record = Record::read(&self.dir.join("record.jsonl"));
                if enough(&record) {
                    return record;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.map_err(|_| {
            Failure::failed(format!(
                "not everything was delivered within {} s",
                PATIENCE.as_secs()
            ))
            .hint("this should not happen: please report it")
        })
    }
}

impl Record {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut record = Self::default();
        let mut seen = BTreeSet::new();
        // The last line may be being written.
        for event in text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            record.n_lines += 1;
            let id = event["id"].as_str().unwrap_or_default().to_owned();
            let uid = id.split('.').next().unwrap_or_default().to_owned();
            if seen.insert(id.clone()) {
                record.by_object.entry(uid).or_default().push(id);
            }
        }
        record
    }

    fn has(&self, truth: &Truth) -> bool {
        let all = truth.by_object.iter();
        all.into_iter().all(|(uid, ids)| {
            let found = self.by_object.get(uid);
            found.is_some_and(|found| ids.iter().all(|id| found.contains(id)))
        })
    }

    /// Checks the order of what is all there.
    fn check(self, truth: &Truth) -> Result<Self, Failure> {
        for (uid, ids) in &truth.by_object {
            let found = self.by_object.get(uid).cloned().unwrap_or_default();
            if found != *ids {
                let text = format!("changes were delivered as {found:?}, but happened as {ids:?}");
                return Err(Failure::failed(text).hint("this should not happen: please report it"));
            }
        }
        Ok(self)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.kill();
    }
}
