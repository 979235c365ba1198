//! One rule looks at changes, inside one transaction.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use skopos_api::Existing as Policy;
use skopos_journal::{Entry, Observed, TRACE_TARGET};
use skopos_object::Op;
use tracing::Level;

use crate::rule::{Admission, Budget, LoopGuard, Subject};

use crate::delivery::{
    Error, Evaluated, Outcome, PlannedRule,
    entries::{existed, existing, lane, object_id},
    lanes::RouteId,
    store::{Cause, Cursor, Due, Existing, Kept, NewRow, RouteRecord, RuleRecord, Tables},
};

/// A rule at work. Made from what is known of it, and given back changed once the transaction is committed.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) planned: Arc<PlannedRule>,
    pub(super) record: RuleRecord,
    pub(super) guards: Guards,
    pub(super) now: Timestamp,
    /// Nothing is due before this; nothing at all if it is not known.
    pub(super) next_timer: Option<Timestamp>,
    /// Set when the rule may do no more for now.
    pub(super) stop: Option<Stop>,
    /// Routes that got deliveries.
    pub(super) touched: BTreeSet<(String, RouteId)>,
    routes: BTreeMap<String, RouteRecord>,
}

/// What keeps a rule from doing too much. Begun anew at each start.
#[derive(Debug, Default)]
pub(super) struct Guards {
    budget: Option<Budget>,
    loops: Option<LoopGuard>,
}

/// Why a rule stops in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has used its minute and goes on then.
    Until(Timestamp),
    /// It did more than it may, and someone must say to go on.
    Suspended,
}

/// A state that is looked at.
struct Seen<'a> {
    entry: &'a Entry,
    object: &'a str,
    cause: Cause,
    kept: Option<Kept>,
}

/// Changes that timers are about, by number.
pub(super) type States = HashMap<u64, Entry>;

impl Job {
    pub(super) fn new(
        name: String,
        planned: Arc<PlannedRule>,
        record: RuleRecord,
        guards: Guards,
        now: Timestamp,
        next_timer: Option<Timestamp>,
    ) -> Self {
        Self {
            name,
            planned,
            record,
            guards,
            now,
            next_timer,
            stop: None,
            touched: BTreeSet::new(),
            routes: BTreeMap::new(),
        }
    }

    /// Looks at changes in order; all up to `up_to` have been read.
    pub(super) fn look_at(
        &mut self,
        tables: &mut Tables<'_>,
        subjects: &[Subject<'_>],
        states: &States,
        up_to: u64,
    ) -> Result<(), Error> {
        let end = self
            .record
            .replay
            .as_ref()
            .map_or(up_to, |replayed| replayed.to.min(up_to));
        for (place, subject) in subjects.iter().enumerate() {
            let entry = subject.entry();
            if entry.seq.0 <= self.record.position || entry.seq.0 > end {
                continue;
            }
            let earlier = subjects[..place].iter().map(Subject::entry);
            let state = |seq: u64| {
                states
                    .get(&seq)
                    .or_else(|| earlier.clone().find(|e| e.seq.0 == seq))
            };
            if !self.look(tables, subject, state)? {
                self.record.position = entry.seq.0 - 1;
                return self.save(tables);
            }
            self.record.position = entry.seq.0;
            self.record.looked_at = entry.at.as_millisecond();
        }
        self.record.position = end.max(self.record.position);
        if let Existing::Recognizing { until } = self.record.existing
            && self.record.position >= until
            && !tables.forget_told(self.record.id)?
        {
            self.record.existing = Existing::Done;
        }
        self.save(tables)
    }

    /// Looks at one change. False if the rule may do no more for now.
    fn look<'s>(
        &mut self,
        tables: &mut Tables<'_>,
        subject: &Subject<'_>,
        state: impl Fn(u64) -> Option<&'s Entry>,
    ) -> Result<bool, Error> {
        let entry = subject.entry();
        let object = object_id(entry);
        if !self.recognize(tables, entry, &object)? {
            return Ok(false);
        }
        let mut kept = self.kept(tables, &object)?;
        // Time passes with the changes: what was due before this one comes first, however late all this is read.
        if let Some(wake_at) = kept.as_ref().and_then(|kept| kept.wake_at)
            && wake_at <= entry.at
        {
            let seq = kept.as_ref().map_or(0, |kept| kept.seq);
            if !self.wake(tables, &object, kept.clone(), wake_at, state(seq))? {
                return Ok(false);
            }
            kept = self.kept(tables, &object)?;
        }
        let edge = kept.as_ref().and_then(|kept| kept.edge.as_deref());
        let evaluator = &self.planned.evaluator;
        let is_listed = entry.observed == Observed::First && self.planned.existing == Policy::Ignore;
        let was_there = is_listed && !self.is_news(entry);
        let said = guard(|| match was_there {
            true => evaluator.observe(subject, edge, entry.at),
            false => evaluator.evaluate(subject, edge, entry.at),
        });
        let seen = Seen {
            entry,
            object: &object,
            cause: Cause::Change,
            kept,
        };
        self.apply(tables, &seen, said)
    }

