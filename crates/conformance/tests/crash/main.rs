//! `kill -9` of the whole server under sixteen writers, again and again on the same data.
//!
//! After each restart: every acknowledged write is there, what was not acknowledged is there whole or not at
//! all, revisions go on upwards, and a watch from before the crash resumes exactly or is told to start anew.
//! A failure tells the seed; `SEED=<n>` replays the writers' choices.

mod ledger;
mod watcher;
mod writer;

use std::collections::BTreeMap;

use anyhow::Context;
use skopos_conformance::{Endpoint, Request, Server, Start, skopos};
use tokio::sync::mpsc;

use crate::ledger::Ledger;
use crate::watcher::Watcher;
use crate::writer::{Rng, Writer};

const WRITERS: usize = 16;
const ROUNDS: usize = 6;
/// Where the objects are written.
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_acknowledged_writes_through_kills() -> anyhow::Result<()> {
    if std::env::var_os("SKOPOS_TARGET").is_some() {
        return Ok(());
    }
    let seed = match std::env::var("SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => u64::from(std::process::id()),
    };
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir()?;
    let start = Start {
        program: skopos()?,
        dir: dir.path().join("data"),
        in_memory: false,
        port: 0,
    };
    let mut ledger = Ledger::default();
    let mut watcher: Option<Watcher> = None;
    for round in 0..ROUNDS {
        let server = Server::start(&start).with_context(|| format!("start in round {round}"))?;
        let endpoint = server.endpoint()?;
        let check = async {
            settle(&endpoint, &mut ledger).await?;
            if let Some(watcher) = watcher.take() {
                watcher.resume_and_compare(&endpoint).await?;
            }
            let watching = Watcher::start(&endpoint).await?;
            let acknowledged = 30 + rng.below(300);
            watcher = Some(crash(server, &endpoint, watching, &mut ledger, &mut rng, acknowledged).await?);
            anyhow::Ok(())
        };
        check
            .await
            .with_context(|| format!("round {round}, SEED={seed}"))?;
    }
    let server = Server::start(&start)?;
    settle(&server.endpoint()?, &mut ledger).await?;
    anyhow::ensure!(server.stop()?.success(), "the server does not stop in good order");
    Ok(())
}

/// Compares what is stored with what was acknowledged, and takes it as the new truth.
async fn settle(endpoint: &Endpoint, ledger: &mut Ledger) -> anyhow::Result<()> {
    let list = endpoint.send(Request::get(MAPS)).await?.success()?.json();
    let revision: u64 = list["metadata"]["resourceVersion"]
        .as_str()
        .context("no revision")?
        .parse()?;
    anyhow::ensure!(
        revision >= ledger.highest(),
        "revision {revision} after the restart, {} acknowledged before",
        ledger.highest()
    );
    let mut stored = BTreeMap::new();
    for item in list["items"].as_array().context("no items")? {
        let name = item["metadata"]["name"].as_str().context("no name")?.to_owned();
        if name.starts_with('w') {
            stored.insert(name, ledger::Stored::read(item)?);
        }
    }
    ledger.settle(stored)
}

/// Lets the writers work until that many writes are acknowledged, then kills the server.
async fn crash(
    server: Server,
    endpoint: &Endpoint,
    watching: Watcher,
    ledger: &mut Ledger,
    rng: &mut Rng,
    acknowledged: u64,
) -> anyhow::Result<Watcher> {
    // Full means that nobody counts any more: the writers wait, and the dead server lets them go.
    let (ack, mut acks) = mpsc::channel(64);
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..WRITERS {
        let mine = ledger.of_writer(number);
        writers.spawn(Writer::new(number, rng.next(), mine).run(endpoint.clone(), ack.clone()));
    }
    drop(ack);
    let seen = tokio::spawn(watching.follow());
    for _ in 0..acknowledged {
        acks.recv()
            .await
            .context("the writers stopped before the crash")?;
    }
    server.kill()?;
    drop(acks);
    while let Some(writer) = writers.join_next().await {
        ledger.merge(writer?);
    }
    seen.await?
}
