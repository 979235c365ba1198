//! One behaviour each; the numbers are those of the checklist of queue semantics.

use std::time::Duration;

use super::{Bench, config};
use crate::config::{Backoff, Config, Debounce, Leftovers, Priority, RateLimit};
use crate::work::Outcome;

/// Failures are tried again after so many seconds.
fn retried_after(seconds: u64) -> Config<u32> {
    Config {
        backoff: Backoff {
            first: Duration::from_secs(seconds),
            ..Backoff::default()
        },
        ..config()
    }
}

fn bench() -> Bench {
    Bench::new(config())
}

/// Point 35.
#[test]
fn a_key_added_while_running_runs_once_more_and_never_twice_at_once() {
    let mut bench = bench();
    bench.add(1);
    let (_, id) = bench.take().unwrap();
    bench.add(1);
    bench.add(1);
    assert_eq!(bench.take(), None);
    bench.finish(id, Outcome::Done);
    assert_eq!([bench.done(), bench.done()], [Some(1), None]);
}

/// Point 36.
#[test]
fn the_earliest_delay_wins_and_an_immediate_add_absorbs_it() {
    let mut bench = bench();
    bench.add_as(1, Priority::High, Some(500));
    bench.add_as(1, Priority::High, Some(100));
    bench.add_as(1, Priority::High, Some(900));
    bench.pass(100);
    assert_eq!(bench.done(), Some(1));
    bench.add_as(1, Priority::High, Some(500));
    bench.add(1);
    assert_eq!(bench.done(), Some(1));
    bench.pass(10_000);
    assert_eq!(bench.take(), None);
}

/// Point 37.
#[test]
fn a_change_of_a_failing_key_runs_soon_without_burning_an_attempt() {
    let mut bench = Bench::new(Config {
        max_attempts: Some(3),
        ..retried_after(100)
    });
    bench.add(1);
    bench.fail();
    for _ in 0..10 {
        bench.add(1);
        bench.pass(999);
        assert_eq!(bench.take(), None);
        bench.pass(1);
        assert_eq!(bench.fail(), Some(1));
    }
    bench.pass(100_000);
    assert_eq!(bench.fail(), Some(1));
    let now = bench.moment();
    assert!(bench.state.dead_letters(now).is_empty());
    bench.pass(200_000);
    assert_eq!(bench.fail(), Some(1));
    let now = bench.moment();
    assert_eq!(bench.state.dead_letters(now)[0].attempts, 3);
}

/// It had no retry any more: the run was taken for one whose retry is scheduled, and that was forgotten.
#[test]
fn a_key_forgotten_during_a_changes_run_that_fails_is_tried_again() {
    let mut bench = Bench::new(retried_after(100));
    bench.add(1);
    bench.fail();
    bench.add(1);
    bench.pass(1_000);
    let (_, id) = bench.take().unwrap();
    let now = bench.moment();
    bench.state.forget(super::hash(1), &1, now);
    bench.finish(id, Outcome::Failed("broken".to_owned()));
    bench.pass(100_000);
    assert_eq!(bench.done(), Some(1));
}

#[test]
fn a_poison_key_that_keeps_changing_runs_once_a_second() {
    let mut bench = Bench::new(Config {
        change_spacing: Duration::from_secs(1),
        max_attempts: Some(100),
        ..config()
    });
    bench.add(1);
    let mut n_runs = 0;
    for _ in 0..100_000 {
        n_runs += u32::from(bench.fail().is_some());
        bench.add(1);
        bench.pass(1);
    }
    // A hundred seconds, and the quick retries of the first second.
    assert!((90..=120).contains(&n_runs), "{n_runs} runs");
}

#[test]
fn a_retry_that_is_put_off_is_still_that_retry() {
    let mut bench = Bench::new(Config {
        max_attempts: Some(3),
        ..retried_after(100)
    });
    bench.add(1);
    assert_eq!(bench.fail(), Some(1));
    bench.pass(100_000);
    for _ in 0..5 {
        assert_eq!(bench.run(Outcome::PutOff(Duration::from_millis(500))), Some(1));
        bench.pass(499);
        assert_eq!(bench.take(), None);
        bench.pass(1);
    }
    assert_eq!(bench.fail(), Some(1));
    bench.pass(200_000);
    assert_eq!(bench.fail(), Some(1));
    assert_eq!(bench.state.dead_letters(bench.moment())[0].attempts, 3);
}

