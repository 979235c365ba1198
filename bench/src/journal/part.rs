//! One measurement, in a process of its own, so that the system's accounts of the process are those of the part.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skopos_conformance::memory_of;
use skopos_journal::{Asked, Capture, CaptureConfig, Journal, JournalConfig, Log as _, Phase, Seq, Wanted};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::latency;
use super::source::{Changes, GROUP, KIND, PLURAL, Source};
use crate::cpu::seconds_of;

/// Which part, and where.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Where the journal is.
    #[arg(long)]
    dir: PathBuf,
    #[command(subcommand)]
    part: Part,
}

#[derive(Clone, clap::Subcommand)]
enum Part {
    /// Changes as fast as they are written down.
    Throughput {
        #[arg(long)]
        seconds: f64,
        /// Whether changes are on disk before they are shown.
        #[arg(long)]
        durable: bool,
        #[arg(long)]
        objects: usize,
    },
    /// Changes by the clock, from the source to the sink.
    Latency(latency::Args),
    /// The mirror of many objects, and updates of all of them.
    Memory {
        #[arg(long)]
        objects: usize,
    },
    /// Writes a journal of some size, and ends without closing it.
    Fill {
        #[arg(long)]
        objects: usize,
        #[arg(long)]
        bytes: u64,
    },
    /// Opens it, reads the history of one object, and closes it.
    Open,
}

/// Measures, and prints figures as JSON.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let dir = &args.dir;
    let figures = match &args.part {
        Part::Throughput {
            seconds,
            durable,
            objects,
        } => throughput(dir, *seconds, *durable, *objects).await?,
        Part::Latency(args) => latency::run(dir, args).await?,
        Part::Memory { objects } => memory(dir, *objects).await?,
        Part::Fill { objects, bytes } => {
            let figures = fill(dir, *objects, *bytes).await?;
            println!("{figures}");
            // As a crash does: nothing is finished, nothing is closed.
            std::process::exit(0);
        }
        Part::Open => open(dir).await?,
    };
    println!("{figures}");
    Ok(())
}

/// A journal that is being filled.
pub(super) struct Filling {
    pub(super) journal: Journal,
    pub(super) source: Source,
    stop: CancellationToken,
    capture: JoinHandle<()>,
}

