//! What can go wrong between a client and a server, when, and how often it did.

mod asked;
mod body;
mod lag;
mod layer;
mod lines;
mod rule;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use skopos_object::{FieldError, FieldPath, GroupKind, GroupResource, Status};
use tokio_util::sync::CancellationToken;

pub(crate) use self::lines::spoil;
pub use self::{
    asked::{Asked, Verb},
    body::FaultBody,
    layer::{FaultLayer, FaultService},
    rule::{Rule, RuleBuilder},
};

/// One thing that goes wrong.
///
/// Bytes count what the client gets of the body. A fault that makes no sense for a request, such as a
/// bookmark sent twice where nothing is watched, leaves it alone and does not count as injected.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Nobody listens: the request never reaches the server.
    Refused,
    /// The server carries the request out, and the connection breaks before its answer arrives.
    LostAnswer,
    /// The server answers this and does nothing. `retryAfterSeconds` also becomes a `Retry-After` header.
    Answer(Status),
    /// The watch opens, lets so many events through, then sends an ERROR event and ends.
    ErrorEvent {
        /// How many events come first.
        after_events: usize,
        /// What the event says.
        status: Status,
    },
    /// The body breaks off with an error, anywhere, also in the middle of an object.
    Cut {
        /// How much comes first.
        after_bytes: usize,
    },
    /// The body ends without an error, as behind a proxy that closes, also in the middle of an object.
    End {
        /// How much comes first.
        after_bytes: usize,
    },
    /// Nothing comes any more, and nobody closes.
    Stall {
        /// How much comes first.
        after_bytes: usize,
    },
    /// The request waits before it reaches the server. A paused clock passes over it.
    Slow(Duration),
    /// One object of the list or the watch has a number where its uid should be: JSON, but no object. Its
    /// name and version can be read.
    Malformed {
        /// Which one, from 0.
        nth: usize,
    },
    /// One event of the watch is no JSON at all.
    Garbled {
        /// Which one, from 0.
        nth: usize,
    },
    /// Every bookmark of the watch comes twice.
    DuplicateBookmarks,
    /// Every bookmark of the watch comes after the event that follows it; but not the one that ends the
    /// initial events.
    LateBookmarks,
    /// The body is compressed, with a gzip member of its own for everything that is sent at once, as
    /// kube-apiserver 1.37 does. Only for clients that accept gzip.
    GzipMembers,
    /// The server knows no streaming lists: it refuses a watch with initial events.
    NoStreamingLists,
}

impl Fault {
    /// The version asked for is gone, told instead of an answer.
    pub fn gone() -> Self {
        Self::Answer(Status::expired("too old resource version: 1 (2)"))
    }

    /// The version asked for is gone, told inside the watch after so many events.
    pub fn gone_in_stream(after_events: usize) -> Self {
        Self::ErrorEvent {
            after_events,
            status: Status::expired("too old resource version: 1 (2)"),
        }
    }

    /// Too many requests: 429.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        let message = "Too many requests, please try again later.";
        Self::Answer(Status::too_many_requests(message, retry_after_seconds))
    }

    /// The server is not ready: 503.
    pub fn unavailable(retry_after_seconds: u32) -> Self {
        let mut status = Status::service_unavailable("the server is currently unable to handle the request");
        status.details.get_or_insert_default().retry_after_seconds = retry_after_seconds;
        Self::Answer(status)
    }

    /// The server failed: 500.
    pub fn internal() -> Self {
        Self::Answer(Status::internal("injected fault"))
    }

    /// The server is behind the version asked for: 504.
    pub fn version_too_large() -> Self {
        Self::Answer(Status::too_large_resource_version(2, 1, 1))
    }

    /// Somebody else changed the object in between: 409.
    pub fn conflict() -> Self {
        Self::Answer(Status::modified(&GroupResource::default(), ""))
    }

    /// Whether it makes a difference to such a request.
    fn applies_to(&self, asked: &Asked) -> bool {
        match self {
            Self::ErrorEvent { .. }
            | Self::Garbled { .. }
            | Self::DuplicateBookmarks
            | Self::LateBookmarks => asked.verb == Verb::Watch,
            Self::Malformed { .. } => matches!(asked.verb, Verb::Watch | Verb::List),
            Self::GzipMembers => asked.accepts_gzip,
            Self::NoStreamingLists => asked.initial_events,
            _ => true,
        }
    }
}

/// How kube-apiserver refuses a streaming list when it has none.
pub(crate) fn no_streaming_lists() -> Status {
    let path = FieldPath::root().child("sendInitialEvents");
    let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    let kind = GroupKind::new("meta.k8s.io", "ListOptions");
    Status::invalid(&kind, "", vec![FieldError::forbidden(&path, why)])
}

