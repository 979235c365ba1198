//! Who leads, decided from what was read and written and when. No IO, no clock.
//!
//! Why no two replicas lead at once: a replica claims the lease only over a version that it has seen unchanged for the
//! whole lease duration, and the server takes the claim only if that version is still there. The leader that wrote
//! that version counts its own, shorter time from before it sent the write. So it has stopped before any other may
//! begin, if the clocks of the two do not differ in speed by more than `lease_duration` to `renew_deadline`. What the
//! clocks show is never compared.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::LeaderConfig;
use super::lease::{Claim, Lease};

/// How many writes of unknown outcome are remembered. One that was forgotten and happened counts as somebody else's.
const MAX_ATTEMPTS: usize = 8;

/// One replica's part in the election.
#[derive(Debug)]
pub(super) struct Election {
    config: LeaderConfig,
    rng: fastrand::Rng,
    doing: Doing,
    /// What is known of the lease. `None`: nothing yet, or that there is none.
    lease: Option<Lease>,
    /// Whether `lease` is what this replica read or wrote last. Not after a write of unknown outcome.
    is_sure: bool,
    /// Until when somebody else may lead.
    held_until: Option<Instant>,
    term: Option<Term>,
    /// Writes that may have happened, oldest first; the first one may be the one that did last.
    attempts: Vec<Attempt>,
    /// The number of the newest term heard of, of anyone.
    highest_epoch: Option<u64>,
    last_renew_time: Timestamp,
    /// The last write met a conflict.
    had_conflict: bool,
    reported: Holder,
}

/// What the election waits for.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Resting { until: Instant },
    Asking { since: Instant },
}

/// This replica leads.
#[derive(Debug, Clone, Copy)]
struct Term {
    epoch: u64,
    until: Instant,
    acquire_time: Timestamp,
}

/// A write of this replica.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    start: Instant,
    epoch: u64,
    acquire_time: Timestamp,
    /// Tells this write from all others of this replica.
    renew_time: Timestamp,
}

/// Now, on both clocks. The wall clock is only ever written, never compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) wall: Timestamp,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Input {
    /// It is the time that [`Election::wake_at`] said.
    Tick,
    /// The answer to [`Effect::Read`]; `None` if there is no lease.
    Read(Option<Lease>),
    /// [`Effect::Read`] failed.
    ReadFailed,
    /// [`Effect::Write`] succeeded.
    Written(Lease),
    /// The server answered to [`Effect::Write`] that somebody was faster, or the lease is gone.
    Conflict,
    /// Nobody knows whether [`Effect::Write`] happened.
    WriteFailed,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// Read the lease, and answer [`Input::ReadFailed`] if that takes longer.
    Read {
        by: Instant,
    },
    /// Create the lease or replace the version that the object names; [`Input::WriteFailed`] if that takes longer.
    Write {
        object: Value,
        is_new: bool,
        by: Instant,
    },
    /// Lead until then.
    Lead {
        until: Instant,
        epoch: u64,
    },
    /// Lead no longer.
    Stop {
        epoch: u64,
        why: Loss,
    },
    Report(Report),
}

/// What is worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Holder(Holder),
    Began { epoch: u64 },
    SlowRenewal { took: Duration },
}

/// Why a leader leads no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// It could not renew the lease in time.
    Expired,
    /// The lease has another holder, or none.
    Taken,
    Resigned,
}

/// Who holds the lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// The holder's identity, empty if there is none. It may have stopped without telling.
    pub identity: String,
    /// The number of its term.
    pub epoch: u64,
}

impl Election {
    pub(super) fn new(config: LeaderConfig, rng: fastrand::Rng, now: Now) -> Self {
        Self {
            config,
            rng,
            doing: Doing::Resting { until: now.instant },
            lease: None,
            is_sure: false,
            held_until: None,
            term: None,
            attempts: Vec::new(),
            highest_epoch: None,
            last_renew_time: Timestamp::MIN,
            had_conflict: false,
            reported: Holder::default(),
        }
    }

