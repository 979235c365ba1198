//! Which occurrences become events, and when which event is written. No IO, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use jiff::Timestamp;
use tokio::time::Instant;

use super::EventsConfig;
use super::occurrence::{Key, Occurrence, Regarding};

/// How long a series goes on after its last occurrence.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// How often what is over is forgotten.
const SWEEP: Duration = Duration::from_secs(60);
/// How often the write of one event is tried.
const MAX_FAILURES: u32 = 5;

/// The series that go on, and what is still to be written of them.
#[derive(Debug)]
pub(super) struct Book {
    config: EventsConfig,
    series: HashMap<Arc<Key>, Series>,
    /// When to write which series. A series is here iff it has news and is not being written.
    agenda: BTreeMap<(Instant, u64), Arc<Key>>,
    /// What may still be written, by object.
    allowances: HashMap<Regarding, Allowance>,
    n_planned: u64,
    next_sweep: Instant,
}

#[derive(Debug)]
struct Series {
    name: String,
    /// What to create; gone once that is done.
    first: Option<Occurrence>,
    count: u64,
    /// How many of them the server knows of.
    n_written: u64,
    last_observed: Timestamp,
    last_seen: Instant,
    /// Not before then.
    next_write: Instant,
    n_failures: u32,
}

/// A bucket of tokens; each write takes one.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    tokens: f64,
    since: Instant,
}

/// What became of an occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It will be written, with others if it is not the first.
    Kept,
    /// Its object has had too many events.
    Spam,
    /// Too many series go on.
    Full,
}

/// Something to write.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) key: Arc<Key>,
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) last_observed: Timestamp,
    /// What to create; otherwise the series is to be patched.
    pub(super) first: Option<Occurrence>,
}

/// How a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// It may go better later.
    Failed,
    /// It will not.
    Hopeless,
}

impl Book {
    pub(super) fn new(config: EventsConfig, now: Instant) -> Self {
        Self {
            config,
            series: HashMap::new(),
            agenda: BTreeMap::new(),
            allowances: HashMap::new(),
            n_planned: 0,
            next_sweep: now + SWEEP,
        }
    }

    pub(super) fn record(&mut self, occurrence: Occurrence, random: u32, now: Instant) -> Recorded {
        self.sweep(now);
        if let Some(series) = self.series.get_mut(&occurrence.key)
            && (series.has_news() || now < series.last_seen + SERIES)
        {
            let had_news = series.has_news();
            series.count += 1;
            series.last_observed = series.last_observed.max(occurrence.at);
            series.last_seen = now;
            if !had_news {
                let due = series.next_write.max(now);
                self.enter(due, &Arc::new(occurrence.key));
            }
            return Recorded::Kept;
        }
        self.begin(occurrence, random, now)
    }

    /// When [`next`](Self::next) has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next write, if it is time for one. At the end everything is due.
    pub(super) fn next(&mut self, now: Instant, is_end: bool) -> Option<Write> {
        loop {
            let entry = self.agenda.first_entry()?;
            if entry.key().0 > now && !is_end {
                return None;
            }
            let key = entry.remove();
            let Some(series) = self.series.get_mut(&key) else {
                continue;
            };
            // The creation was paid for when it was recorded.
            if series.first.is_none() && !is_end {
                let full = Allowance::full(&self.config, now);
                let allowance = self.allowances.entry(key.regarding.clone()).or_insert(full);
                if let Err(later) = allowance.take(&self.config, now) {
                    self.enter(later, &key);
                    continue;
                }
            }
            return Some(Write {
                name: series.name.clone(),
                count: series.count,
                last_observed: series.last_observed,
                first: series.first.clone(),
                key,
            });
        }
    }

    /// Says how a write went, and returns how many occurrences are lost by it.
    pub(super) fn done(&mut self, write: &Write, outcome: Outcome, now: Instant) -> u64 {
        let Some(series) = self.series.get_mut(&write.key) else {
            return 0;
        };
        match outcome {
            Outcome::Written => {
                // A creation tells of one occurrence, whatever came meanwhile.
                series.n_written = if series.first.take().is_some() {
                    1
                } else {
                    write.count
                };
                series.n_failures = 0;
            }
            Outcome::Failed if series.n_failures + 1 < MAX_FAILURES => series.n_failures += 1,
            Outcome::Failed | Outcome::Hopeless => {
                let lost = series.count - series.n_written;
                self.series.remove(&write.key);
                return lost;
            }
        }
        series.next_write = now + self.config.series_spacing;
        if series.has_news() {
            let due = series.next_write;
            self.enter(due, &write.key);
        }
        0
    }

    /// How many occurrences the server was not told of.
    pub(super) fn n_unwritten(&self) -> u64 {
        self.series
            .values()
            .map(|series| series.count - series.n_written)
            .sum()
    }

