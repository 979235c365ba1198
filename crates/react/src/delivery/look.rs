//! Reads the journal for all rules, and writes down what is due.
//!
//! Rules at the same position read together: those that are up to date are one group, and whoever was behind joins it
//! when it gets there. Each turn serves the leading group first and then one of the others, so neither waits for long.

mod job;
mod planning;
mod turns;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use skopos_journal::Wanted;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::job::{Guards, Job, Stop};
pub(crate) use self::turns::hold_name;
use super::{
    Error, Plan, PlannedRule,
    shared::{Directory, Shared},
    store::{Replayed, RuleRecord, Tables},
};

/// Something to do for someone who holds the reactor.
#[derive(Debug)]
pub(crate) enum Command {
    /// Go on with a rule that stands still.
    Resume(String, oneshot::Sender<Result<(), Error>>),
    /// Let a rule stand still, for this reason.
    Pause(String, String, oneshot::Sender<Result<(), Error>>),
    /// Send a range again. The answer is the name of the replay.
    Replay(Replayed, oneshot::Sender<Result<String, Error>>),
    /// Forget a replay and what it has not sent.
    Cancel(String, oneshot::Sender<Result<(), Error>>),
}

/// The task that reads the journal.
#[derive(Debug)]
pub(crate) struct Looker {
    shared: Arc<Shared>,
    plan: watch::Receiver<Arc<Plan>>,
    commands: mpsc::Receiver<Command>,
    directory: watch::Sender<Arc<Directory>>,
    rules: BTreeMap<String, Looked>,
    turn: usize,
    /// Set while the journal cannot be read.
    blocked_until: Option<Instant>,
    holds_at: Instant,
}

/// A rule or a replay that is in force. This task alone changes its record.
#[derive(Debug)]
struct Looked {
    planned: Arc<PlannedRule>,
    record: RuleRecord,
    guards: Guards,
    rests_until: Option<Timestamp>,
    /// How often it had to rest in a row, because it could not read.
    n_rests: u32,
    next_timer: Option<Timestamp>,
}

/// What can be done besides the leading group.
#[derive(Debug)]
enum Other {
    /// A group that is behind, and how far it may go to meet the next one.
    Behind {
        names: Vec<String>,
        next: u64,
    },
    /// A rule that goes through the objects that were there before it.
    Tell(String),
    Replay(String),
    Finish(String),
}

/// Changes read at once.
const BATCH: usize = 256;
/// Bytes of states in memory at once, for objects that are there and for timers; the journal sees to it for changes. A
/// single object may be larger.
const BATCH_BYTES: usize = 8 << 20;
/// Objects read at once on the way to [`BATCH_BYTES`].
const FEW: usize = 16;
/// How long to wait when the journal cannot be read.
const PAUSE: Duration = Duration::from_secs(1);
/// After so many pauses a rule gives up to learn what held before it.
const MAX_RESTS: u32 = 10;
/// How often the journal is told what is still needed.
const HOLDS_EVERY: Duration = Duration::from_secs(5);
/// How often a replay is looked at to see whether it is done.
const REPLAYS_EVERY: Duration = Duration::from_millis(250);

