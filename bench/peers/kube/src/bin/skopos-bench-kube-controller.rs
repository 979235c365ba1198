//! kube-rs' `Controller`, driven line by line by `skopos-bench controller`.
//!
//! It says `ready`, begins at `start`, says `begun` at its first reconcile, `all` once every object was reconciled,
//! and `changed` when it reconciles the object that asks for MARK replicas.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::{Controller, WatchStreamExt as _, predicates, reflector, watcher};
use kube::{Api, Client, Config, ResourceExt as _};
use tokio::io::{AsyncBufReadExt as _, BufReader};

const USAGE: &str = "usage: skopos-bench-kube-controller KUBECONFIG read|status|slow OBJECTS MARK";

/// What a reconcile needs.
struct Bench {
    client: Client,
    resource: ApiResource,
    task: String,
    n_objects: usize,
    mark: i64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    begun: bool,
    done: HashSet<(Option<String>, String)>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [path, task, n_objects, mark] = args.as_slice() else {
        anyhow::bail!(USAGE);
    };
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?;
    let kind = GroupVersionKind::gvk("myapps.example.com", "v1", "Application");
    let bench = Arc::new(Bench {
        client: Client::try_from(config)?,
        resource: ApiResource::from_gvk_with_plural(&kind, "applications"),
        task: task.clone(),
        n_objects: n_objects.parse().context(USAGE)?,
        mark: mark.parse().context(USAGE)?,
        progress: Mutex::default(),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            "start" => drop(tokio::spawn(control(bench.clone()))),
            other => anyhow::bail!("unknown command {other}"),
        }
    }
    Ok(())
}

async fn control(bench: Arc<Bench>) {
    let api: Api<DynamicObject> = Api::all_with(bench.client.clone(), &bench.resource);
    let writer = reflector::store::Writer::new(bench.resource.clone());
    let store = writer.as_reader();
    // As the others: changes of the status alone pass by.
    let changes = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    Controller::for_stream_with(changes, store, bench.resource.clone())
        .with_config(ControllerConfig::default().concurrency(8))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), bench)
        .for_each(|ended| async move {
            if let Err(error) = ended {
                eprintln!("kube: {error}");
            }
        })
        .await;
}

async fn reconcile(object: Arc<DynamicObject>, bench: Arc<Bench>) -> Result<Action, kube::Error> {
    bench.begins(&object);
    match bench.task.as_str() {
        "status" => bench.write_status(&object).await?,
        "slow" => tokio::time::sleep(Duration::from_millis(5)).await,
        _ => {}
    }
    bench.ends(&object);
    Ok(Action::await_change())
}

impl Bench {
    async fn write_status(&self, object: &DynamicObject) -> Result<(), kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &self.resource);
        let status = serde_json::json!({"status": {"phase": format!("phase-{}", self.mark)}});
        api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    fn begins(&self, object: &DynamicObject) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !progress.begun {
            progress.begun = true;
            println!("begun");
        }
        if object.data["spec"]["replicas"] == self.mark {
            println!("changed");
        }
    }

    fn ends(&self, object: &DynamicObject) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (object.namespace(), object.name_any());
        if progress.done.insert(key) && progress.done.len() == self.n_objects {
            println!("all");
        }
    }
}