    /// Whether an object that the first list of its kind showed was made after the rule.
    fn is_news(&self, entry: &Entry) -> bool {
        let object = entry.after.as_ref();
        let created = object.and_then(|object| object.get(&["metadata", "creationTimestamp"]));
        let created = created.and_then(|at| at.as_str()?.parse::<Timestamp>().ok());
        let introduced = self.record.introduced;
        let introduced = introduced.and_then(|at| Timestamp::from_millisecond(at).ok());
        match (created, self.planned.since.or(introduced)) {
            // To the second, as the server has it: what was made in the same one counts, since nothing may be missed.
            (Some(created), Some(since)) => created.as_second() >= since.as_second(),
            _ => false,
        }
    }

    /// An object that was there before the rule and changed before it was told is told first, as it was.
    fn recognize(&mut self, tables: &mut Tables<'_>, entry: &Entry, object: &str) -> Result<bool, Error> {
        match self.record.existing {
            Existing::Recognizing { until } if entry.seq.0 <= until => {}
            _ => return Ok(true),
        }
        if tables.is_told(self.record.id, object)? {
            return Ok(true);
        }
        if entry.op != Op::Created
            && let Some(before) = existed(entry.clone())
            && !self.tell(tables, &before, object, Cause::Before)?
        {
            return Ok(false);
        }
        tables.tell(self.record.id, object)?;
        Ok(true)
    }

    /// Goes on with objects that were there before the rule; `is_last`: there are no more after these.
    pub(super) fn tell_existing(
        &mut self,
        tables: &mut Tables<'_>,
        entries: &[Entry],
        is_last: bool,
        head: u64,
    ) -> Result<(), Error> {
        let is_quiet = matches!(self.record.existing, Existing::Observing { .. });
        for entry in entries {
            // What changed since the rule was made is told by its changes.
            if entry.seq.0 <= self.record.position {
                let object = object_id(entry);
                let created = existing(entry.clone());
                if entry.after.is_none() {
                    self.miss(entry);
                } else if is_quiet {
                    self.remember(tables, &created, &object)?;
                } else if self.tell(tables, &created, &object, Cause::Existing)? {
                    tables.tell(self.record.id, &object)?;
                } else {
                    return self.save(tables);
                }
            }
            let after = Some(Cursor::from(&entry.key));
            self.record.existing = match is_quiet {
                true => Existing::Observing { after },
                false => Existing::Telling { after },
            };
        }
        if is_last {
            self.record.existing = match is_quiet {
                true => Existing::Done,
                false => Existing::Recognizing { until: head },
            };
        }
        self.save(tables)
    }

    /// The last state of an object is damaged. Nothing can be told of it, and that is not hidden.
    fn miss(&mut self, entry: &Entry) {
        if self.planned.evaluator.may_concern(entry) {
            self.record.missed += 1;
            self.record.last_error = format!("the last state of {}/{} is damaged", entry.plural, entry.key);
        }
    }

    /// What is true of an object already is known from now on, and since when.
    fn remember(&mut self, tables: &mut Tables<'_>, entry: &Entry, object: &str) -> Result<(), Error> {
        let evaluator = &self.planned.evaluator;
        let said = guard(|| evaluator.observe(&Subject::new(entry), None, entry.at));
        let seen = Seen {
            entry,
            object,
            cause: Cause::Existing,
            kept: self.kept(tables, object)?,
        };
        self.apply(tables, &seen, said).map(drop)
    }

