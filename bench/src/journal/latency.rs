//! From the moment at which a source gives a change to the acknowledgement of the sink, through everything between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use skopos_api::{RuleSpec, SecretKey, SinkSpec};
use skopos_react::rule::{CompiledRule, Origin};
use skopos_react::{Config, Plan, PlannedRule, PlannedSink, Reactor};
use skopos_sink::{Allowed, Destination, Event, SecretError, Secrets, Sent};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::part::Filling;
use super::source::{GROUP, KIND, Source};
use crate::cpu::seconds_of;

#[derive(Clone, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    seconds: f64,
    /// How many changes in each second.
    #[arg(long)]
    per_second: usize,
    #[arg(long)]
    objects: usize,
    /// Whether changes and deliveries are on disk.
    #[arg(long)]
    durable: bool,
    /// Send to an HTTP server on loopback instead of to one who is in this process and acknowledges at once.
    #[arg(long)]
    webhook: bool,
}

/// How long the last deliveries may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(dir: &Path, args: &Args) -> anyhow::Result<Value> {
    let n = (args.seconds * args.per_second as f64) as usize;
    let (source, ticks) = Source::paced(args.objects, n);
    let filling = Filling::begin(&dir.join("journal"), args.durable, source).await?;
    let log = Arc::new(filling.journal.clone());
    let state = dir.join("reactor");
    std::fs::create_dir_all(&state)?;
    let reactor = match args.durable {
        true => Reactor::open(&state, log)?,
        false => Reactor::in_memory(log, Config::default())?,
    };
    let stop = CancellationToken::new();
    let given = Arc::new(Given::new(args.objects));
    let inner: Arc<dyn Destination> = match args.webhook {
        true => webhook(&stop).await?,
        false => Arc::new(AtOnce),
    };
    let sink = Arc::new(Timed {
        inner,
        given: given.clone(),
    });
    reactor.swap(plan(sink)?);
    let running = tokio::spawn({
        let (reactor, stop) = (reactor.clone(), stop.clone());
        async move { reactor.run(stop).await }
    });
    until("the rule is in force", || !reactor.status().rules.is_empty()).await?;
    filling.source.go.cancel();
    let cpu = seconds_of(std::process::id())?;
    let pace = Duration::from_secs_f64(1.0 / args.per_second as f64);
    let pacer = given.clone();
    tokio::task::spawn_blocking(move || give(&ticks, &pacer, n, pace)).await??;
    until("everything is acknowledged", || lock(&given.taken).len() >= n).await?;
    let cpu = seconds_of(std::process::id())? - cpu;
    stop.cancel();
    running.await??;
    filling.end().await?;
    let taken = std::mem::take(&mut *lock(&given.taken));
    Ok(figures(taken, cpu))
}

fn figures(mut taken: Vec<Duration>, cpu: f64) -> Value {
    taken.sort_unstable();
    let at = |part: f64| {
        let index = ((taken.len() as f64 * part) as usize).min(taken.len().saturating_sub(1));
        taken.get(index).map_or(0.0, |taken| taken.as_secs_f64() * 1e3)
    };
    json!({
        "deliveries": taken.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0),
        "cpu_us": cpu * 1e6 / taken.len().max(1) as f64,
    })
}

/// Gives changes by the clock, whether or not somebody takes them.
#[expect(
    clippy::disallowed_methods,
    reason = "paced on a thread of its own: the runtime's timer counts in milliseconds"
)]
fn give(ticks: &mpsc::Sender<()>, given: &Given, n: usize, pace: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    for i in 0..n {
        let due = begun + pace * i as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        given.note(i);
        // There is room for all.
        ticks.try_send(()).context("the source has ended")?;
    }
    Ok(())
}

