//! A journal in memory, sinks with a will of their own, a disk that loses what was not synced, and toy rules.

mod disk;
mod log;
mod rule;
mod sink;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

pub(super) use self::{
    disk::Disk,
    log::MemoryLog,
    rule::{Toy, When},
    sink::{Call, Mood, Recorder},
};
use crate::delivery::{Config, Error, Plan, PlannedRule, PlannedSink, Reactor, Status, store::Store};

/// When tests begin.
pub(super) const EPOCH: i64 = 1_800_000_000;

/// A clock that goes with tokio's.
pub(super) fn clock() -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    let began = Instant::now();
    Arc::new(move || {
        let passed = SignedDuration::try_from(began.elapsed()).unwrap();
        Timestamp::from_second(EPOCH).unwrap() + passed
    })
}

/// A reactor that runs on a disk which can crash.
pub(super) struct Life {
    pub(super) reactor: Reactor,
    pub(super) disk: Disk,
    stop: CancellationToken,
    run: JoinHandle<Result<(), Error>>,
}

impl Life {
    pub(super) fn begin(disk: Disk, log: &Arc<MemoryLog>, plan: Plan, seed: u64) -> Self {
        let config = Config {
            now: log.clock(),
            seed,
            ..Config::default()
        };
        let opened = disk.clone();
        let store = Store::in_backend(move || opened.clone()).unwrap();
        let reactor = Reactor::on(store, log.clone(), config).unwrap();
        reactor.swap(plan);
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let (reactor, stop) = (reactor.clone(), stop.clone());
            async move { reactor.run(stop).await }
        });
        Self {
            reactor,
            disk,
            stop,
            run,
        }
    }

    pub(super) async fn end(self) -> Disk {
        self.stop.cancel();
        self.run.await.unwrap().unwrap();
        self.disk.image()
    }

    /// Dies as if the power went: what was not synced is there or not, as chance has it.
    pub(super) async fn crash(self, rng: &mut fastrand::Rng) -> Disk {
        let image = self.disk.crash(rng);
        self.run.abort();
        self.run.await.unwrap_err();
        image
    }

    pub(super) fn status(&self) -> Status {
        self.reactor.status()
    }

    /// Waits until something is so, for a long time of the paused clock.
    #[track_caller]
    pub(super) fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) -> impl Future<Output = Status> {
        let reactor = self.reactor.clone();
        let what = what.to_owned();
        async move {
            let mut pause = Duration::from_millis(10);
            for _ in 0..10_000 {
                let status = reactor.status();
                if is_so(&status) {
                    return status;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            panic!("never: {what}: {:#?}", reactor.status());
        }
    }

    /// Waits until every rule has looked at everything and nothing is pending.
    pub(super) async fn until_quiet(&self) -> Status {
        self.until("quiet", is_quiet).await
    }
}

pub(super) fn is_quiet(status: &Status) -> bool {
    let pending =
        |rule: &crate::delivery::RuleState| rule.routes.values().map(|route| route.pending).sum::<u64>();
    let mut rules = status.rules.values();
    rules.all(|rule| rule.lag_changes == 0 && !rule.is_telling_existing && pending(rule) == 0)
}

/// A plan of rules and sinks, complete.
pub(super) fn plan(
    rules: impl IntoIterator<Item = (&'static str, PlannedRule)>,
    sinks: impl IntoIterator<Item = (&'static str, PlannedSink)>,
) -> Plan {
    Plan {
        rules: rules
            .into_iter()
            .map(|(name, rule)| (name.to_owned(), rule))
            .collect(),
        sinks: sinks
            .into_iter()
            .map(|(name, sink)| (name.to_owned(), sink))
            .collect(),
        complete: true,
        ..Plan::default()
    }
}

/// A rule that delivers to `sink`.
pub(super) fn rule(name: &'static str, when: When, sinks: &[&str]) -> PlannedRule {
    PlannedRule::new(Arc::new(Toy::new(name, when)), sinks.iter().copied())
}
