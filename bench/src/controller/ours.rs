//! A controller of Skopos, driven line by line by [`crate::controller`], as its peer is in `go/controller`.
//!
//! It says `ready`, begins at `start`, says `begun` at its first reconcile, `all` once every object was reconciled,
//! and `changed` when it reconciles the object that asks for `mark` replicas.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use skopos_client::{Sources, connect};
use skopos_controller::{Action, Context, Controller, Failure, Manager, ManagerConfig};
use skopos_object::ObjectKey;
use tokio_util::sync::CancellationToken;

use super::Task;

/// What to reconcile, and how.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Leads to the server.
    kubeconfig: PathBuf,
    /// What a reconcile does.
    task: Task,
    /// How many objects there are.
    n_objects: usize,
    /// How many replicas the changed object asks for.
    mark: i64,
}

/// What was done so far.
#[derive(Debug, Default)]
struct Progress {
    begun: bool,
    done: HashSet<ObjectKey>,
}

/// Reconciles until standard input ends.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let sources = Sources {
        explicit: Some(args.kubeconfig.clone()),
        ..Sources::default()
    };
    let client = connect(&sources).await?;
    let progress = Arc::new(Mutex::new(Progress::default()));
    let (task, n_objects, mark) = (args.task, args.n_objects, args.mark);
    let reconcile = move |object: Value, context: Context| {
        let progress = progress.clone();
        async move {
            begins(&progress, &object, mark);
            work(task, mark, &context).await?;
            ends(&progress, context.key(), n_objects);
            Ok(Action::Done)
        }
    };
    let controller = Controller::for_("applications.myapps.example.com").reconcile_as(reconcile);
    let mut manager = Manager::new(&client, ManagerConfig::new("bench"))?;
    manager.add(controller);
    println!("ready");
    let mut manager = Some(manager);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lines() {
            match (line?.as_str(), manager.take()) {
                ("start", Some(manager)) => runtime.spawn(manager.run(CancellationToken::new())),
                (other, _) => anyhow::bail!("unknown command {other}"),
            };
        }
        Ok(())
    })
    .await?
}

async fn work(task: Task, mark: i64, context: &Context) -> Result<(), Failure> {
    match task {
        Task::Read => {}
        Task::Status => {
            let phase = format!("phase-{mark}");
            context
                .status(|status| {
                    status.set("phase", &phase);
                })
                .await?;
        }
        Task::Slow => tokio::time::sleep(Duration::from_millis(5)).await,
    }
    Ok(())
}

fn begins(progress: &Mutex<Progress>, object: &Value, mark: i64) {
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    if !progress.begun {
        progress.begun = true;
        println!("begun");
    }
    if object["spec"]["replicas"] == mark {
        println!("changed");
    }
}

fn ends(progress: &Mutex<Progress>, key: &ObjectKey, n_objects: usize) {
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    if progress.done.insert(key.clone()) && progress.done.len() == n_objects {
        println!("all");
    }
}
