//! How long failed keys wait.

use std::time::Duration;

use fastrand::Rng;

use crate::config::Backoff;

#[test]
fn waits_double_with_each_failure_up_to_the_longest() {
    let backoff = Backoff {
        jitter: 0.0,
        ..Backoff::default()
    };
    let delay = |attempts| backoff.delay(attempts, &mut Rng::with_seed(0));
    for attempts in 1..=18 {
        let doubled = Duration::from_millis(5 << (attempts - 1));
        assert_eq!(delay(attempts), doubled, "after {attempts}");
    }
    for attempts in [19, 20, 33, u32::MAX] {
        assert_eq!(delay(attempts), Duration::from_secs(1000), "after {attempts}");
    }
}

#[test]
fn chance_makes_a_wait_shorter_by_its_part_at_most_and_the_same_for_the_same_seed() {
    let full = Duration::from_millis(40);
    let delay = |seed| Backoff::default().delay(4, &mut Rng::with_seed(seed));
    let delays: Vec<Duration> = (0..1000).map(delay).collect();
    for (seed, wait) in (0..).zip(&delays) {
        assert!(
            (full.mul_f64(0.9)..=full).contains(wait),
            "{wait:?} with seed {seed}"
        );
        assert_eq!(delay(seed), *wait);
    }
    // It uses all the room that it has.
    let (least, most) = (delays.iter().min(), delays.iter().max());
    assert!(least < Some(&full.mul_f64(0.91)) && most > Some(&full.mul_f64(0.99)));
}

#[test]
fn jitter_out_of_bounds_is_none_or_all() {
    let delay = |jitter| {
        let backoff = Backoff {
            jitter,
            ..Backoff::default()
        };
        backoff.delay(4, &mut Rng::with_seed(7))
    };
    let full = Duration::from_millis(40);
    assert_eq!([delay(f64::NAN), delay(-1.0)], [full; 2]);
    assert_eq!(delay(5.0), delay(1.0));
}
