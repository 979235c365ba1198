//! Tells users what happens to their objects, without ever holding up who tells it.
//!
//! Start at [`Events`]. What becomes an event and when is decided in `events/series.rs`, without IO.

mod occurrence;
mod series;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use std::{fmt, future};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::{MetricType, counter::ConstCounter};
use prometheus_client::registry::Registry;
use serde_json::json;
use skopos_client::{Api, Client, Error, Patch, Resource, WriteParams};
use skopos_object::GroupVersionKind;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::occurrence::{API_VERSION, Key, Occurrence, Reporter};
pub use self::occurrence::{EventKind, Regarding};
use self::series::{Book, Outcome, Recorded, Write};
use crate::Fence;
use crate::leader::micro_time;

/// How long one write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How events are reported.
#[derive(Debug, Clone)]
pub struct EventsConfig {
    /// Who reports: a name such as `example.com/my-controller`.
    pub controller: String,
    /// Which replica reports, such as the pod's name.
    pub instance: String,
    /// How many occurrences may wait to be looked at. Further ones are dropped and counted. 1,000 by default.
    pub capacity: usize,
    /// How many series, and objects with events, are remembered. While there are so many, further ones are dropped and
    /// counted. 4,096 by default.
    pub max_series: usize,
    /// How many writes one object may cause at once. 25 by default; after that new events of it are dropped and counted,
    /// and repetitions are counted later.
    pub burst_per_object: u32,
    /// After how long an object may cause one more write. 5 minutes by default.
    pub refill_per_object: Duration,
    /// The shortest time between two writes of a series. 10 s by default.
    pub series_spacing: Duration,
    /// How long what is left may take at the end. 3 s by default.
    pub flush_timeout: Duration,
}

impl EventsConfig {
    /// The usual limits.
    pub fn new(controller: &str, instance: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            instance: instance.to_owned(),
            capacity: 1000,
            max_series: 4096,
            burst_per_object: 25,
            refill_per_object: Duration::from_secs(300),
            series_spacing: Duration::from_secs(10),
            flush_timeout: Duration::from_secs(3),
        }
    }
}

/// Reports what happens to objects. Cheap to clone; never waits and never fails.
#[derive(Debug, Clone)]
pub struct Recorder {
    occurrences: mpsc::Sender<Occurrence>,
    counts: Arc<Counts>,
}

/// Writes what [`Recorder`]s report, as `events.k8s.io/v1`.
///
/// The first occurrence becomes an Event; what happens again to the same object for the same reason within six minutes is
/// counted in its `series`. Nothing is written while the fence is closed.
///
/// ```no_run
/// # async fn tour(client: skopos_client::Client, widget: skopos_object::Object) {
/// use skopos_controller::{EventKind, Events, EventsConfig, Fence};
/// use tokio_util::sync::CancellationToken;
///
/// let config = EventsConfig::new("example.com/widgets", "pod-1");
/// let (recorder, events) = Events::new(&client, &Fence::open(), config);
/// let shutdown = CancellationToken::new();
/// let writing = tokio::spawn(events.run(shutdown.clone()));
/// recorder.event(&widget, EventKind::Normal, "Created", "CreateDeployment", "created deployment web");
/// # }
/// ```
#[derive(Debug)]
pub struct Events {
    writer: Writer,
    config: EventsConfig,
    fence: Fence,
    occurrences: mpsc::Receiver<Occurrence>,
    counts: Arc<Counts>,
}

/// Knows how to write an event.
#[derive(Debug, Clone)]
struct Writer {
    client: Client,
    resource: Resource,
    reporter: Reporter,
}

#[derive(Debug, Default)]
struct Counts {
    recorded: AtomicU64,
    writes: AtomicU64,
    /// Occurrences that nobody will hear of, by reason.
    overflow: AtomicU64,
    spam: AtomicU64,
    standby: AtomicU64,
    failed: AtomicU64,
}

impl Recorder {
    /// Reports that something happened to an object.
    ///
    /// `reason` is why, `action` what was done about it, each a short word in `CamelCase`; `note` is for people and cut
    /// after 1,024 bytes. An empty action becomes the reason.
    pub fn event(
        &self,
        regarding: impl Into<Regarding>,
        kind: EventKind,
        reason: &str,
        action: &str,
        note: impl AsRef<str>,
    ) {
        let key = Key {
            regarding: regarding.into(),
            kind,
            reason: reason.to_owned(),
            action: if action.is_empty() { reason } else { action }.to_owned(),
        };
        let occurrence = Occurrence::new(key, note.as_ref(), Timestamp::now());
        self.counts.recorded.fetch_add(1, Relaxed);
        // Full means that events come faster than they can be looked at; who reports must not wait for that.
        if self.occurrences.try_send(occurrence).is_err() {
            self.counts.overflow.fetch_add(1, Relaxed);
        }
    }

    /// Shows in a registry how many events were reported, written and dropped, as `skopos_events_*`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Exporter(self.counts.clone())));
    }
}

impl Events {
    /// Prepares to write events with `client`, while `fence` is open.
    pub fn new(client: &Client, fence: &Fence, config: EventsConfig) -> (Recorder, Self) {
        let gvk = GroupVersionKind::from_api_version(API_VERSION, "Event").expect("a group and a version");
        let (sender, occurrences) = mpsc::channel(config.capacity);
        let counts: Arc<Counts> = Arc::default();
        let recorder = Recorder {
            occurrences: sender,
            counts: counts.clone(),
        };
        let writer = Writer {
            client: client.clone().guarded(Arc::new(fence.clone())),
            resource: Resource::known(&gvk, "events", true),
            reporter: Reporter {
                controller: config.controller.clone(),
                instance: config.instance.clone(),
            },
        };
        let events = Self {
            writer,
            config,
            fence: fence.clone(),
            occurrences,
            counts,
        };
        (recorder, events)
    }