    /// When to come back with [`Input::Tick`], if nothing else happens.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let end = self.term.map(|term| term.until);
        match self.doing {
            Doing::Resting { until } => Some(end.map_or(until, |end| end.min(until))),
            Doing::Asking { .. } => end,
        }
    }

    pub(super) fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.term.is_some_and(|term| term.until <= now.instant) {
            self.stop(Loss::Expired, &mut effects);
        }
        match input {
            Input::Tick => match self.doing {
                Doing::Resting { until } if until <= now.instant => self.act(now, &mut effects),
                _ => {}
            },
            Input::Read(lease) => {
                self.observe(lease, now, &mut effects);
                self.decide(now, &mut effects);
            }
            Input::Written(lease) => self.written(lease, now, &mut effects),
            Input::Conflict => {
                self.is_sure = false;
                // At once, for somebody moved on; but a server that says so again and again is left alone.
                match self.had_conflict {
                    true => self.rest(now),
                    false => self.read(now, &mut effects),
                }
                self.had_conflict = !self.had_conflict;
            }
            Input::WriteFailed => {
                self.is_sure = false;
                self.rest(now);
            }
            Input::ReadFailed => self.rest(now),
        }
        effects
    }

    /// Ends the term for good.
    pub(super) fn resign(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.stop(Loss::Resigned, &mut effects);
        effects
    }

    /// The object that gives the lease back, if this very replica holds it.
    pub(super) fn release(&self, lease: &Lease, now: Now) -> Option<Value> {
        self.attempt_of(lease)?;
        let claim = Claim {
            holder: "",
            duration: Duration::from_secs(1),
            acquire_time: now.wall,
            renew_time: now.wall,
            transitions: lease.transitions,
        };
        Some(claim.replace(lease))
    }

    /// Whether the lease may name this replica.
    pub(super) fn may_hold(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// The pause is over.
    fn act(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_over = self.held_until.is_some_and(|until| until <= now.instant);
        match self.term {
            Some(term) if self.is_sure => self.write(term.epoch, term.acquire_time, now, effects),
            // Over the version seen last: whoever renewed in between wins.
            None if self.is_sure && is_over => self.claim(now, effects),
            _ => self.read(now, effects),
        }
    }

    /// Takes note of the lease as it was just read.
    fn observe(&mut self, lease: Option<Lease>, now: Now, effects: &mut Vec<Effect>) {
        let is_news = self.lease != lease;
        self.is_sure = true;
        self.lease = lease;
        let Some(lease) = &self.lease else {
            // Somebody deleted it. That ends nobody's term: `held_until` stays.
            return;
        };
        self.highest_epoch = self.highest_epoch.max(Some(lease.transitions));
        if lease.holder.is_empty() || self.attempt_of(lease).is_some() {
            self.held_until = None;
        } else if is_news || self.held_until.is_none() {
            let duration = lease.duration.unwrap_or(self.config.lease_duration);
            self.held_until = Some(now.instant + duration);
        }
        self.report_holder(effects);
    }

    /// Says what to do about the lease as it was just read.
    fn decide(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(lease) = &self.lease else {
            return match self.term {
                Some(term) => self.write(term.epoch, term.acquire_time, now, effects),
                None => self.claim_unless_held(now, effects),
            };
        };
        match (self.attempt_of(lease), self.term) {
            (Some(attempt), Some(term)) if attempt.epoch == term.epoch => self.go_on(attempt, now, effects),
            (Some(attempt), None) if self.begins_term(attempt, now) => self.go_on(attempt, now, effects),
            (_, Some(_)) => {
                self.stop(Loss::Taken, effects);
                self.claim_unless_held(now, effects);
            }
            (_, None) => self.claim_unless_held(now, effects),
        }
    }

    /// Whether a claim turned out to have happened, still in time. The late renewal of a term that is over begins none.
    fn begins_term(&self, attempt: Attempt, now: Now) -> bool {
        let is_claim = attempt.acquire_time == attempt.renew_time;
        is_claim && now.instant < attempt.start + self.config.renew_deadline
    }

    /// The lease is ours: `attempt` made it so.
    fn go_on(&mut self, attempt: Attempt, now: Now, effects: &mut Vec<Effect>) {
        let is_newest = self
            .attempts
            .last()
            .is_some_and(|last| last.renew_time == attempt.renew_time);
        self.lead(attempt, now, effects);
        match is_newest {
            true => self.rest(now),
            // What was sent after it did not happen.
            false => self.write(attempt.epoch, attempt.acquire_time, now, effects),
        }
    }

    fn claim_unless_held(&mut self, now: Now, effects: &mut Vec<Effect>) {
        match self.held_until {
            Some(until) if now.instant < until => self.rest(now),
            _ => self.claim(now, effects),
        }
    }

    /// Begins a new term, if the server agrees.
    fn claim(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let epoch = self.highest_epoch.map_or(0, |highest| highest + 1);
        let acquire_time = self.next_renew_time(now);
        self.write(epoch, acquire_time, now, effects);
    }

    /// Writes the lease over the version seen last. Without an acquire time before, the write is a claim.
    fn write(&mut self, epoch: u64, acquire_time: Timestamp, now: Now, effects: &mut Vec<Effect>) {
        let renew_time = self.next_renew_time(now).max(acquire_time);
        self.last_renew_time = renew_time;
        let attempt = Attempt {
            start: now.instant,
            epoch,
            acquire_time,
            renew_time,
        };
        if self.attempts.len() == MAX_ATTEMPTS {
            // Not the first, which may be what the server has.
            self.attempts.remove(1);
        }
        self.attempts.push(attempt);
        let claim = Claim {
            holder: &self.config.identity,
            duration: self.config.lease_duration,
            acquire_time,
            renew_time,
            transitions: epoch,
        };
        let object = match &self.lease {
            Some(lease) => claim.replace(lease),
            None => claim.create(&self.config.namespace, &self.config.name),
        };
        effects.push(Effect::Write {
            object,
            is_new: self.lease.is_none(),
            by: self.request_deadline(now),
        });
        self.doing = Doing::Asking { since: now.instant };
    }

    fn written(&mut self, lease: Lease, now: Now, effects: &mut Vec<Effect>) {
        self.had_conflict = false;
        let attempt = self.attempts.last().copied();
        self.observe(Some(lease), now, effects);
        let Some(attempt) = attempt else {
            return self.rest(now);
        };
        let took = now.instant - attempt.start;
        if took > self.config.retry_period {
            effects.push(Effect::Report(Report::SlowRenewal { took }));
        }
        let is_own_term = self.term.is_none_or(|term| term.epoch == attempt.epoch);
        let is_in_time = took < self.config.renew_deadline;
        if is_own_term && is_in_time && (self.term.is_some() || self.begins_term(attempt, now)) {
            self.lead(attempt, now, effects);
        }
        self.rest(now);
        if self.term.is_none() {
            // It took too long. Look what became of it.
            self.is_sure = false;
        }
    }

    /// Leads, or goes on leading, by the right of a write that happened.
    fn lead(&mut self, attempt: Attempt, now: Now, effects: &mut Vec<Effect>) {
        let until = attempt.start + self.config.renew_deadline;
        // What was sent before it can no longer happen: its version is gone.
        self.attempts
            .retain(|other| other.renew_time >= attempt.renew_time);
        if until <= now.instant {
            return;
        }
        let is_new = self.term.is_none();
        self.term = Some(Term {
            epoch: attempt.epoch,
            until: self.term.map_or(until, |term| term.until.max(until)),
            acquire_time: attempt.acquire_time,
        });
        if is_new {
            effects.push(Effect::Report(Report::Began { epoch: attempt.epoch }));
        }
        let epoch = attempt.epoch;
        effects.push(Effect::Lead { until, epoch });
    }

    fn stop(&mut self, why: Loss, effects: &mut Vec<Effect>) {
        if let Some(term) = self.term.take() {
            effects.push(Effect::Stop {
                epoch: term.epoch,
                why,
            });
        }
    }

    fn read(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.doing = Doing::Asking { since: now.instant };
        effects.push(Effect::Read {
            by: self.request_deadline(now),
        });
    }

    /// Pauses for a period and a little more since the last request was sent, so that one that was slow to fail leaves
    /// time for another; but not beyond the end of another's lease.
    fn rest(&mut self, now: Now) {
        let period = self.config.retry_period;
        let pause = period + period.mul_f64(0.2 * self.rng.f64());
        let since = match self.doing {
            Doing::Asking { since } => since,
            Doing::Resting { .. } => now.instant,
        };
        let next = (since + pause).max(now.instant + pause / 10);
        let until = match self.held_until {
            Some(end) if self.is_sure && end > now.instant => end.min(next),
            _ => next,
        };
        self.doing = Doing::Resting { until };
    }

    /// Half the deadline, so that there is a second try; and not beyond the term, for which it would be too late.
    fn request_deadline(&self, now: Now) -> Instant {
        let by = now.instant + self.config.renew_deadline / 2;
        self.term.map_or(by, |term| term.until.min(by))
    }

    /// Always later than the one before, also if the wall clock was set back.
    fn next_renew_time(&self, now: Now) -> Timestamp {
        let microsecond = SignedDuration::from_micros(1);
        let next = self.last_renew_time.checked_add(microsecond).unwrap_or(now.wall);
        // To the microsecond, as it will come back.
        let wall = Timestamp::from_microsecond(now.wall.as_microsecond()).unwrap_or(now.wall);
        wall.max(next)
    }

    /// The write of this replica that made the lease what it is.
    fn attempt_of(&self, lease: &Lease) -> Option<Attempt> {
        if lease.holder != self.config.identity {
            return None;
        }
        let mut attempts = self.attempts.iter().rev();
        attempts
            .find(|attempt| {
                Some(attempt.renew_time) == lease.renew_time && attempt.epoch == lease.transitions
            })
            .copied()
    }

    fn report_holder(&mut self, effects: &mut Vec<Effect>) {
        let Some(lease) = &self.lease else { return };
        let holder = Holder {
            identity: lease.holder.clone(),
            epoch: lease.transitions,
        };
        if holder != self.reported {
            self.reported = holder.clone();
            effects.push(Effect::Report(Report::Holder(holder)));
        }
    }
}
