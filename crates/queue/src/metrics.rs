//! What queues tell Prometheus: client-go's names, and more.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::config::Priority;
use crate::state::{BOUNDS, Histogram, Snapshot, Waits};

/// The metrics of any number of queues, told apart by the label `name`.
///
/// Register it once, then show queues in it with [`Queue::observe`](crate::Queue::observe). A queue that is
/// shown nowhere only counts; it keeps no times.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    queues: Arc<Queues>,
}

#[derive(Default)]
struct Queues {
    watched: Mutex<Vec<Weak<dyn Observed>>>,
}

/// A queue, whatever its keys.
pub(crate) trait Observed: Send + Sync {
    fn snapshot(&self) -> Snapshot;
}

impl Metrics {
    /// Metrics of no queue yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `registry` show these metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.queues.clone()));
    }

    pub(crate) fn watch(&self, queue: Weak<dyn Observed>) {
        let mut watched = self.queues.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|queue| queue.strong_count() > 0);
        watched.push(queue);
    }
}

impl Queues {
    fn snapshots(&self) -> Vec<Snapshot> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: Vec<_> = watched.iter().filter_map(Weak::upgrade).collect();
        drop(watched);
        alive.iter().map(|queue| queue.snapshot()).collect()
    }
}

impl Collector for Queues {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshots = self.snapshots();
        let mut page = Page {
            encoder,
            snapshots: &snapshots,
        };
        page.depth()?;
        page.counters()?;
        page.gauges()?;
        page.histograms()?;
        page.tenants()
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").finish_non_exhaustive()
    }
}

/// A number of a queue: its metric's name, what it says, and where to read it.
type Read<T> = (&'static str, &'static str, fn(&Snapshot) -> T);

const COUNTERS: [Read<u64>; 8] = [
    ("workqueue_adds", "Adds that brought about a run", |queue| {
        queue.stats.adds
    }),
    (
        "workqueue_coalesced_adds",
        "Adds of keys that were waiting already",
        |queue| queue.stats.coalesced,
    ),
    ("workqueue_refused_adds", "Adds after the shutdown", |queue| {
        queue.stats.refused
    }),
    ("workqueue_retries", "Failed runs that are tried again", |queue| {
        queue.stats.retries
    }),
    ("workqueue_handed_out", "Keys handed to workers", |queue| {
        queue.stats.handed_out
    }),
    (
        "workqueue_abandoned",
        "Runs that ended without an outcome",
        |queue| queue.stats.abandoned,
    ),
    ("workqueue_dead_lettered", "Keys that were given up", |queue| {
        queue.stats.dead_lettered
    }),
    (
        "workqueue_dead_letters_full",
        "Keys retried for want of room among the dead letters",
        |queue| queue.stats.dead_letters_full,
    ),
];

const GAUGES: [Read<f64>; 7] = [
    (
        "workqueue_unfinished_work_seconds",
        "How long the running keys have been running, in all",
        |queue| queue.unfinished.as_secs_f64(),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "How long the longest running key has been",
        |queue| queue.longest_running.as_secs_f64(),
    ),
    (
        "workqueue_oldest_ready_seconds",
        "How long the oldest ready key has waited",
        |queue| queue.oldest.as_secs_f64(),
    ),
    ("workqueue_delayed", "Keys that wait for a time", |queue| {
        queue.delayed as f64
    }),
    ("workqueue_running", "Keys in the hands of workers", |queue| {
        queue.running as f64
    }),
    ("workqueue_dead_letters", "Keys given up and kept", |queue| {
        queue.dead_letters as f64
    }),
    ("workqueue_tenants", "Tenants with keys in the queue", |queue| {
        queue.tenants as f64
    }),
];

struct Page<'a, 'e> {
    encoder: DescriptorEncoder<'e>,
    snapshots: &'a [Snapshot],
}

impl Page<'_, '_> {
    fn depth(&mut self) -> fmt::Result {
        let help = "Keys that are ready";
        let mut family = self
            .encoder
            .encode_descriptor("workqueue_depth", help, None, MetricType::Gauge)?;
        for queue in self.snapshots {
            for priority in Priority::ALL {
                let labels = [("name", queue.name.as_str()), ("priority", priority.label())];
                let depth = u64::try_from(queue.depth[priority.index()]).unwrap_or(u64::MAX);
                family.encode_family(&labels)?.encode_gauge(&depth)?;
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> fmt::Result {
        for (name, help, read) in COUNTERS {
            let mut family = self
                .encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?;
            for queue in self.snapshots {
                let labels = [("name", queue.name.as_str())];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&read(queue), None)?;
            }
        }
        Ok(())
    }

    fn gauges(&mut self) -> fmt::Result {
        for (name, help, read) in GAUGES {
            let mut family = self
                .encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?;
            for queue in self.snapshots {
                let labels = [("name", queue.name.as_str())];
                family.encode_family(&labels)?.encode_gauge(&read(queue))?;
            }
        }
        Ok(())
    }

    fn histograms(&mut self) -> fmt::Result {
        let queued = (
            "workqueue_queue_duration_seconds",
            "How long keys were ready before a worker had them",
        );
        self.histogram(queued, |queue| {
            queue.stats.times.as_deref().map(|times| &times.queued)
        })?;
        let worked = ("workqueue_work_duration_seconds", "How long workers had a key");
        self.histogram(worked, |queue| {
            queue.stats.times.as_deref().map(|times| &times.worked)
        })
    }

    fn histogram(
        &mut self,
        (name, help): (&'static str, &'static str),
        read: fn(&Snapshot) -> Option<&Histogram>,
    ) -> fmt::Result {
        let mut family = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for queue in self.snapshots {
            let Some(histogram) = read(queue) else {
                continue;
            };
            let bounds = BOUNDS.into_iter().chain([f64::MAX]);
            let buckets: Vec<_> = bounds.zip(histogram.counts).collect();
            let count = histogram.counts.iter().sum();
            let labels = [("name", queue.name.as_str())];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(histogram.sum.as_secs_f64(), count, &buckets, None)?;
        }
        Ok(())
    }

    fn tenants(&mut self) -> fmt::Result {
        let help = "How long a tenant's keys were ready before a worker had them, in all";
        self.by_tenant("workqueue_tenant_wait_seconds", help, |waits| {
            waits.sum.as_secs_f64()
        })?;
        let help = "A tenant's keys handed to workers";
        self.by_tenant("workqueue_tenant_handed_out", help, |waits| waits.count as f64)
    }

    fn by_tenant(&mut self, name: &'static str, help: &str, read: fn(&Waits) -> f64) -> fmt::Result {
        let mut family = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for queue in self.snapshots {
            let Some(times) = &queue.stats.times else {
                continue;
            };
            let named = times.by_tenant.iter().map(|(tenant, waits)| (&**tenant, waits));
            let others = Some(("exceeded_cardinality_limit", &times.other_tenants));
            for (tenant, waits) in named.chain(others.filter(|(_, waits)| waits.count > 0)) {
                let labels = [("name", queue.name.as_str()), ("tenant", tenant)];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&read(waits), None)?;
            }
        }
        Ok(())
    }
}