    fn tell(
        &mut self,
        tables: &mut Tables<'_>,
        entry: &Entry,
        object: &str,
        cause: Cause,
    ) -> Result<bool, Error> {
        let said = guard(|| {
            self.planned
                .evaluator
                .evaluate(&Subject::new(entry), None, entry.at)
        });
        let kept = self.kept(tables, object)?;
        let seen = Seen {
            entry,
            object,
            cause,
            kept,
        };
        self.apply(tables, &seen, said)
    }

    /// Timers whose time has come.
    pub(super) fn wake_all(
        &mut self,
        tables: &mut Tables<'_>,
        due: &[Due],
        states: &States,
    ) -> Result<(), Error> {
        for timer in due {
            let kept = self.kept(tables, &timer.object)?;
            let state = states.get(&timer.seq);
            if !self.wake(tables, &timer.object, kept, timer.wake_at, state)? {
                break;
            }
        }
        self.save(tables)
    }

    fn wake(
        &mut self,
        tables: &mut Tables<'_>,
        object: &str,
        kept: Option<Kept>,
        at: Timestamp,
        state: Option<&Entry>,
    ) -> Result<bool, Error> {
        // The journal may have gone back since, and count other changes by the same numbers.
        let Some(entry) = state.filter(|entry| object_id(entry) == object) else {
            self.record.failed += 1;
            self.record.last_error =
                format!("the state of {object} that a timer waits for is no longer kept");
            let rest = kept.as_ref().map(|kept| Kept {
                wake_at: None,
                ..kept.clone()
            });
            tables.keep(self.record.id, object, kept.as_ref(), rest.as_ref())?;
            return Ok(true);
        };
        let edge = kept.as_ref().and_then(|kept| kept.edge.as_deref());
        let said = guard(|| self.planned.evaluator.wake(&Subject::new(entry), edge, at));
        let seen = Seen {
            entry,
            object,
            cause: Cause::Held,
            kept,
        };
        self.apply(tables, &seen, said)
    }

    fn apply(&mut self, tables: &mut Tables<'_>, seen: &Seen<'_>, said: Evaluated) -> Result<bool, Error> {
        match &said.outcome {
            Outcome::Match => {
                if !self.may_act(seen) {
                    return Ok(false);
                }
                self.record.matched += 1;
                self.enqueue(tables, seen)?;
                self.trace(seen);
            }
            Outcome::Failed(error) => {
                self.record.failed += 1;
                self.record.last_error = format!("change {}: {error}", seen.entry.seq);
            }
            Outcome::Skip => {}
        }
        if !self.planned.evaluator.remembers() {
            return Ok(true);
        }
        let is_gone = seen.cause == Cause::Change && seen.entry.op == Op::Deleted;
        let has_more = said.edge.is_some() || said.wake_at.is_some();
        let kept = (has_more && !is_gone).then(|| Kept {
            edge: said.edge,
            wake_at: said.wake_at.map(whole_milliseconds),
            seq: seen.entry.seq.0,
        });
        if let Some(wake_at) = kept.as_ref().and_then(|kept| kept.wake_at) {
            self.next_timer = Some(self.next_timer.map_or(wake_at, |next| next.min(wake_at)));
        }
        tables.keep(self.record.id, seen.object, seen.kept.as_ref(), kept.as_ref())?;
        Ok(true)
    }

    /// Shows the match as a part of the change's trace, if someone wants to see it.
    fn trace(&self, seen: &Seen<'_>) {
        if !tracing::enabled!(target: TRACE_TARGET, Level::DEBUG) {
            return;
        }
        let entry = seen.entry;
        let change = entry.id();
        let trace = change.trace_id();
        let span = tracing::debug_span!(
            target: TRACE_TARGET,
            parent: None,
            "match",
            trace_id = %trace,
            span_id = %trace.matched(&self.name, seen.cause.name()),
            parent_span_id = %trace.capture(),
            change.id = %change,
            rule = self.name,
            cause = seen.cause.name(),
            object.kind = entry.kind.kind,
            object.namespace = entry.key.namespace,
            object.name = entry.key.name,
            seq = entry.seq.0,
            observed_at = %entry.at,
        );
        let match_ms = self.now.duration_since(entry.at).as_millis_f64();
        tracing::debug!(target: TRACE_TARGET, parent: &span, match_ms, "matched");
    }