impl Filling {
    /// Begins, and waits until everything is listed.
    pub(super) async fn begin(dir: &Path, durable: bool, source: Source) -> anyhow::Result<Self> {
        let journal = Journal::open(JournalConfig {
            sync: durable,
            ..JournalConfig::new(dir)
        })?;
        let capture = Capture::new(
            journal.clone(),
            std::sync::Arc::new(source.clone()),
            CaptureConfig::default(),
        );
        capture.ask(vec![Asked::from(format!("{PLURAL}.{GROUP}").as_str())]);
        let stop = CancellationToken::new();
        let task = tokio::spawn(capture.clone().run(stop.clone()));
        loop {
            match capture.status().pop().map(|status| status.phase) {
                Some(Phase::Watching) => break,
                Some(Phase::Failed(why) | Phase::Paused(why)) => anyhow::bail!("the journal: {why}"),
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        Ok(Self {
            journal,
            source,
            stop,
            capture: task,
        })
    }

    /// Ends, everything closed.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.capture.await?;
        self.journal.close().await;
        Ok(())
    }
}

async fn throughput(dir: &Path, seconds: f64, durable: bool, objects: usize) -> anyhow::Result<Value> {
    let filling = Filling::begin(dir, durable, Source::new(objects, Changes::Flood)).await?;
    let time = Duration::from_secs_f64(seconds);
    filling.source.go.cancel();
    // The files have grown and the caches are warm after a while.
    tokio::time::sleep(time / 4).await;
    let (begun, cpu) = (Instant::now(), seconds_of(std::process::id())?);
    let before = filling.journal.stats();
    tokio::time::sleep(time).await;
    let after = filling.journal.stats();
    let (seconds, cpu) = (
        begun.elapsed().as_secs_f64(),
        seconds_of(std::process::id())? - cpu,
    );
    filling.end().await?;
    let changes = (after.head.0 - before.head.0) as f64;
    Ok(json!({
        "changes_per_s": changes / seconds,
        "mb_per_s": (after.written_bytes - before.written_bytes) as f64 / 1e6 / seconds,
        "commits_per_s": (after.n_commits - before.n_commits) as f64 / seconds,
        "bytes_per_change": (after.written_bytes - before.written_bytes) as f64 / changes,
        "cpu_us": cpu * 1e6 / changes,
    }))
}

async fn memory(dir: &Path, objects: usize) -> anyhow::Result<Value> {
    let before = resident()?;
    let begun = Instant::now();
    let filling = Filling::begin(dir, true, Source::new(objects, Changes::Some(objects))).await?;
    let list_s = begun.elapsed().as_secs_f64();
    let listed = settled().await?;
    let begun = Instant::now();
    filling.source.go.cancel();
    let mut advanced = filling.journal.advanced();
    advanced.wait_for(|head| head.0 >= 2 * objects as u64).await?;
    let updates_s = begun.elapsed().as_secs_f64();
    let updated = settled().await?;
    let peak = memory_of(std::process::id())?.1;
    filling.end().await?;
    Ok(json!({
        "list_s": list_s, "updates_s": updates_s,
        "listed_bytes_per_object": (listed - before) / objects as f64,
        "updated_bytes_per_object": (updated - before) / objects as f64,
        "resident_mb": updated / 1e6, "peak_mb": peak as f64 / 1e6,
    }))
}

async fn fill(dir: &Path, objects: usize, bytes: u64) -> anyhow::Result<Value> {
    let begun = Instant::now();
    let filling = Filling::begin(dir, false, Source::new(objects, Changes::Flood)).await?;
    filling.source.go.cancel();
    while filling.journal.stats().disk_bytes < bytes {
        anyhow::ensure!(!filling.capture.is_finished(), "the capture has ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(json!({"seconds": begun.elapsed().as_secs_f64()}))
}

async fn open(dir: &Path) -> anyhow::Result<Value> {
    let before = resident()?;
    let begun = Instant::now();
    let journal = Journal::open(JournalConfig {
        sync: false,
        ..JournalConfig::new(dir)
    })?;
    let open_s = begun.elapsed().as_secs_f64();
    let after = settled().await?;
    let begun = Instant::now();
    let n_entries = history(&journal).await?;
    let history_ms = begun.elapsed().as_secs_f64() * 1e3;
    let stats = journal.stats();
    let n_damaged = journal.damage().len();
    journal.close().await;
    anyhow::ensure!(n_damaged == 0, "{n_damaged} parts of the journal are damaged");
    Ok(json!({
        "open_s": open_s, "resident_mb": (after - before) / 1e6,
        "history_ms": history_ms, "history_entries": n_entries,
        "changes": stats.head.0, "objects": stats.n_objects, "disk_gb": stats.disk_bytes as f64 / 1e9,
    }))
}

/// Reads everything that happened to one object, and says how much that was.
async fn history(journal: &Journal) -> anyhow::Result<usize> {
    let wanted = Wanted {
        kind: Some((GROUP.into(), KIND.into())),
        namespace: Some("default".into()),
        name: Some("app-000007".into()),
        ..Wanted::default()
    };
    let mut n_entries = 0;
    let mut after = Seq(journal.first().0.saturating_sub(1));
    while after < journal.head() {
        let (entries, looked) = journal.read(after, &wanted, 1_000).await?;
        anyhow::ensure!(
            looked > after,
            "reading the journal makes no progress after {after}"
        );
        n_entries += entries.len();
        after = looked;
    }
    Ok(n_entries)
}

/// Resident memory of this process, in bytes.
fn resident() -> anyhow::Result<f64> {
    Ok(memory_of(std::process::id())?.0 as f64)
}

/// The same when what was under way is done.
async fn settled() -> anyhow::Result<f64> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    resident()
}
