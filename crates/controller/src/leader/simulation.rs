//! The election against its rules: by hand, and with several replicas whose clocks and network are bad.
//!
//! `SEED=<n>` replays one run, `SEEDS=<n>` does more of them.

mod world;

use std::time::Duration;

use serde_json::json;
use skopos_testkit::seeds;
use tokio::time::Instant;

use self::world::{Speeds, World};
use super::LeaderConfig;
use super::election::{Effect, Election, Input, Loss, Now};
use super::lease::Lease;

const SECOND: Duration = Duration::from_secs(1);

fn config(lease_duration: u32, renew_deadline: u32) -> LeaderConfig {
    LeaderConfig {
        lease_duration: lease_duration * SECOND,
        renew_deadline: renew_deadline * SECOND,
        ..LeaderConfig::new("default", "lock", "")
    }
}

#[test]
fn no_two_lead_at_once_with_clocks_that_differ_by_a_tenth() {
    let mut terms = 0;
    for seed in seeds(150) {
        let config = match seed % 2 {
            0 => config(11, 10),
            _ => config(15, 10),
        };
        match World::new(config, Speeds { most: 1.1 }, seed).run() {
            Ok(begun) => terms += begun,
            Err(problem) => panic!("SEED={seed}: {problem}"),
        }
    }
    assert!(terms > 0);
}

/// As much as the times of the configuration allow, which is more than promised.
#[test]
fn no_two_lead_at_once_with_clocks_as_different_as_deadline_and_lease() {
    for seed in seeds(60) {
        let run = World::new(config(15, 10), Speeds { most: 1.5 }, seed).run();
        run.unwrap_or_else(|problem| panic!("SEED={seed}: {problem}"));
    }
}

/// Shows that the simulation sees what it looks for.
#[test]
fn two_lead_at_once_with_clocks_more_different_than_that() {
    let run = |seed| World::new(config(11, 10), Speeds { most: 1.4 }, seed).run();
    let problem = (0..2000).find_map(|seed| run(seed).err());
    assert!(problem.is_some_and(|problem| problem.contains("leads too")));
}

/// One replica by hand.
struct Replica {
    election: Election,
    now: Now,
}

impl Replica {
    fn new() -> Self {
        let now = Now {
            instant: Instant::now(),
            wall: "2026-11-15T21:54:20Z".parse().unwrap(),
        };
        let config = LeaderConfig {
            identity: "me".to_owned(),
            ..config(15, 10)
        };
        Self {
            election: Election::new(config, fastrand::Rng::with_seed(0), now),
            now,
        }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.election.step(input, self.now)
    }

    /// Waits until the election wants to do something.
    fn wake(&mut self) -> Vec<Effect> {
        self.now.instant = self.election.wake_at().unwrap();
        self.step(Input::Tick)
    }

    /// Becomes the leader, and returns the lease as the server keeps it.
    fn lead(&mut self) -> Lease {
        self.wake();
        let effects = self.step(Input::Read(None));
        let lease = stored(&effects, "1");
        self.step(Input::Written(lease.clone()));
        assert!(self.election.wake_at().is_some());
        lease
    }
}

/// What the server makes of the write among the effects.
fn stored(effects: &[Effect], version: &str) -> Lease {
    let write = effects.iter().find_map(|effect| match effect {
        Effect::Write { object, .. } => Some(object.clone()),
        _ => None,
    });
    let mut object = write.unwrap_or_else(|| panic!("no write in {effects:?}"));
    object["metadata"]["resourceVersion"] = json!(version);
    Lease::read(object)
}

fn of_another(version: &str) -> Lease {
    Lease::read(json!({
        "metadata": {"resourceVersion": version},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 6,
                 "renewTime": "2020-01-01T00:00:00.000000Z"},
    }))
}

#[test]
fn waits_for_the_whole_lease_however_old_its_renew_time_is() {
    let mut replica = Replica::new();
    replica.wake();
    replica.step(Input::Read(Some(of_another("1"))));
    let begin = replica.now.instant;
    loop {
        let effects = replica.wake();
        if !matches!(effects[..], [Effect::Read { .. }]) {
            assert_eq!(stored(&effects, "2").transitions, 7);
            break;
        }
        replica.step(Input::Read(Some(of_another("1"))));
    }
    assert_eq!(replica.now.instant - begin, 15 * SECOND);
}

#[test]
fn counts_its_lead_from_before_the_request() {
    let mut replica = Replica::new();
    replica.wake();
    let effects = replica.step(Input::Read(None));
    let sent = replica.now.instant;
    replica.now.instant += 4 * SECOND;
    let effects = replica.step(Input::Written(stored(&effects, "1")));
    let until = sent + 10 * SECOND;
    assert!(effects.contains(&Effect::Lead { until, epoch: 0 }), "{effects:?}");
}

#[test]
fn reads_again_after_a_lost_answer_and_goes_on_from_the_lost_request() {
    let mut replica = Replica::new();
    replica.lead();
    let effects = replica.wake();
    let (sent, renewed) = (replica.now.instant, stored(&effects, "2"));
    replica.step(Input::WriteFailed);
    assert!(matches!(replica.wake()[..], [Effect::Read { .. }]));
    let until = sent + 10 * SECOND;
    let effects = replica.step(Input::Read(Some(renewed)));
    assert_eq!(effects, [Effect::Lead { until, epoch: 0 }]);
}

#[test]
fn renews_at_once_if_the_lost_request_did_not_happen() {
    let mut replica = Replica::new();
    let lease = replica.lead();
    replica.wake();
    replica.step(Input::WriteFailed);
    replica.wake();
    let effects = replica.step(Input::Read(Some(lease)));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Write { .. })),
        "{effects:?}"
    );
}

#[test]
fn steps_down_when_it_sees_another_holder() {
    let mut replica = Replica::new();
    replica.lead();
    replica.wake();
    replica.step(Input::Conflict);
    let effects = replica.step(Input::Read(Some(of_another("9"))));
    let stop = Effect::Stop {
        epoch: 0,
        why: Loss::Taken,
    };
    assert!(effects.contains(&stop), "{effects:?}");
}

#[test]
fn takes_a_lease_with_its_own_name_for_another_one_if_it_did_not_write_it() {
    let mut replica = Replica::new();
    replica.wake();
    let mut namesake = of_another("1");
    namesake.holder = "me".to_owned();
    let effects = replica.step(Input::Read(Some(namesake)));
    assert!(matches!(effects[..], [Effect::Report(_)]), "{effects:?}");
}

#[test]
fn a_deleted_lease_ends_nobodys_term() {
    let mut standby = Replica::new();
    standby.wake();
    standby.step(Input::Read(Some(of_another("1"))));
    standby.wake();
    assert_eq!(standby.step(Input::Read(None)), [], "the other may lead still");

    let mut leader = Replica::new();
    leader.lead();
    leader.wake();
    leader.step(Input::Conflict);
    let effects = leader.step(Input::Read(None));
    assert!(
        matches!(effects[..], [Effect::Write { is_new: true, .. }]),
        "{effects:?}"
    );
}

#[test]
fn a_term_that_was_lost_is_not_resumed_but_followed_by_a_new_one() {
    let mut replica = Replica::new();
    replica.lead();
    let renewed = stored(&replica.wake(), "2");
    replica.now.instant += 10 * SECOND;
    let effects = replica.step(Input::WriteFailed);
    assert_eq!(
        effects,
        [Effect::Stop {
            epoch: 0,
            why: Loss::Expired
        }]
    );
    replica.wake();
    let effects = replica.step(Input::Read(Some(renewed)));
    assert_eq!(stored(&effects, "3").transitions, 1);
}