    /// Whether the rule may do one more thing.
    fn may_act(&mut self, seen: &Seen<'_>) -> bool {
        if self.record.replay.is_some() {
            return true;
        }
        // First, because what has to wait is looked at again, and is one match all the same.
        let admission = self.guards.budget.as_mut().map(|budget| budget.take(self.now));
        match admission {
            None | Some(Admission::Go) => {}
            Some(Admission::At(free_at)) => {
                self.stop = Some(Stop::Until(free_at));
                return false;
            }
            Some(Admission::Suspend) => {
                let limits = self.planned.limits.as_ref();
                let most = limits.map_or(0, |limits| limits.max_actions_per_minute);
                return self.suspend(format!("more than {most} matches in a minute"));
            }
        }
        // What was there before is no change, whoever wrote it.
        let is_change = matches!(seen.cause, Cause::Change | Cause::Held);
        let loops = self.guards.loops.as_mut().filter(|_| is_change);
        let reason = loops.and_then(|loops| loops.note(&self.name, seen.entry));
        reason.is_none_or(|reason| self.suspend(reason))
    }

    fn suspend(&mut self, reason: String) -> bool {
        self.record.suspended = Some(reason);
        self.stop = Some(Stop::Suspended);
        false
    }

    fn enqueue(&mut self, tables: &mut Tables<'_>, seen: &Seen<'_>) -> Result<(), Error> {
        if self.planned.dry_run {
            return Ok(());
        }
        let planned = self.planned.clone();
        for (action, sink) in planned.actions.iter().enumerate() {
            let row = NewRow {
                seq: seen.entry.seq.0,
                cause: seen.cause,
                action: u16::try_from(action).unwrap_or(u16::MAX),
                lane: lane(seen.entry),
                key: match seen.cause {
                    Cause::Existing | Cause::Held => seen.entry.key.to_string(),
                    Cause::Change | Cause::Before => String::new(),
                },
                needs: match seen.cause {
                    Cause::Existing => self.record.position + 1,
                    Cause::Change | Cause::Held | Cause::Before => seen.entry.seq.0,
                },
            };
            if !self.routes.contains_key(sink) {
                let route = tables.route(self.record.id, sink)?;
                self.routes.insert(sink.clone(), route);
            }
            let route = self.routes.get_mut(sink).expect("route present: loaded above");
            tables.enqueue(route, &row)?;
            self.touched.insert((sink.clone(), RouteId(route.id)));
        }
        Ok(())
    }

    fn kept(&self, tables: &Tables<'_>, object: &str) -> Result<Option<Kept>, Error> {
        match self.planned.evaluator.remembers() {
            true => tables.kept(self.record.id, object),
            false => Ok(None),
        }
    }

    fn save(&mut self, tables: &mut Tables<'_>) -> Result<(), Error> {
        for (sink, route) in std::mem::take(&mut self.routes) {
            tables.put_route(self.record.id, &sink, &route)?;
        }
        tables.put_rule(&self.name, &self.record)
    }
}

impl Guards {
    pub(super) fn new(planned: &PlannedRule) -> Self {
        Self {
            budget: planned.limits.as_ref().map(Budget::new),
            loops: planned.writes_objects.then(LoopGuard::default),
        }
    }
}

/// Never before the time that was asked for.
fn whole_milliseconds(at: Timestamp) -> Timestamp {
    let floor = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
    match floor < at {
        true => floor.saturating_add(SignedDuration::from_millis(1)).unwrap_or(at),
        false => at,
    }
}

/// A rule that panics has failed, and harms nobody else.
fn guard(evaluate: impl FnOnce() -> Evaluated) -> Evaluated {
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or_else(|_| Evaluated {
        outcome: Outcome::Failed("the rule panicked".into()),
        edge: None,
        wake_at: None,
    })
}