    /// Forgets what is over, now and then.
    fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        self.series
            .retain(|_, series| series.has_news() || now < series.last_seen + SERIES);
        let config = &self.config;
        self.allowances
            .retain(|_, allowance| !allowance.is_full(config, now));
    }

    fn enter(&mut self, due: Instant, key: &Arc<Key>) {
        self.n_planned += 1;
        self.agenda.insert((due, self.n_planned), key.clone());
    }

    fn begin(&mut self, occurrence: Occurrence, random: u32, now: Instant) -> Recorded {
        let is_known = self.allowances.contains_key(&occurrence.key.regarding);
        let has_room = is_known || self.allowances.len() < self.config.max_series;
        if self.series.len() >= self.config.max_series || !has_room {
            return Recorded::Full;
        }
        let full = Allowance::full(&self.config, now);
        let allowance = self
            .allowances
            .entry(occurrence.key.regarding.clone())
            .or_insert(full);
        if allowance.take(&self.config, now).is_err() {
            return Recorded::Spam;
        }
        let key = Arc::new(occurrence.key.clone());
        let series = Series {
            name: occurrence.event_name(random),
            count: 1,
            n_written: 0,
            last_observed: occurrence.at,
            last_seen: now,
            next_write: now,
            n_failures: 0,
            first: Some(occurrence),
        };
        self.series.insert(key.clone(), series);
        self.enter(now, &key);
        Recorded::Kept
    }
}

impl Series {
    fn has_news(&self) -> bool {
        self.count > self.n_written
    }
}

impl Allowance {
    fn full(config: &EventsConfig, now: Instant) -> Self {
        Self {
            tokens: f64::from(config.burst_per_object),
            since: now,
        }
    }

    fn is_full(&self, config: &EventsConfig, now: Instant) -> bool {
        self.tokens + self.refill(config, now) >= f64::from(config.burst_per_object)
    }

    /// Takes a token, or says when there will be one.
    fn take(&mut self, config: &EventsConfig, now: Instant) -> Result<(), Instant> {
        let most = f64::from(config.burst_per_object);
        self.tokens = (self.tokens + self.refill(config, now)).min(most);
        self.since = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // A millisecond more, so that rounding does not make it come too early.
        Err(now + config.refill_per_object.mul_f64(1.0 - self.tokens) + Duration::from_millis(1))
    }

    fn refill(&self, config: &EventsConfig, now: Instant) -> f64 {
        now.duration_since(self.since).as_secs_f64() / config.refill_per_object.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::super::occurrence::EventKind;
    use super::*;
    use skopos_testkit::seeds;

    /// What a server was told in one run, and what was not told.
    #[derive(Default)]
    struct Told {
        /// Occurrences by event.
        counts: BTreeMap<String, u64>,
        lost: u64,
    }

    impl Told {
        fn hear(&mut self, book: &mut Book, write: &Write, outcome: Outcome, now: Instant) {
            if outcome == Outcome::Written {
                let is_new = write.first.is_some();
                let count = if is_new { 1 } else { write.count };
                let before = self.counts.insert(write.name.clone(), count);
                assert_eq!(before.is_none(), is_new, "created once, then patched");
                assert!(
                    before.is_none_or(|before| before < count),
                    "nothing is told twice"
                );
            }
            self.lost += book.done(write, outcome, now);
        }
    }

    fn occurrence(rng: &mut fastrand::Rng) -> Occurrence {
        let regarding = Regarding {
            name: format!("widget-{}", rng.u8(..6)),
            ..Regarding::default()
        };
        let key = Key {
            regarding,
            kind: EventKind::Normal,
            reason: format!("Reason{}", rng.u8(..4)),
            action: String::new(),
        };
        Occurrence::new(key, "", Timestamp::UNIX_EPOCH)
    }

    /// Every occurrence that was kept is told in the end, or counted as lost, and never more are told.
    #[test]
    fn tells_of_every_occurrence_that_it_kept() {
        for seed in seeds(200) {
            let (mut rng, mut now) = (fastrand::Rng::with_seed(seed), Instant::now());
            let config = EventsConfig {
                max_series: 8,
                burst_per_object: 4,
                ..EventsConfig::new("c", "i")
            };
            let (mut book, mut told, mut kept) = (Book::new(config, now), Told::default(), 0);
            let mut writing = None;
            for n in 0..2000 {
                let longest = if rng.u8(..50) == 0 { 600_000 } else { 3000 };
                now += Duration::from_millis(rng.u64(..longest));
                if rng.bool() && book.record(occurrence(&mut rng), n, now) == Recorded::Kept {
                    kept += 1;
                }
                writing = match writing {
                    Some(write) if rng.bool() => {
                        let outcome = [
                            Outcome::Written,
                            Outcome::Written,
                            Outcome::Failed,
                            Outcome::Hopeless,
                        ];
                        told.hear(&mut book, &write, outcome[rng.usize(..4)], now);
                        None
                    }
                    None => book.next(now, false),
                    busy => busy,
                };
                assert!(
                    book.series.len() <= 8 && book.allowances.len() <= 8,
                    "SEED={seed}"
                );
            }
            while let Some(write) = writing.take().or_else(|| book.next(now, true)) {
                told.hear(&mut book, &write, Outcome::Written, now);
            }
            let all = told.counts.values().sum::<u64>() + told.lost;
            assert_eq!((all, book.n_unwritten()), (kept, 0), "SEED={seed}");
        }
    }
}