#[test]
fn a_change_that_is_put_off_leaves_the_retry_where_it_was_and_keeps_its_priority() {
    let mut bench = Bench::new(retried_after(100));
    bench.add(1);
    assert_eq!(bench.fail(), Some(1));
    bench.pass(50_000);
    bench.add(1);
    bench.add_as(2, Priority::Normal, Some(500));
    assert_eq!(bench.run(Outcome::PutOff(Duration::from_millis(500))), Some(1));
    bench.pass(500);
    assert_eq!(
        [bench.fail(), bench.done(), bench.take().map(|(key, _)| key)],
        [Some(1), Some(2), None]
    );
    bench.pass(49_500);
    assert_eq!(bench.fail(), Some(1));
    assert_eq!(
        bench
            .state
            .entries
            .iter()
            .next()
            .unwrap()
            .1
            .failures
            .as_ref()
            .unwrap()
            .attempts,
        2
    );
}

#[test]
fn success_forgets_failures() {
    let mut bench = Bench::new(Config {
        max_attempts: Some(2),
        ..config()
    });
    for _ in 0..10 {
        bench.add(1);
        bench.fail();
        bench.pass(10);
        assert_eq!(bench.done(), Some(1));
    }
    let now = bench.moment();
    assert!(bench.state.dead_letters(now).is_empty());
}

#[test]
fn exhausted_and_terminal_keys_are_dead_until_changed_put_back_or_discarded() {
    let mut bench = Bench::new(Config {
        max_attempts: Some(2),
        max_dead_letters: 2,
        ..config()
    });
    bench.add(1);
    bench.fail();
    bench.pass(10);
    bench.fail();
    bench.add(2);
    bench.run(Outcome::Terminal("never".to_owned()));
    let now = bench.moment();
    let dead = bench.state.dead_letters(now);
    let seen: Vec<_> = dead
        .iter()
        .map(|dead| (dead.key, dead.attempts, dead.error.as_str()))
        .collect();
    assert_eq!(seen, [(1, 2, "broken"), (2, 1, "never")]);
    // No room: retried at the longest backoff.
    bench.add(3);
    bench.run(Outcome::Terminal("never".to_owned()));
    bench.pass(1_000_000);
    assert_eq!(bench.done(), Some(3));
    // A change revives, putting back too, discarding forgets.
    bench.add(1);
    assert_eq!(bench.done(), Some(1));
    let now = bench.moment();
    assert!(bench.state.put_back(super::hash(2), &2, now));
    assert_eq!(bench.run(Outcome::Terminal("still".to_owned())), Some(2));
    assert!(bench.state.discard(super::hash(2), &2, now).is_some());
    assert!(bench.state.dead_letters(now).is_empty());
    assert_eq!(bench.state.entries.len(), bench.state.n_resting);
}

/// Point 38.
#[test]
fn raising_the_priority_moves_a_key_and_low_ones_are_not_starved() {
    let mut bench = bench();
    bench.add_as(1, Priority::Low, None);
    bench.add_as(2, Priority::Low, None);
    bench.add(2);
    assert_eq!(bench.done(), Some(2));
    let mut turns = 0;
    loop {
        bench.add(100 + turns % 2);
        turns += 1;
        if bench.done() == Some(1) {
            break;
        }
    }
    assert!(turns <= 8, "after {turns} turns");
}

#[test]
fn a_tenant_with_ten_thousand_keys_delays_another_by_one() {
    let mut bench = Bench::new(Config {
        tenant: |key| if *key == 0 { "small" } else { "large" },
        ..config()
    });
    for key in 1..=10_000 {
        bench.add(key);
    }
    bench.add(0);
    assert_eq!([bench.done(), bench.done()], [Some(1), Some(0)]);
}