impl Looker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        plan: watch::Receiver<Arc<Plan>>,
        commands: mpsc::Receiver<Command>,
        directory: watch::Sender<Arc<Directory>>,
    ) -> Self {
        Self {
            shared,
            plan,
            commands,
            directory,
            rules: BTreeMap::new(),
            turn: 0,
            blocked_until: None,
            holds_at: Instant::now(),
        }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        let mut advanced = self.shared.log.advanced();
        self.apply_plan().await?;
        while !shutdown.is_cancelled() {
            if self.plan.has_changed().unwrap_or(false) {
                self.apply_plan().await?;
            }
            while let Ok(command) = self.commands.try_recv() {
                self.obey(command).await;
            }
            advanced.mark_unchanged();
            if self.work().await? {
                // There may be much to read; those who send need their turn too.
                tokio::task::yield_now().await;
                continue;
            }
            let deadline = self.deadline();
            tokio::select! {
                () = shutdown.cancelled() => {}
                Ok(()) = self.plan.changed() => self.apply_plan().await?,
                Some(command) = self.commands.recv() => self.obey(command).await,
                Ok(()) = advanced.changed() => {}
                () = sleep_until(deadline) => {}
            }
        }
        Ok(())
    }

    /// Does a little of what there is to do. False if there is nothing.
    async fn work(&mut self) -> Result<bool, Error> {
        if Instant::now() >= self.holds_at {
            self.refresh_holds().await?;
        }
        if self.blocked_until.is_some_and(|until| Instant::now() < until) {
            return Ok(false);
        }
        let head = self.shared.log.head().0;
        let mut groups = self.groups();
        let mut worked = false;
        if let Some((position, names)) = groups.pop_last() {
            if position < head {
                worked |= self.read(names, u64::MAX).await?;
            }
            worked |= self.do_other(groups, position, head).await?;
        } else {
            worked |= self.do_other(groups, 0, head).await?;
        }
        worked |= self.wake_due(head).await?;
        Ok(worked)
    }

    /// Rules that can read, by position.
    fn groups(&self) -> BTreeMap<u64, Vec<String>> {
        let now = self.shared.now();
        let mut groups: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (name, rule) in &self.rules {
            if rule.can_read(now) && rule.record.replay.is_none() {
                groups.entry(rule.record.position).or_default().push(name.clone());
            }
        }
        groups
    }

    async fn do_other(
        &mut self,
        groups: BTreeMap<u64, Vec<String>>,
        leading: u64,
        head: u64,
    ) -> Result<bool, Error> {
        let mut others = self.others(groups, leading, head);
        if others.is_empty() {
            return Ok(false);
        }
        self.turn = self.turn.wrapping_add(1);
        match others.swap_remove(self.turn % others.len()) {
            Other::Behind { names, next } => self.read(names, next).await,
            Other::Tell(name) => self.tell_existing(&name).await,
            Other::Replay(name) => self.read(vec![name], u64::MAX).await,
            Other::Finish(name) => self.end_replay(&name).await.map(|()| true),
        }
    }

    fn others(&self, groups: BTreeMap<u64, Vec<String>>, leading: u64, head: u64) -> Vec<Other> {
        let now = self.shared.now();
        let mut others = Vec::new();
        let mut next = leading;
        for (position, names) in groups.into_iter().rev() {
            others.push(Other::Behind { names, next });
            next = position;
        }
        for (name, rule) in &self.rules {
            let is_telling = rule.record.existing.going_through().is_some();
            match &rule.record.replay {
                None if is_telling && rule.may_work(now) => others.push(Other::Tell(name.clone())),
                Some(replayed) if rule.record.position < replayed.to.min(head) => {
                    others.push(Other::Replay(name.clone()));
                }
                Some(replayed) if !rule.is_due(head, now) && self.has_sent(rule, replayed) => {
                    others.push(Other::Finish(name.clone()));
                }
                _ => {}
            }
        }
        others
    }

    /// Whether a replay has nothing more to send, and that is news: what it gave up may stay for long.
    fn has_sent(&self, rule: &Looked, replayed: &Replayed) -> bool {
        let (pending, letters) = self.shared.store.board.open(rule.record.id);
        pending == 0 && (letters == 0 || !replayed.is_done)
    }

    /// A replay has sent what it could. It goes when nothing of it is left: what it gave up stays until someone takes it.
    async fn end_replay(&mut self, name: &str) -> Result<(), Error> {
        let rule = self
            .rules
            .get_mut(name)
            .expect("rule present: it was chosen from these");
        let (_, letters) = self.shared.store.board.open(rule.record.id);
        if letters == 0 {
            return self.finish_replay(name).await;
        }
        if let Some(replayed) = &mut rule.record.replay {
            replayed.is_done = true;
        }
        let (name, record) = (name.to_owned(), rule.record.clone());
        let save = move |tables: &mut Tables<'_>| tables.put_rule(&name, &record);
        self.shared.store.write(save).await
    }

    /// When to look again at the latest, if nothing happens before.
    fn deadline(&self) -> Instant {
        let (now, clock) = (Instant::now(), self.shared.now());
        let until = |at: Timestamp| now + Duration::try_from(at.duration_since(clock)).unwrap_or_default();
        let mut deadline = self
            .blocked_until
            .filter(|until| *until > now)
            .unwrap_or(self.holds_at);
        deadline = deadline.min(self.holds_at);
        for rule in self.rules.values() {
            if rule.record.replay.is_some() {
                deadline = deadline.min(now + REPLAYS_EVERY);
            } else if !rule.is_suspended() {
                let rested = rule.rests_until.filter(|at| *at > clock).map(until);
                // What is due but has to wait for the rule to catch up is looked at when it has.
                let due = rule.next_timer.filter(|at| *at > clock).map(until);
                deadline = [rested, due].into_iter().flatten().fold(deadline, Instant::min);
            }
        }
        deadline
    }

    /// Lets a rule work. Its guards go along, and come back with [`take_back`](Self::take_back).
    fn job(&mut self, name: &str) -> Job {
        let now = self.shared.now();
        let rule = self
            .rules
            .get_mut(name)
            .expect("rule present: it was chosen from these");
        Job::new(
            name.to_owned(),
            rule.planned.clone(),
            rule.record.clone(),
            std::mem::take(&mut rule.guards),
            now,
            rule.next_timer,
        )
    }

    /// Takes note of what rules did, now that it is written down.
    fn take_back(&mut self, jobs: Vec<Job>) {
        let mut has_suspended = false;
        for job in jobs {
            for (sink, route) in &job.touched {
                self.shared.bells.ring(sink, *route);
            }
            let rule = self
                .rules
                .get_mut(&job.name)
                .expect("rule present: the job was made from it");
            rule.record = job.record;
            rule.guards = job.guards;
            rule.next_timer = job.next_timer;
            rule.n_rests = 0;
            rule.rests_until = match job.stop {
                Some(Stop::Until(at)) => Some(at),
                Some(Stop::Suspended) | None => None,
            };
            if job.stop == Some(Stop::Suspended) {
                has_suspended = true;
                let reason = rule.record.suspended.as_deref();
                tracing::warn!(rule = job.name, reason, "suspended a rule");
            }
        }
        if has_suspended {
            self.publish();
        }
    }
}