/// The faults of one connection: a handle to add and remove them, and to see what they did. Cheap to clone.
///
/// ```
/// use skopos_testkit::{Fault, Faults, Rule};
///
/// let faults = Faults::seeded(7);
/// let gone = faults.add(Rule::watch().resource("widgets").nth(2).then(Fault::gone()));
/// let busy = faults.add(Rule::list().with_chance(0.1).then(Fault::too_many_requests(1)));
/// assert_eq!(gone.injected() + busy.injected(), 0);
/// faults.clear();
/// ```
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Mutex<State>>,
}

struct State {
    rng: fastrand::Rng,
    rules: Vec<Active>,
    /// By the plural of the resource.
    lags: BTreeMap<String, Duration>,
    next_id: u64,
    is_on: bool,
    is_away: bool,
    requests: u64,
    // Everything that is open now ends when this is cancelled; then there is a new one.
    open: CancellationToken,
}

struct Active {
    id: u64,
    rule: Rule,
    matched: u64,
    injected: Arc<AtomicU64>,
}

/// One rule that was added. Dropping the handle leaves the rule in place.
#[derive(Clone)]
pub struct Added {
    faults: Faults,
    id: u64,
    injected: Arc<AtomicU64>,
}

impl Faults {
    /// No faults yet; chances are taken with this seed.
    pub fn seeded(seed: u64) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            rules: Vec::new(),
            lags: BTreeMap::new(),
            next_id: 0,
            is_on: true,
            is_away: false,
            requests: 0,
            open: CancellationToken::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds a rule after those there are. The first that fires decides about a request.
    pub fn add(&self, rule: Rule) -> Added {
        let mut state = self.state();
        let (id, injected) = (state.next_id, Arc::new(AtomicU64::new(0)));
        state.next_id += 1;
        state.rules.push(Active {
            id,
            rule,
            matched: 0,
            injected: Arc::clone(&injected),
        });
        Added {
            faults: self.clone(),
            id,
            injected,
        }
    }

    /// Forgets all rules.
    pub fn clear(&self) {
        self.state().rules.clear();
    }

    /// Lets everything that watches of a resource tell arrive so much later than the server sends it: a cache that lags
    /// behind. Also on watches that are open already; [`Duration::ZERO`] ends it for what is sent from then on.
    ///
    /// It is no rule: it stays beside them, whatever fires, until it is set anew. Nothing overtakes what is under way,
    /// and rules edit what arrives. A paused clock passes over it.
    pub fn lag(&self, resource: &str, by: Duration) {
        self.state().lags.insert(resource.to_owned(), by);
    }

    /// How late what is told of a resource arrives, if it does not arrive at once.
    pub(crate) fn lag_of(&self, resource: &str) -> Option<Duration> {
        let lag = self.state().lags.get(resource).copied();
        lag.filter(|lag| !lag.is_zero())
    }

    /// Lets all requests through until [`resume`](Self::resume). Requests are not counted for rules meanwhile.
    pub fn pause(&self) {
        self.state().is_on = false;
    }

    /// Lets the rules decide again.
    pub fn resume(&self) {
        self.state().is_on = true;
    }

    /// Breaks every answer that is under way now, watches above all.
    pub fn cut_open_streams(&self) {
        let mut state = self.state();
        state.open.cancel();
        state.open = CancellationToken::new();
    }

    /// Takes the server away: what is open breaks, what comes is refused, until [`come_back`](Self::come_back).
    pub fn go_away(&self) {
        self.state().is_away = true;
        self.cut_open_streams();
    }

    /// Ends [`go_away`](Self::go_away).
    pub fn come_back(&self) {
        self.state().is_away = false;
    }

    /// How many requests came, with and without faults.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// How many faults the rules that are there have injected.
    pub fn injected(&self) -> u64 {
        let state = self.state();
        state
            .rules
            .iter()
            .map(|active| active.injected.load(Relaxed))
            .sum()
    }

    /// Decides about one request, and counts it.
    pub(crate) fn decide(&self, asked: &Asked) -> Option<Fault> {
        let mut state = self.state();
        state.requests += 1;
        if state.is_away {
            return Some(Fault::Refused);
        }
        if !state.is_on {
            return None;
        }
        let State { rng, rules, .. } = &mut *state;
        let mut decided = None;
        for active in rules.iter_mut().filter(|active| active.rule.is_about(asked)) {
            active.matched += 1;
            if decided.is_none() && active.rule.when.fires(active.matched, rng) {
                active.injected.fetch_add(1, Relaxed);
                decided = Some(active.rule.fault.clone());
            }
        }
        decided
    }

    /// Is cancelled when what is open now must break.
    pub(crate) fn open(&self) -> CancellationToken {
        self.state().open.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Added {
    /// How often the rule did its harm.
    pub fn injected(&self) -> u64 {
        self.injected.load(Relaxed)
    }

    /// Takes the rule away.
    pub fn remove(&self) {
        self.faults.state().rules.retain(|active| active.id != self.id);
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Faults")
            .field("rules", &state.rules.len())
            .field("is_away", &state.is_away)
            .field("requests", &state.requests)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Added")
            .field("id", &self.id)
            .field("injected", &self.injected())
            .finish_non_exhaustive()
    }
}