async fn until(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !is_so() {
        anyhow::ensure!(
            begun.elapsed() < PATIENCE,
            "waited {} s in vain until {what}",
            PATIENCE.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// One rule, which every change matches, and its sink.
fn plan(sink: Arc<dyn Destination>) -> anyhow::Result<Plan> {
    let spec: RuleSpec = serde_json::from_value(json!({
        "watch": {"group": GROUP, "kind": KIND},
        "fields": {"include": ["spec.replicas"]},
        "when": "object.spec.replicas >= 0",
        "do": [{"sink": "bench"}],
    }))?;
    let rule = CompiledRule::compile(Origin::file("ops", "bench"), &spec, None)
        .map_err(|problems| anyhow::anyhow!("the rule does not compile: {problems:?}"))?;
    let planned = PlannedSink {
        destination: sink,
        delivery: SinkSpec::default().delivery,
    };
    let rule = PlannedRule::compiled(Arc::new(rule), &spec, 1);
    Ok(Plan {
        rules: BTreeMap::from([("ops/bench".to_owned(), rule)]),
        sinks: BTreeMap::from([("ops/bench".to_owned(), planned)]),
        set_aside: BTreeSet::new(),
        complete: true,
    })
}

/// When changes were given that are not acknowledged yet, by object, and how long the others took.
struct Given {
    at: Vec<Mutex<VecDeque<Instant>>>,
    taken: Mutex<Vec<Duration>>,
}

impl Given {
    fn new(n_objects: usize) -> Self {
        Self {
            at: (0..n_objects).map(|_| Mutex::default()).collect(),
            taken: Mutex::default(),
        }
    }

    fn note(&self, change: usize) {
        lock(&self.at[change % self.at.len()]).push_back(Instant::now());
    }

    /// Changes of one object arrive in their order, so this is about the oldest.
    fn acknowledged(&self, event: &Event) {
        let now = Instant::now();
        let number = event.subject.rsplit('-').next().map(str::parse::<usize>);
        let object = number.and_then(Result::ok).and_then(|number| self.at.get(number));
        let given = object.and_then(|object| lock(object).pop_front());
        lock(&self.taken).extend(given.map(|given| now - given));
    }
}

/// A destination that notes when another has acknowledged.
#[derive(Debug)]
struct Timed {
    inner: Arc<dyn Destination>,
    given: Arc<Given>,
}

impl Destination for Timed {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            let sent = self.inner.send(events).await;
            for event in &events[..sent.n_delivered] {
                self.given.acknowledged(event);
            }
            sent
        })
    }

    fn max_batch(&self) -> usize {
        self.inner.max_batch()
    }
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given").finish_non_exhaustive()
    }
}

/// A destination that has everything as soon as it is sent.
#[derive(Debug)]
struct AtOnce;

impl Destination for AtOnce {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(std::future::ready(Sent::all(events)))
    }

    fn max_batch(&self) -> usize {
        100
    }
}

/// The webhook sink, to a server that takes everything.
async fn webhook(stop: &CancellationToken) -> anyhow::Result<Arc<dyn Destination>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    // It ends with the measurement, and so does the process.
    tokio::spawn(stop.clone().run_until_cancelled_owned(serve(listener)));
    let spec: SinkSpec = serde_json::from_value(json!({"webhook": {"url": url}}))?;
    let context = skopos_sink::Context {
        namespace: "ops",
        secrets: &NoSecrets,
        allowed: Allowed::default(),
        search_path: None,
        client: None,
    };
    Ok(skopos_sink::connect(&spec, context).await?)
}

async fn serve(listener: tokio::net::TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(take);
            // The client hangs up when it is done: that is no error here.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

/// Reads a request to its end and says that all is well.
async fn take(mut request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    while let Some(Ok(_)) = request.body_mut().frame().await {}
    Ok(Response::new(Empty::new()))
}

struct NoSecrets;

impl Secrets for NoSecrets {
    fn secret<'a>(&'a self, _: &'a SecretKey) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        Box::pin(std::future::ready(Err(SecretError::Missing)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