impl Looked {
    fn is_suspended(&self) -> bool {
        self.record.replay.is_none() && (self.planned.suspend || self.record.suspended.is_some())
    }

    fn may_work(&self, now: Timestamp) -> bool {
        !self.is_suspended() && self.is_rested(now)
    }

    fn is_rested(&self, now: Timestamp) -> bool {
        self.rests_until.is_none_or(|until| until <= now)
    }

    /// Up to when its timers fire, if it has seen everything that happened until then.
    fn wakes_until(&self, head: u64, now: Timestamp) -> Option<Timestamp> {
        match &self.record.replay {
            // A replay lives in the time of its range.
            Some(replayed) if self.record.position >= replayed.to => {
                Timestamp::from_millisecond(self.record.looked_at).ok()
            }
            None if self.record.position >= head && self.can_read(now) => Some(now),
            Some(_) | None => None,
        }
    }

    fn is_due(&self, head: u64, now: Timestamp) -> bool {
        let until = self.wakes_until(head, now);
        until.is_some_and(|until| self.next_timer.is_some_and(|at| at <= until))
    }

    fn can_read(&self, now: Timestamp) -> bool {
        self.may_work(now) && self.record.existing.going_through().is_none()
    }
}

/// What several rules want: the same, or everything.
fn common<'a>(mut wanted: impl Iterator<Item = Wanted> + 'a) -> Wanted {
    let first = wanted.next().unwrap_or_default();
    match wanted.all(|other| other == first) {
        true => first,
        false => Wanted::default(),
    }
}