/// Point 39.
#[test]
fn debounce_waits_for_quiet_but_not_for_ever() {
    let mut bench = Bench::new(Config {
        debounce: Some(Debounce {
            quiet: Duration::from_millis(50),
            max_wait: Duration::from_millis(200),
        }),
        ..config()
    });
    let mut waited = 0;
    while bench.take().is_none() {
        bench.add(1);
        bench.pass(10);
        waited += 10;
    }
    assert_eq!(waited, 200);
}

#[test]
fn a_key_that_is_put_off_takes_nothing_from_the_rate_limit() {
    let mut bench = Bench::new(Config {
        rate_limit: Some(RateLimit {
            per_second: 0.1,
            burst: 1,
        }),
        ..config()
    });
    bench.state.observe(bench.moment());
    bench.add(1);
    bench.add(2);
    assert_eq!(bench.run(Outcome::PutOff(Duration::from_secs(60))), Some(1));
    assert_eq!([bench.done(), bench.take().map(|(key, _)| key)], [Some(2), None]);
    let worked = &bench.state.stats.times.as_ref().unwrap().worked;
    assert_eq!(worked.counts.iter().sum::<u64>(), 1);
}

#[test]
fn the_rate_limit_bounds_what_is_handed_out() {
    let mut bench = Bench::new(Config {
        rate_limit: Some(RateLimit {
            per_second: 100.0,
            burst: 10,
        }),
        ..config()
    });
    for key in 0..1000 {
        bench.add(key);
    }
    let mut n_taken = 0;
    for _ in 0..1000 {
        while bench.done().is_some() {
            n_taken += 1;
        }
        bench.pass(1);
    }
    assert!((105..=111).contains(&n_taken), "{n_taken}");
}

#[test]
fn poison_among_ten_thousand_keys_delays_no_other() {
    let mut bench = bench();
    for key in 0..10_000 {
        bench.add_as(key, Priority::Low, None);
    }
    let (mut n_good, mut n_runs) = (0, 0);
    while n_good < 9_900 {
        let Some((key, id)) = bench.take() else {
            bench.pass(1);
            continue;
        };
        n_runs += 1;
        let poison = key % 100 == 0;
        n_good += u32::from(!poison);
        let outcome = if poison {
            Outcome::Failed("poison".to_owned())
        } else {
            Outcome::Done
        };
        bench.finish(id, outcome);
        if n_runs % 10 == 0 {
            bench.pass(1);
        }
    }
    assert!(n_runs < 11_500, "{n_runs} runs for 9,900 good keys");
}

#[test]
fn a_key_that_comes_again_is_as_one_that_was_never_here() {
    let mut bench = bench();
    bench.add(1);
    assert_eq!(bench.done(), Some(1));
    assert_eq!((bench.state.n_resting, bench.state.ready.n_awake()), (1, 0));
    bench.add_as(1, Priority::Low, None);
    assert_eq!((bench.state.n_resting, bench.state.ready.n_awake()), (0, 1));
    bench.add_as(1001, Priority::High, None);
    assert_eq!(
        [bench.done(), bench.done(), bench.done()],
        [Some(1001), Some(1), None]
    );
    bench.add_as(1, Priority::High, Some(500));
    assert_eq!(bench.take(), None);
    bench.pass(500);
    assert_eq!(bench.done(), Some(1));
}

#[test]
fn of_the_keys_that_are_done_only_so_many_are_remembered_and_none_in_the_end() {
    let mut bench = bench();
    bench.state.max_resting = 2;
    for key in [1, 2, 1, 3] {
        bench.add(key);
        assert_eq!(bench.done(), Some(key));
    }
    let mut kept: Vec<_> = bench.state.entries.iter().map(|(_, entry)| entry.key).collect();
    kept.sort_unstable();
    assert_eq!(kept, [1, 3], "the one that rests longest goes");
    bench.state.close(Leftovers::HandOut);
    assert_eq!(bench.state.entries.len(), 0);
}
