//! The turns: reading a batch, telling existing objects, firing timers.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use redb::ReadTransaction;
use skopos_journal::{Entry, ReadError, Seq, Wanted};
use skopos_object::ObjectKey;
use tokio::time::Instant;

use super::{
    BATCH, BATCH_BYTES, FEW, HOLDS_EVERY, Job, Looked, Looker, MAX_RESTS, PAUSE, common, job::States,
};
use crate::rule::Subject;

use crate::delivery::{
    Error,
    entries::object_id,
    store::{Due, Existing, Tables, due, first_timer, oldest_timer, timers_of},
};

impl Looker {
    /// Lets rules at the same position look at the next changes, up to `next`.
    pub(super) async fn read(&mut self, names: Vec<String>, next: u64) -> Result<bool, Error> {
        let after = self.rules[&names[0]].record.position;
        let wanted = common(
            names
                .iter()
                .map(|name| self.rules[name].planned.evaluator.wanted()),
        );
        let read = self.shared.log.read(Seq(after), &wanted, BATCH).await;
        let (mut entries, up_to) = match read {
            Ok(read) => read,
            Err(error) => return self.cannot_read(&names, error).await,
        };
        entries.retain(|entry| entry.seq.0 <= next);
        let up_to = up_to.0.min(next);
        if up_to <= after {
            return Ok(false);
        }
        let mut jobs: Vec<Job> = names.iter().map(|name| self.job(name)).collect();
        let states = self.states_of_timers(&jobs, &entries).await?;
        let look = move |tables: &mut Tables<'_>| {
            let subjects: Vec<Subject<'_>> = entries.iter().map(Subject::new).collect();
            for job in &mut jobs {
                job.look_at(tables, &subjects, &states, up_to)?;
            }
            Ok(jobs)
        };
        let jobs = self.shared.store.write(look).await?;
        self.take_back(jobs);
        Ok(true)
    }

    /// The changes that timers of objects in this batch are about, where those come due before the batch ends.
    async fn states_of_timers(&mut self, jobs: &[Job], entries: &[Entry]) -> Result<States, Error> {
        let mut states = States::new();
        let Some(last) = entries.iter().map(|entry| entry.at).max() else {
            return Ok(states);
        };
        let may_be_due = |job: &&Job| job.next_timer.is_some_and(|at| at <= last);
        let rules: Vec<u32> = jobs.iter().filter(may_be_due).map(|job| job.record.id).collect();
        if rules.is_empty() {
            return Ok(states);
        }
        let objects: Vec<String> = entries.iter().map(object_id).collect();
        let look = move |transaction: &ReadTransaction| timers_of(transaction, &rules, &objects);
        for seq in self.shared.store.read(look).await? {
            self.add_state(&mut states, seq).await;
        }
        Ok(states)
    }

    async fn add_state(&self, states: &mut States, seq: u64) {
        match self.shared.log.get(Seq(seq)).await {
            Ok(Some(entry)) => {
                states.insert(seq, entry);
            }
            Ok(None) | Err(ReadError::Removed(_)) => {}
            Err(error) => tracing::warn!(seq, %error, "cannot read the state that a timer is about"),
        }
    }

    /// What cannot be read is passed over and counted, if it never will be; otherwise it is tried again later.
    async fn cannot_read(&mut self, names: &[String], error: ReadError) -> Result<bool, Error> {
        let to = match &error {
            ReadError::Removed(seq) => seq.0,
            ReadError::Damaged { to, .. } => to.0,
            ReadError::Storage(cause) => {
                tracing::warn!(%cause, "cannot read the journal for now");
                self.blocked_until = Some(Instant::now() + PAUSE);
                return Ok(false);
            }
        };
        tracing::warn!(rules = ?names, up_to = to, %error, "passed over changes that cannot be read");
        for name in names {
            let rule = self
                .rules
                .get_mut(name)
                .expect("rule present: it was about to read");
            rule.record.missed += to.saturating_sub(rule.record.position);
            rule.record.position = to.max(rule.record.position + 1);
            rule.record.last_error = error.to_string();
            let (name, record) = (name.clone(), rule.record.clone());
            let save = move |tables: &mut Tables<'_>| tables.put_rule(&name, &record);
            self.shared.store.write(save).await?;
        }
        Ok(true)
    }

    /// Tells some of the objects that were there before a rule.
    pub(super) async fn tell_existing(&mut self, name: &str) -> Result<bool, Error> {
        let rule = &self.rules[name];
        let Some(after) = rule.record.existing.going_through() else {
            return Ok(false);
        };
        let after = after.map(ObjectKey::from);
        let wanted = rule.planned.evaluator.wanted();
        let (entries, is_last) = match self.some_of_current(&wanted, after).await {
            Ok(read) => read,
            Err(cause) => {
                self.rest(name, &cause).await?;
                return Ok(true);
            }
        };
        let head = self.shared.log.head().0;
        let mut job = self.job(name);
        let tell = move |tables: &mut Tables<'_>| {
            job.tell_existing(tables, &entries, is_last, head)?;
            Ok(job)
        };
        let job = self.shared.store.write(tell).await?;
        self.take_back(vec![job]);
        Ok(true)
    }

    /// Some of the objects there are, and whether those are the last.
    async fn some_of_current(
        &self,
        wanted: &Wanted,
        mut after: Option<ObjectKey>,
    ) -> Result<(Vec<Entry>, bool), ReadError> {
        let log = &self.shared.log;
        let (mut found, mut n_bytes) = (Vec::new(), 0);
        while found.len() < BATCH && n_bytes < BATCH_BYTES {
            let (read, limit) = match log.current(wanted, after.as_ref(), FEW).await {
                Ok(entries) => (entries, FEW),
                // What can be read before the first that cannot is not held up by it.
                Err(_) if !found.is_empty() => return Ok((found, false)),
                Err(_) => (log.current(wanted, after.as_ref(), 1).await?, 1),
            };
            let is_last = read.len() < limit;
            after = read.last().map(|entry| entry.key.clone());
            n_bytes += read.iter().map(Entry::n_bytes).sum::<usize>();
            found.extend(read);
            if is_last {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    /// The objects there are cannot be read for now: the rule rests, and the others go on.
    async fn rest(&mut self, name: &str, cause: &ReadError) -> Result<(), Error> {
        let until = self.shared.now().saturating_add(PAUSE).unwrap_or(Timestamp::MAX);
        let rule = self
            .rules
            .get_mut(name)
            .expect("rule present: it was about to read");
        rule.rests_until = Some(until);
        rule.n_rests += 1;
        let what = format!("the objects there are cannot be read: {}", chain(cause));
        let is_observing = matches!(rule.record.existing, Existing::Observing { .. });
        // To know of what holds already is worth some waiting, but not the changes to come.
        let gives_up = is_observing && rule.n_rests >= MAX_RESTS;
        if rule.record.last_error == what && !gives_up {
            return Ok(());
        }
        tracing::warn!(rule = name, what, gives_up, "a rule rests");
        rule.record.last_error = what;
        if gives_up {
            rule.record.missed += 1;
            rule.record.existing = Existing::Done;
        }
        let (name, record) = (name.to_owned(), rule.record.clone());
        let save = move |tables: &mut Tables<'_>| tables.put_rule(&name, &record);
        self.shared.store.write(save).await
    }

    /// Fires timers of rules that are up to date; the others must first see whether the object changed in time.
    pub(super) async fn wake_due(&mut self, head: u64) -> Result<bool, Error> {
        let now = self.shared.now();
        let is_due = |(_, rule): &(&String, &Looked)| rule.is_due(head, now) && rule.is_rested(now);
        let due = self.rules.iter().filter(is_due);
        let due: Vec<_> = due
            .filter_map(|(name, rule)| Some((name.clone(), rule.wakes_until(head, now)?)))
            .collect();
        for (name, until) in &due {
            self.wake_rule(name, *until).await?;
        }
        Ok(!due.is_empty())
    }

    async fn wake_rule(&mut self, name: &str, until: Timestamp) -> Result<(), Error> {
        let id = self.rules[name].record.id;
        let timers = self
            .shared
            .store
            .read(move |transaction| due(transaction, id, until, BATCH));
        let mut timers = timers.await?;
        let mut states = States::new();
        for place in 0..timers.len() {
            let seq = timers[place].seq;
            if !states.contains_key(&seq) {
                self.add_state(&mut states, seq).await;
            }
            if is_full(&states) {
                // The others are due in the next turn too.
                timers.truncate(place + 1);
                break;
            }
        }
        if let Err(cause) = self.add_current(name, &timers, &mut states).await {
            return self.rest(name, &cause).await;
        }
        if is_full(&states) {
            timers.retain(|timer| states.contains_key(&timer.seq));
        }
        let mut job = self.job(name);
        let wake = move |tables: &mut Tables<'_>| {
            job.wake_all(tables, &timers, &states)?;
            Ok(job)
        };
        let job = self.shared.store.write(wake).await?;
        self.take_back(vec![job]);
        let next = self
            .shared
            .store
            .read(move |transaction| first_timer(transaction, id))
            .await?;
        self.rules
            .get_mut(name)
            .expect("rule present: it was woken")
            .next_timer = next;
        Ok(())
    }

    /// Of an object that was there before the rule, the change that a timer is about may be gone from the log: what is
    /// left is the last state of each object.
    async fn add_current(&self, name: &str, timers: &[Due], states: &mut States) -> Result<(), ReadError> {
        let missing = timers.iter().map(|timer| timer.seq);
        let mut missing: BTreeSet<u64> = missing.filter(|seq| !states.contains_key(seq)).collect();
        let wanted = self.rules[name].planned.evaluator.wanted();
        let mut after: Option<ObjectKey> = None;
        while !missing.is_empty() && !is_full(states) {
            let entries = self.shared.log.current(&wanted, after.as_ref(), FEW).await?;
            let Some(last) = entries.last() else {
                break;
            };
            after = Some(last.key.clone());
            for entry in entries {
                if missing.remove(&entry.seq.0) {
                    states.insert(entry.seq.0, entry);
                }
            }
        }
        Ok(())
    }

    /// Tells the journal which changes are still needed.
    pub(super) async fn refresh_holds(&mut self) -> Result<(), Error> {
        self.holds_at = Instant::now() + HOLDS_EVERY;
        let board = Arc::clone(&self.shared.store.board);
        let (rules, _) = board.records();
        let mut holds = Vec::new();
        for (name, record) in rules {
            let id = record.id;
            let timer = self
                .shared
                .store
                .read(move |transaction| oldest_timer(transaction, id))
                .await?;
            // Nobody may ever look after a dead letter: it does not keep more than so much.
            let head = self.shared.log.head().0;
            let bound = head.saturating_sub(self.shared.config.letters_hold);
            let letter = board.oldest_letter(id).map(|seq| seq.max(bound));
            let oldest = board
                .oldest_pending(id)
                .into_iter()
                .chain(timer)
                .chain(letter)
                .min();
            let needed = oldest.map_or(head, |seq| seq.saturating_sub(1));
            let seq = Seq(record.looks_after().min(needed));
            holds.push((hold_name(&name), seq));
        }
        // What is no longer needed now would be needed again by who opens the file as it was before.
        self.shared.store.sync().await?;
        for (name, seq) in holds {
            self.shared.log.hold(&name, Some(seq));
        }
        Ok(())
    }
}

/// Whether there is no room for more states at once.
fn is_full(states: &States) -> bool {
    states.values().map(Entry::n_bytes).sum::<usize>() >= BATCH_BYTES
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// On whose behalf changes are kept.
pub(crate) fn hold_name(rule: &str) -> String {
    format!("rule/{rule}")
}
