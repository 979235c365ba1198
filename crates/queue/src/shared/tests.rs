//! Keys on trays, on a paused clock: nothing that a worker or a producer sees may be otherwise than without.

use std::time::Duration;

use crate::config::{AddOptions, Config, Leftovers, Priority, RateLimit};
use crate::queue::Queue;
use crate::tray::FRESH;
use crate::work::Work;

const N_KEYS: u32 = 2_000;

fn queue_with(config: Config<u32>) -> Queue<u32> {
    let queue = Queue::new(config);
    for key in 0..N_KEYS {
        let priority = Priority::Low;
        queue.add_with(
            key,
            AddOptions {
                priority,
                after: None,
            },
        );
    }
    queue
}

/// A queue with keys on this thread's tray, and some that were done before.
async fn laid_out() -> Queue<u32> {
    let queue = queue_with(Config::default());
    for _ in 0..10 {
        queue.take().await.unwrap().done();
    }
    assert!(n_laid_out(&queue) > 0);
    queue
}

/// How many keys lie on trays, or did when somebody last looked.
fn n_laid_out(queue: &Queue<u32>) -> usize {
    queue.shared().try_lock().unwrap().state.n_laid_out()
}

/// The next key, from the tray.
async fn from_tray(queue: &Queue<u32>) -> Work<u32> {
    let n_before = n_laid_out(queue);
    let work = queue.take().await.unwrap();
    assert_eq!(n_laid_out(queue), n_before, "somebody looked at the queue");
    work
}

