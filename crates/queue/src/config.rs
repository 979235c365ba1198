//! How a queue behaves: everything has a default.

use std::fmt;
use std::time::Duration;

/// How a queue behaves. `Config::default()` gives the defaults named on each field.
#[derive(Clone)]
pub struct Config<K> {
    /// The queue's name in its metrics. Default: empty.
    pub name: String,
    /// To whom a key belongs, for fairness. Default: all keys belong to one tenant.
    ///
    /// For object keys the namespace is the usual answer: `|key| &key.namespace`.
    pub tenant: fn(&K) -> &str,
    /// How long a failed key waits. Default: 5 ms, doubling up to 1000 s, up to a tenth shorter by chance.
    pub backoff: Backoff,
    /// After how many failed attempts a key becomes a dead letter. Default: never.
    ///
    /// Only attempts the queue scheduled count; see [the crate's text](crate#failures).
    pub max_attempts: Option<u32>,
    /// How many dead letters are kept. Default: 10,000.
    ///
    /// A key that finds no room is not dropped: it goes on being retried at the longest backoff.
    pub max_dead_letters: usize,
    /// How soon after a failure a change may run the failed key again. Default: 1 s.
    ///
    /// The current backoff, where that is shorter.
    pub change_spacing: Duration,
    /// Whether adds wait for a quiet time first. Default: no.
    pub debounce: Option<Debounce>,
    /// How many keys are handed out per second at most. Default: no limit.
    pub rate_limit: Option<RateLimit>,
    /// How often a lower priority is passed over in a row before it has a turn. Default: 7.
    pub patience: u32,
    /// What the jitter is drawn from. Default: drawn at random.
    pub seed: Option<u64>,
}

impl<K> Default for Config<K> {
    fn default() -> Self {
        Self {
            name: String::new(),
            tenant: |_| "",
            backoff: Backoff::default(),
            max_attempts: None,
            max_dead_letters: 10_000,
            change_spacing: Duration::from_secs(1),
            debounce: None,
            rate_limit: None,
            patience: 7,
            seed: None,
        }
    }
}

impl<K> fmt::Debug for Config<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("backoff", &self.backoff)
            .field("max_attempts", &self.max_attempts)
            .field("max_dead_letters", &self.max_dead_letters)
            .field("change_spacing", &self.change_spacing)
            .field("debounce", &self.debounce)
            .field("rate_limit", &self.rate_limit)
            .field("patience", &self.patience)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// How long a failed key waits before it is tried again: twice as long after each failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// After the first failure. Default: 5 ms.
    pub first: Duration,
    /// At most. Default: 1000 s.
    pub longest: Duration,
    /// By which part a wait may be shorter, chosen at random: 0 to 1. Default: 0.1.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            longest: Duration::from_secs(1000),
            jitter: 0.1,
        }
    }
}

impl Backoff {
    /// The wait after the `attempts`th failure in a row.
    pub(crate) fn delay(&self, attempts: u32, random: &mut fastrand::Rng) -> Duration {
        let doubled = 2u32.saturating_pow(attempts.saturating_sub(1));
        let full = self.first.saturating_mul(doubled).min(self.longest);
        // A NaN becomes no jitter.
        let jitter = self.jitter.max(0.0).clamp(0.0, 1.0);
        full.mul_f64(1.0 - jitter * random.f64())
    }
}

/// Adds wait until a key has been quiet, but not for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// A key is handed out once nothing was added for this long.
    pub quiet: Duration,
    /// It is handed out this long after its first add at the latest.
    pub max_wait: Duration,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// How many keys per second in the long run. Zero or less counts as one in a thousand seconds.
    pub per_second: f64,
    /// How many at once after a pause; at least one.
    pub burst: u32,
}

/// Which keys go first. The order is that of importance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// What was there before: the initial list, a resync.
    Low,
    /// What the queue itself schedules: retries and requeues.
    Normal,
    /// What somebody changed.
    #[default]
    High,
}

impl Priority {
    pub(crate) const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// As metrics call it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// How a key is added: at once and with high priority, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Its priority. A key that waits already keeps the higher one.
    pub priority: Priority,
    /// How long it waits first. A key that waits already keeps the earlier time.
    ///
    /// With a delay named here the queue's [`Debounce`] does not apply.
    pub after: Option<Duration>,
}

/// What is handed out once the queue takes no more adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Keys that are ready are still handed out; those that wait for a later time are let go.
    HandOut,
    /// Nothing is handed out any more.
    LetGo,
}
