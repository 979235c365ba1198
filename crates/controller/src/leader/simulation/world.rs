//! Replicas whose clocks run at different speeds, a lease, and a network in between that delays and loses.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::leader::LeaderConfig;
use crate::leader::election::{Effect, Election, Input, Now, Report};
use crate::leader::lease::Lease;

/// Time as nobody in the world knows it, in microseconds.
type Time = u64;

const SECOND: Time = 1_000_000;
/// How long the world is bad, and how long it is good afterwards.
const STORM: Time = 300 * SECOND;
const CALM: Time = 120 * SECOND;
/// Slack for the conversion between clocks.
const ROUNDING: Time = 4;

/// How much faster the fastest clock may run than the slowest.
pub(super) struct Speeds {
    pub(super) most: f64,
}

pub(super) struct World {
    config: LeaderConfig,
    speeds: Speeds,
    rng: fastrand::Rng,
    origin: Instant,
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    n_events: u64,
    lease: Option<Value>,
    version: u64,
    replicas: Vec<Replica>,
    n_started: u64,
    last_epoch: Option<u64>,
    n_terms: usize,
}

struct Replica {
    number: u64,
    election: Election,
    speed: f64,
    /// What its clock showed when the world began.
    offset: Time,
    paused_until: Time,
    /// The time for which its next wake-up is planned.
    wakes_at: Option<Time>,
    /// The request under way.
    request: Option<u64>,
    /// It leads until then.
    leads_until: Option<Time>,
}

enum Event {
    Wake {
        number: u64,
    },
    Arrive {
        number: u64,
        request: u64,
        effect: Effect,
    },
    Answer {
        number: u64,
        request: u64,
        input: Input,
    },
    Timeout {
        number: u64,
        request: u64,
        input: Input,
    },
    /// Something happens to a replica.
    Blow,
}

impl World {
    pub(super) fn new(config: LeaderConfig, speeds: Speeds, seed: u64) -> Self {
        let mut world = Self {
            config,
            speeds,
            rng: fastrand::Rng::with_seed(seed),
            origin: Instant::now(),
            now: 0,
            events: BTreeMap::new(),
            n_events: 0,
            lease: None,
            version: 0,
            replicas: Vec::new(),
            n_started: 0,
            last_epoch: None,
            n_terms: 0,
        };
        for _ in 0..world.rng.usize(2..=4) {
            let replica = world.start_replica();
            world.replicas.push(replica);
        }
        world.plan(SECOND, Event::Blow);
        world
    }