/// All keys that are left, in the order they come.
async fn rest(queue: &Queue<u32>) -> Vec<u32> {
    queue.shut_down(Leftovers::HandOut);
    let mut seen = Vec::new();
    while let Some(work) = queue.take().await {
        seen.push(*work.key());
        work.done();
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn quick_workers_see_the_same_order_as_slow_ones() {
    let queue = laid_out().await;
    assert_eq!(rest(&queue).await, (10..N_KEYS).collect::<Vec<_>>());
    queue.drained().await;
}

#[tokio::test(start_paused = true)]
async fn slow_workers_have_nothing_laid_out() {
    let queue = queue_with(Config::default());
    for _ in 0..10 {
        tokio::time::advance(FRESH).await;
        queue.take().await.unwrap().done();
        assert_eq!(n_laid_out(&queue), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn few_keys_are_not_laid_out() {
    let queue = queue_with(Config::default());
    for left in (1..N_KEYS).rev() {
        queue.take().await.unwrap().done();
        assert!(n_laid_out(&queue) * 10 <= left as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_a_rate_limit_lays_nothing_out() {
    let rate_limit = Some(RateLimit {
        per_second: 1e9,
        burst: 1_000,
    });
    let queue = queue_with(Config {
        rate_limit,
        ..Config::default()
    });
    for _ in 0..100 {
        queue.take().await.unwrap().done();
        assert_eq!(n_laid_out(&queue), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_overtakes_keys_that_are_laid_out() {
    let queue = laid_out().await;
    queue.add(10_000);
    tokio::time::advance(FRESH).await;
    let work = queue.take().await.unwrap();
    assert_eq!(*work.key(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_key_on_a_tray_can_be_raised() {
    let queue = laid_out().await;
    let last = *from_tray(&queue).await.key() + 2;
    queue.add(last);
    assert!(!queue.is_empty(), "and all was heard");
    assert_eq!(*queue.take().await.unwrap().key(), last);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_laid_out_runs_once() {
    let queue = laid_out().await;
    let next = *from_tray(&queue).await.key() + 1;
    queue.add(next);
    let rest = rest(&queue).await;
    assert_eq!(rest.iter().filter(|key| **key == next).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_runs_runs_again_though_it_came_from_a_tray() {
    let queue = laid_out().await;
    let work = from_tray(&queue).await;
    let key = *work.key();
    queue.add(key);
    work.done();
    assert!(rest(&queue).await.contains(&key));
}

#[tokio::test(start_paused = true)]
async fn an_add_that_is_heard_of_while_its_key_runs_is_not_taken_for_one_of_a_waiting_key() {
    let queue = laid_out().await;
    let work = from_tray(&queue).await;
    let key = *work.key();
    queue.add(key);
    drop(queue.shared().lock_to_tell());
    work.done();
    assert!(rest(&queue).await.contains(&key));
}

#[tokio::test(start_paused = true)]
async fn a_key_from_a_tray_that_fails_is_tried_again() {
    let queue = laid_out().await;
    let (failed, dropped) = (from_tray(&queue).await, from_tray(&queue).await);
    let keys = [*failed.key(), *dropped.key()];
    failed.failed("broken");
    drop(dropped);
    assert_eq!(queue.n_waiting(), 2);
    tokio::time::advance(Duration::from_secs(1)).await;
    let mut again = Vec::new();
    while again.len() < 2 {
        let work = queue.take().await.unwrap();
        if work.attempt() == 2 {
            again.push(*work.key());
        }
        work.done();
    }
    again.sort_unstable();
    assert_eq!(again, keys);
}

#[tokio::test(start_paused = true)]
async fn a_key_from_a_tray_that_wants_to_run_later_does() {
    let queue = laid_out().await;
    let work = from_tray(&queue).await;
    let key = *work.key();
    work.requeue_after(Duration::from_secs(1));
    assert_eq!(queue.n_waiting(), 1);
    while !queue.is_empty() {
        queue.take().await.unwrap().done();
    }
    assert_eq!(*queue.take().await.unwrap().key(), key);
}

#[tokio::test(start_paused = true)]
async fn keys_on_trays_are_counted_as_ready_and_those_begun_as_running() {
    let queue = laid_out().await;
    let _work = from_tray(&queue).await;
    assert_eq!((queue.len(), queue.n_running()), (N_KEYS as usize - 11, 1));
    assert_eq!(n_laid_out(&queue), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_go_of_keys_on_trays() {
    let queue = laid_out().await;
    let work = from_tray(&queue).await;
    assert_eq!(queue.shut_down(Leftovers::LetGo), N_KEYS as usize - 11);
    assert!(queue.take().await.is_none());
    let mut drained = Box::pin(queue.drained());
    assert!(at_once(&mut drained).await.is_none());
    work.done();
    drained.await;
}

/// A worker need not look again after its last key.
#[tokio::test(start_paused = true)]
async fn the_last_key_of_a_tray_ends_the_draining() {
    let queue = laid_out().await;
    queue.shut_down(Leftovers::HandOut);
    let mut works = Vec::new();
    while works.len() < N_KEYS as usize - 10 {
        works.push(queue.take().await.unwrap());
    }
    let mut drained = Box::pin(queue.drained());
    assert!(at_once(&mut drained).await.is_none());
    for work in works {
        work.done();
    }
    drained.await;
}

/// What a future gives at once, if anything.
async fn at_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    tokio::time::timeout(Duration::ZERO, future).await.ok()
}

/// The thread that laid them out may be busy for long.
#[test]
fn keys_on_the_tray_of_another_thread_are_found() {
    let queue = Queue::new(Config::default());
    for key in 0..N_KEYS {
        queue.add(key);
    }
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
    };
    let other = queue.clone();
    let take_some = move || {
        runtime().block_on(async {
            // As fast as they go, until some lie on the tray.
            let mut n_taken = 0;
            while n_laid_out(&other) == 0 && n_taken < 1_000 {
                other.take().await.unwrap().done();
                n_taken += 1;
            }
            n_taken
        })
    };
    let n_taken = std::thread::spawn(take_some).join().unwrap();
    let left = runtime().block_on(rest(&queue));
    assert_eq!(left.len(), N_KEYS as usize - n_taken);
}
