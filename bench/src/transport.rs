//! One server over HTTP/1.1 and over HTTP/2: a large list, as it is and compressed, and many watches.
//!
//! One run measures one protocol, because the memory of the process counts. docs/adr/0004 is made of its figures.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use flate2::write::MultiGzDecoder;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use skopos_conformance::{Connection, Endpoint, Kubeconfig, Request, Streams, memory_of};
use tokio::sync::mpsc;

use crate::load::{self, APPS};
use crate::shape::Shape;
use crate::watchers::count;

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Leads to the server.
    kubeconfig: PathBuf,
    /// Speak HTTP/2 instead of HTTP/1.1.
    #[arg(long)]
    http2: bool,
    /// The processes of the server, whose CPU time and memory count.
    #[arg(long, value_delimiter = ',')]
    processes: Vec<u32>,
    /// Create the objects first.
    #[arg(long)]
    fill: bool,
}

/// Watches on one HTTP/2 connection, as many as kube-apiserver allows.
const STREAMS: usize = 100;
/// How often the list is read.
const LISTS: usize = 5;
/// How many writes the watches see.
const WRITES: usize = 21;

/// An open connection of either protocol.
enum Link {
    One(Connection),
    Two(Streams),
}

/// What processes have used so far.
struct Account {
    at: Instant,
    client_cpu_s: f64,
    server_cpu_s: f64,
    client_bytes: u64,
    server_bytes: u64,
}

/// Measures and prints figures as JSON.
pub(crate) async fn run(args: &Args, objects: usize, clients: usize, watchers: usize) -> anyhow::Result<()> {
    let endpoint = Endpoint::new(&Kubeconfig::read(&args.kubeconfig)?)?;
    if args.fill {
        let shape = load::define(&endpoint, &mut |_, _| ()).await?;
        load::create(&endpoint, &shape, 0..objects, clients).await?;
    }
    let figures = json!({
        "protocol": if args.http2 { "HTTP/2" } else { "HTTP/1.1" },
        "list": list(args, &endpoint, "identity").await?,
        "list_gzip": list(args, &endpoint, "gzip").await?,
        "watches": watches(args, &endpoint, watchers).await?,
    });
    println!("{figures}");
    Ok(())
}

impl Link {
    async fn open(args: &Args, endpoint: &Endpoint) -> anyhow::Result<Self> {
        Ok(if args.http2 {
            Self::Two(endpoint.connect_h2().await?)
        } else {
            Self::One(endpoint.connect().await?)
        })
    }

    async fn send(&mut self, request: Request) -> anyhow::Result<Response<Incoming>> {
        let response = match self {
            Self::One(connection) => connection.open(request).await?,
            Self::Two(streams) => streams.open(request).await?,
        };
        anyhow::ensure!(response.status().is_success(), "status {}", response.status());
        Ok(response)
    }
}

impl Account {
    fn read(args: &Args) -> anyhow::Result<Self> {
        let this = std::process::id();
        let mut account = Self {
            at: Instant::now(),
            client_cpu_s: crate::cpu::seconds_of(this)?,
            server_cpu_s: 0.0,
            client_bytes: memory_of(this)?.0,
            server_bytes: 0,
        };
        for &process in &args.processes {
            account.server_cpu_s += crate::cpu::seconds_of(process)?;
            account.server_bytes += memory_of(process)?.0;
        }
        Ok(account)
    }

    /// What was used since, by each of so many.
    fn since(&self, args: &Args, times: usize) -> anyhow::Result<Value> {
        let (now, times) = (Self::read(args)?, times as f64);
        let kilobytes = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e3 / times;
        Ok(json!({
            "wall_ms": (now.at - self.at).as_secs_f64() * 1e3 / times,
            "client_cpu_ms": (now.client_cpu_s - self.client_cpu_s) * 1e3 / times,
            "server_cpu_ms": (now.server_cpu_s - self.server_cpu_s) * 1e3 / times,
            "client_kb": kilobytes(now.client_bytes, self.client_bytes),
            "server_kb": kilobytes(now.server_bytes, self.server_bytes),
        }))
    }
}

/// Reads the list again and again, and decompresses it where it is compressed.
async fn list(args: &Args, endpoint: &Endpoint, encoding: &str) -> anyhow::Result<Value> {
    let mut link = Link::open(args, endpoint).await?;
    let before = Account::read(args)?;
    let (mut wire, mut plain) = (0, 0);
    for _ in 0..LISTS {
        let request = Request::get(APPS).header("accept-encoding", encoding);
        let response = link.send(request).await?;
        let is_gzip = response.headers().contains_key("content-encoding");
        let mut body = response.into_body();
        let mut decoder = MultiGzDecoder::new(Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            wire += data.len();
            if is_gzip {
                decoder.write_all(&data)?;
                decoder.flush()?;
                plain += std::mem::take(decoder.get_mut()).len();
            } else {
                plain += data.len();
            }
        }
    }
    let mut figures = before.since(args, LISTS)?;
    figures["wire_mb"] = json!(wire as f64 / 1e6 / LISTS as f64);
    figures["plain_mb"] = json!(plain as f64 / 1e6 / LISTS as f64);
    Ok(figures)
}

/// Opens the watches, looks at what they take, then writes and waits for all of them, again and again.
async fn watches(args: &Args, endpoint: &Endpoint, watchers: usize) -> anyhow::Result<Value> {
    let from = version(endpoint).await?;
    // Full means that the counter below is behind: the watchers wait for it.
    let (seen, mut sightings) = mpsc::channel(watchers.max(1));
    let mut tasks = tokio::task::JoinSet::new();
    let mut links = Vec::new();
    let per_link = if args.http2 { STREAMS } else { 1 };
    let before = Account::read(args)?;
    for number in 0..watchers {
        if number % per_link == 0 {
            links.push(Link::open(args, endpoint).await?);
        }
        let link = links.last_mut().context("a connection was made above")?;
        let path = format!("{APPS}?watch=1&resourceVersion={from}");
        let body = link.send(Request::get(path)).await?.into_body();
        tasks.spawn(count(body, seen.clone()));
    }
    let opened = before.since(args, watchers)?;
    let mut writer = endpoint.connect().await?;
    let before = Account::read(args)?;
    let mut times = Vec::new();
    for number in 0..WRITES {
        let name = format!("seen-{}-{number:03}", std::process::id());
        let object = Shape::default().object(&name).to_string();
        let begun = Instant::now();
        writer.send(Request::post(APPS, object)).await?.success()?;
        for _ in 0..watchers {
            sightings.recv().await.context("the watchers are gone")?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let written = before.since(args, WRITES)?;
    tasks.abort_all();
    times.sort_by(f64::total_cmp);
    Ok(json!({
        "connections": links.len(),
        "each_watch": opened,
        "each_write": written,
        "last_watch_median_ms": times[WRITES / 2],
        "last_watch_worst_ms": times[WRITES - 1],
    }))
}

async fn version(endpoint: &Endpoint) -> anyhow::Result<String> {
    let page = endpoint.send(Request::get(format!("{APPS}?limit=1"))).await?;
    let version = page.success()?.json()["metadata"]["resourceVersion"]
        .as_str()
        .map(str::to_owned);
    version.context("no revision")
}
