//! A sink that records what arrives and does as it likes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_core::future::BoxFuture;
use skopos_api::Delivery;
use skopos_sink::{Destination, Event, Failure, Sent};
use tokio::time::{Instant, sleep};

use crate::delivery::PlannedSink;

/// How a sink behaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mood {
    /// Nothing works.
    pub(crate) is_down: bool,
    /// It never answers.
    pub(crate) hangs: bool,
    /// How long it takes.
    pub(crate) takes: Duration,
    /// Asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// Events of these objects fail.
    pub(crate) failing: BTreeSet<String>,
    /// Refuses events whose hash leaves nothing over this number.
    pub(crate) refuses: Option<u64>,
    /// Has no time for more than so many events of a call.
    pub(crate) takes_at_most: Option<usize>,
    /// Takes everything and says it did not.
    pub(crate) lies: bool,
    pub(crate) panics: bool,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) max_batch: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mood: Mood,
    arrived: Vec<Event>,
    calls: Vec<Call>,
    flying: Vec<String>,
    most_flying: usize,
    n_flying: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    pub(crate) ids: Vec<String>,
}

impl Recorder {
    pub(crate) fn new(max_batch: usize) -> Arc<Self> {
        Arc::new(Self {
            max_batch,
            state: Mutex::default(),
        })
    }

    pub(crate) fn planned(self: &Arc<Self>) -> PlannedSink {
        self.planned_with(Delivery::default())
    }

    pub(crate) fn planned_with(self: &Arc<Self>, delivery: Delivery) -> PlannedSink {
        PlannedSink {
            destination: self.clone(),
            delivery,
        }
    }

    pub(crate) fn be(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    pub(crate) fn arrived(&self) -> Vec<Event> {
        self.state.lock().unwrap().arrived.clone()
    }

    /// What arrived, without repetitions.
    pub(crate) fn distinct(&self) -> Vec<Event> {
        let mut seen = BTreeSet::new();
        let mut arrived = self.arrived();
        arrived.retain(|event| seen.insert(event.id.clone()));
        arrived
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.state.lock().unwrap().most_flying
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.distinct().into_iter().map(|event| event.id).collect()
    }

    async fn take(&self, events: &[Event]) -> Sent {
        let mood = self.state.lock().unwrap().mood.clone();
        if mood.panics {
            panic!("a destination that panics");
        }
        if !mood.takes.is_zero() {
            sleep(mood.takes).await;
        }
        if mood.hangs {
            std::future::pending::<()>().await;
        }
        for (place, event) in events.iter().enumerate() {
            if mood.takes_at_most.is_some_and(|most| place >= most) {
                return Sent::first(place);
            }
            if mood.is_down || mood.failing.contains(&event.subject) {
                let failure = Failure::unavailable("out of order").retry_after(mood.retry_after);
                return Sent::failed(place, failure);
            }
            if refuses(&mood, &event.id) {
                return Sent::failed(place, Failure::refused("not wanted"));
            }
            self.state.lock().unwrap().arrived.push(event.clone());
            if mood.lies {
                return Sent::failed(place, Failure::unavailable("the answer got lost"));
            }
        }
        Sent::all(events)
    }
}

pub(crate) fn refuses(mood: &Mood, id: &str) -> bool {
    let hash = id.bytes().fold(7u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    mood.refuses.is_some_and(|n| hash % n == 0)
}

/// Notes that a call is over, also if it is dropped.
struct Flight<'a> {
    recorder: &'a Recorder,
    lanes: Vec<String>,
}

impl<'a> Flight<'a> {
    fn begin(recorder: &'a Recorder, events: &[Event]) -> Self {
        let state = &mut *recorder.state.lock().unwrap();
        let lanes: BTreeSet<String> = events.iter().map(|event| event.lane.clone()).collect();
        for lane in &lanes {
            assert!(
                !state.flying.contains(lane),
                "lane {lane} is in two calls at once"
            );
        }
        let lanes: Vec<String> = lanes.into_iter().collect();
        state.flying.extend(lanes.iter().cloned());
        state.n_flying += 1;
        state.most_flying = state.most_flying.max(state.n_flying);
        let ids = events.iter().map(|event| event.id.clone()).collect();
        state.calls.push(Call {
            at: Instant::now(),
            ids,
        });
        Self { recorder, lanes }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let state = &mut *self.recorder.state.lock().unwrap();
        state.flying.retain(|lane| !self.lanes.contains(lane));
        state.n_flying -= 1;
    }
}

impl Destination for Recorder {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        assert!(events.len() <= self.max_batch, "too many events in one call");
        Box::pin(async move {
            let _flight = Flight::begin(self, events);
            self.take(events).await
        })
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}