    /// Writes events until `shutdown`, or until there is no recorder any more; then writes what is left, for a while.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut book = Book::new(self.config.clone(), Instant::now());
        let mut writing: Option<Writing> = None;
        loop {
            if writing.is_none() {
                let write = book.next(Instant::now(), false);
                writing = write.map(|write| self.writer.start(write));
            }
            let due = book.due().filter(|_| writing.is_none());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                (write, outcome) = finished(writing.as_mut()) => {
                    writing = None;
                    self.finish(&mut book, &write, outcome);
                }
                occurrence = self.occurrences.recv() => match occurrence {
                    Some(occurrence) => self.record(&mut book, occurrence),
                    None => break,
                },
                () = at(due) => {}
            }
        }
        let flush_timeout = self.config.flush_timeout;
        // What is not written by then is counted below.
        let _ = timeout(flush_timeout, self.flush(&mut book, writing)).await;
        self.counts.failed.fetch_add(book.n_unwritten(), Relaxed);
    }

    /// Writes everything that is left, without the pauses in between.
    async fn flush(&mut self, book: &mut Book, writing: Option<Writing>) {
        self.occurrences.close();
        while let Some(occurrence) = self.occurrences.recv().await {
            self.record(book, occurrence);
        }
        let mut writing = writing;
        loop {
            let Some(current) = writing.take() else {
                let Some(write) = book.next(Instant::now(), true) else {
                    return;
                };
                writing = Some(self.writer.start(write));
                continue;
            };
            let (write, outcome) = current.await;
            // There is no later to hope for.
            let outcome = if outcome == Outcome::Failed {
                Outcome::Hopeless
            } else {
                outcome
            };
            self.finish(book, &write, outcome);
        }
    }

    fn record(&self, book: &mut Book, occurrence: Occurrence) {
        let dropped = match self.fence.is_open() {
            false => &self.counts.standby,
            true => match book.record(occurrence, fastrand::u32(..), Instant::now()) {
                Recorded::Kept => return,
                Recorded::Spam => &self.counts.spam,
                Recorded::Full => &self.counts.overflow,
            },
        };
        dropped.fetch_add(1, Relaxed);
    }

    fn finish(&self, book: &mut Book, write: &Write, outcome: Outcome) {
        if outcome == Outcome::Written {
            self.counts.writes.fetch_add(1, Relaxed);
        }
        let lost = book.done(write, outcome, Instant::now());
        self.counts.failed.fetch_add(lost, Relaxed);
    }
}

/// The one write that is under way.
type Writing = Pin<Box<dyn Future<Output = (Write, Outcome)> + Send>>;

impl Writer {
    fn start(&self, write: Write) -> Writing {
        let writer = self.clone();
        Box::pin(async move {
            let outcome = match timeout(WRITE_TIMEOUT, writer.send(&write)).await {
                Ok(Ok(())) => Outcome::Written,
                Ok(Err(error)) => outcome_of(&write, &error),
                Err(_) => Outcome::Failed,
            };
            (write, outcome)
        })
    }

    async fn send(&self, write: &Write) -> Result<(), Error> {
        let api = Api::namespaced(
            &self.client,
            &self.resource,
            write.key.regarding.event_namespace(),
        );
        let params = WriteParams::default();
        match &write.first {
            Some(first) => {
                let event = first.to_event(&write.name, &self.reporter);
                match api.create(&event, &params).await {
                    // It was created before, and the answer got lost: nobody else has this name.
                    Err(error) if error.is_conflict() => Ok(()),
                    created => created.map(drop),
                }
            }
            None => {
                let series =
                    json!({"count": write.count, "lastObservedTime": micro_time(write.last_observed)});
                let patch = json!({"series": series});
                api.patch(&write.name, Patch::Merge(&patch), &params)
                    .await
                    .map(drop)
            }
        }
    }
}

fn outcome_of(write: &Write, error: &Error) -> Outcome {
    let (regarding, reason) = (&write.key.regarding, &write.key.reason);
    let (kind, namespace, name) = (&regarding.kind, &regarding.namespace, &regarding.name);
    if error.is_transient() {
        debug!(kind, namespace, name, reason, %error, "event not written yet");
        return Outcome::Failed;
    }
    // Written and gone already: the next occurrence begins anew. Or no longer the leader.
    if !error.is_not_found() && !matches!(error, Error::Withheld { .. }) {
        warn!(kind, namespace, name, reason, %error, "event refused");
    }
    Outcome::Hopeless
}

async fn finished(writing: Option<&mut Writing>) -> (Write, Outcome) {
    match writing {
        Some(writing) => writing.await,
        None => future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => future::pending().await,
    }
}

#[derive(Debug)]
struct Exporter(Arc<Counts>);

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = &*self.0;
        let totals = [
            ("skopos_events_recorded", "Occurrences reported", &counts.recorded),
            (
                "skopos_events_writes",
                "Events created and series updated",
                &counts.writes,
            ),
        ];
        for (name, help, count) in totals {
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count.load(Relaxed)).encode(counter)?;
        }
        let (name, help) = (
            "skopos_events_dropped",
            "Occurrences that were not told, by reason",
        );
        let mut dropped = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let reasons = [
            ("overflow", &counts.overflow),
            ("spam", &counts.spam),
            ("standby", &counts.standby),
            ("failed", &counts.failed),
        ];
        for (reason, count) in reasons {
            ConstCounter::new(count.load(Relaxed)).encode(dropped.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}