    /// Runs to the end, and says how many terms there were.
    pub(super) fn run(mut self) -> Result<usize, String> {
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > STORM + CALM {
                break;
            }
            self.now = time;
            self.happen(event)?;
        }
        let leaders = self
            .replicas
            .iter()
            .filter(|replica| replica.leads_until.is_some())
            .count();
        match leaders {
            1 => Ok(self.n_terms),
            n => Err(format!("{n} leaders at the end of a calm time")),
        }
    }

    fn start_replica(&mut self) -> Replica {
        self.n_started += 1;
        let number = self.n_started;
        let speed = match self.rng.u8(..3) {
            0 => 1.0,
            1 => self.speeds.most,
            _ => 1.0 + (self.speeds.most - 1.0) * self.rng.f64(),
        };
        let config = LeaderConfig {
            // Some forget that names must differ.
            identity: if self.rng.u8(..10) == 0 {
                "same".to_owned()
            } else {
                format!("replica-{number}")
            },
            ..self.config.clone()
        };
        let offset = self.rng.u64(..1000 * SECOND);
        let now = self.local(speed, offset);
        let rng = fastrand::Rng::with_seed(self.rng.u64(..));
        let delay = self.rng.u64(..SECOND);
        self.plan(delay, Event::Wake { number });
        Replica {
            number,
            election: Election::new(config, rng, now),
            speed,
            offset,
            paused_until: 0,
            wakes_at: None,
            request: None,
            leads_until: None,
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Blow => {
                self.blow();
                Ok(())
            }
            Event::Arrive {
                number,
                request,
                effect,
            } => {
                let input = self.serve(&effect);
                let delay = self.delay();
                if let Some(delay) = delay {
                    self.plan(
                        delay,
                        Event::Answer {
                            number,
                            request,
                            input,
                        },
                    );
                }
                Ok(())
            }
            Event::Wake { number } => self.deliver(number, None, |_| Event::Wake { number }, Input::Tick),
            Event::Answer {
                number,
                request,
                input,
            } => {
                let again = |input| Event::Answer {
                    number,
                    request,
                    input,
                };
                self.deliver(number, Some(request), again, input)
            }
            Event::Timeout {
                number,
                request,
                input,
            } => {
                let again = |input| Event::Timeout {
                    number,
                    request,
                    input,
                };
                self.deliver(number, Some(request), again, input)
            }
        }
    }

    /// Gives a replica an input, unless it is gone, no longer waits for it, or is paused: then later.
    fn deliver(
        &mut self,
        number: u64,
        request: Option<u64>,
        again: impl FnOnce(Input) -> Event,
        input: Input,
    ) -> Result<(), String> {
        let Some(at) = self.replicas.iter().position(|replica| replica.number == number) else {
            return Ok(());
        };
        let replica = &self.replicas[at];
        if replica.paused_until > self.now {
            self.plan(replica.paused_until - self.now, again(input));
            return Ok(());
        }
        if request.is_some() && request != replica.request {
            return Ok(());
        }
        let now = self.local(replica.speed, replica.offset);
        let replica = &mut self.replicas[at];
        match request {
            Some(_) => replica.request = None,
            None => replica.wakes_at = None,
        }
        let effects = replica.election.step(input, now);
        for effect in effects {
            self.perform(at, effect)?;
        }
        let replica = &self.replicas[at];
        if let Some(wake) = replica.election.wake_at() {
            let time = self.global(replica, wake).max(self.now + 1);
            if replica.wakes_at.is_none_or(|planned| time < planned) {
                self.replicas[at].wakes_at = Some(time);
                self.plan(time - self.now, Event::Wake { number });
            }
        }
        Ok(())
    }

    fn perform(&mut self, at: usize, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Read { by } => self.send(at, by, Effect::Read { by }, Input::ReadFailed),
            Effect::Write { by, .. } => self.send(at, by, effect, Input::WriteFailed),
            Effect::Lead { until, .. } => return self.lead(at, until),
            Effect::Stop { .. } => self.replicas[at].leads_until = None,
            Effect::Report(Report::Began { epoch }) => {
                self.n_terms += 1;
                if self.last_epoch.is_some_and(|last| last >= epoch) {
                    return Err(format!("epoch {epoch} after {:?}", self.last_epoch));
                }
                self.last_epoch = Some(epoch);
            }
            Effect::Report(_) => {}
        }
        Ok(())
    }

    fn lead(&mut self, at: usize, until: Instant) -> Result<(), String> {
        let until = self.global(&self.replicas[at], until);
        let (now, me) = (self.now, self.replicas[at].number);
        let other = self.replicas.iter().find(|other| {
            other.number != me && other.leads_until.is_some_and(|until| until > now + ROUNDING)
        });
        if let Some(other) = other {
            return Err(format!(
                "at {now} µs replica {me} leads, and {} leads too",
                other.number
            ));
        }
        self.replicas[at].leads_until = Some(until);
        Ok(())
    }

    fn send(&mut self, at: usize, by: Instant, effect: Effect, late: Input) {
        let request = self.n_events;
        let replica = &mut self.replicas[at];
        replica.request = Some(request);
        let number = replica.number;
        let timeout = self.global(&self.replicas[at], by).max(self.now);
        self.plan(
            timeout - self.now,
            Event::Timeout {
                number,
                request,
                input: late,
            },
        );
        if let Some(delay) = self.delay() {
            self.plan(
                delay,
                Event::Arrive {
                    number,
                    request,
                    effect,
                },
            );
        }
    }

    /// The server.
    fn serve(&mut self, effect: &Effect) -> Input {
        let fails = self.is_storm() && self.rng.u8(..20) == 0;
        match effect {
            Effect::Read { .. } if fails => Input::ReadFailed,
            Effect::Read { .. } => Input::Read(self.lease.clone().map(Lease::read)),
            Effect::Write { object, is_new, .. } => {
                let expected = (!is_new).then(|| &object["metadata"]["resourceVersion"]);
                let there = self
                    .lease
                    .as_ref()
                    .map(|lease| &lease["metadata"]["resourceVersion"]);
                if expected != there {
                    return Input::Conflict;
                }
                if fails && self.rng.bool() {
                    return Input::WriteFailed;
                }
                self.version += 1;
                let mut object = object.clone();
                object["metadata"]["resourceVersion"] = json!(self.version.to_string());
                self.lease = Some(object.clone());
                match fails {
                    true => Input::WriteFailed,
                    false => Input::Written(Lease::read(object)),
                }
            }
            other => unreachable!("{other:?} is no request"),
        }
    }

    /// How long a message takes; `None` if it gets lost.
    fn delay(&mut self) -> Option<Time> {
        if !self.is_storm() {
            return Some(self.rng.u64(1000..20_000));
        }
        match self.rng.u8(..20) {
            0 | 1 => None,
            2 => Some(self.rng.u64(..30 * SECOND)),
            3 | 4 => Some(self.rng.u64(..4 * SECOND)),
            _ => Some(self.rng.u64(100..50_000)),
        }
    }

    /// Pauses a replica, kills it and starts another one, or lets it go in peace.
    fn blow(&mut self) {
        if !self.is_storm() {
            return;
        }
        let at = self.rng.usize(..self.replicas.len());
        match self.rng.u8(..4) {
            0 => {
                let replica = self.start_replica();
                self.replicas[at] = replica;
            }
            1 => {
                self.release(at);
                let replica = self.start_replica();
                self.replicas[at] = replica;
            }
            _ => self.replicas[at].paused_until = self.now + self.rng.u64(..40 * SECOND),
        }
        let next = self.rng.u64(SECOND..30 * SECOND);
        self.plan(next, Event::Blow);
    }

    fn release(&mut self, at: usize) {
        let Some(lease) = self.lease.clone().map(Lease::read) else {
            return;
        };
        let now = self.local(self.replicas[at].speed, self.replicas[at].offset);
        let replica = &mut self.replicas[at];
        replica.election.resign();
        let Some(object) = replica.election.release(&lease, now) else {
            return;
        };
        let (number, by) = (replica.number, now.instant);
        let effect = Effect::Write {
            object,
            is_new: false,
            by,
        };
        if let Some(delay) = self.delay() {
            let request = self.n_events;
            self.plan(
                delay,
                Event::Arrive {
                    number,
                    request,
                    effect,
                },
            );
        }
    }

    fn is_storm(&self) -> bool {
        self.now < STORM
    }

    fn plan(&mut self, delay: Time, event: Event) {
        self.n_events += 1;
        self.events.insert((self.now + delay, self.n_events), event);
    }

    /// What a clock shows. The wall clocks of the replicas are all wrong by hours.
    fn local(&self, speed: f64, offset: Time) -> Now {
        let shown = Duration::from_micros((self.now as f64 * speed) as u64 + offset);
        let wall = jiff::Timestamp::from_microsecond((offset * 20 + self.now) as i64);
        Now {
            instant: self.origin + shown,
            wall: wall.expect("not long after 1970"),
        }
    }

    /// When a clock shows it.
    fn global(&self, replica: &Replica, shown: Instant) -> Time {
        let elapsed = (shown - self.origin).as_micros() as u64;
        let since = elapsed.saturating_sub(replica.offset);
        (since as f64 / replica.speed).ceil() as u64
    }
}
