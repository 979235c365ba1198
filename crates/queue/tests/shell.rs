//! The async shell, on a paused clock.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use prometheus_client::registry::Registry;
use skopos_queue::{AddOptions, Config, Leftovers, Metrics, Outcome, Queue, Unfinished};

fn queue() -> Queue<u32> {
    Queue::new(Config {
        name: "test".to_owned(),
        ..Config::default()
    })
}

/// Polls once.
async fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_ready())).await
}

fn after(delay: Duration) -> AddOptions {
    AddOptions {
        after: Some(delay),
        ..AddOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn work_knows_whether_it_is_given_up_if_it_fails() {
    let queue = Queue::new(Config {
        max_attempts: Some(2),
        change_spacing: Duration::ZERO,
        ..Config::default()
    });
    let failed = || Outcome::Failed("broken".to_owned());
    queue.add(1);
    let first = queue.take().await.unwrap();
    assert!(!first.is_given_up_after(&failed()));
    assert!(first.is_given_up_after(&Outcome::Terminal("broken".to_owned())));
    first.finish(failed());
    queue.add(1);
    let ahead_of_the_retry = queue.take().await.unwrap();
    assert!(!ahead_of_the_retry.is_given_up_after(&failed()));
    ahead_of_the_retry.finish(failed());
    let second = queue.take().await.unwrap();
    assert!(second.is_given_up_after(&failed()));
    queue.add(1);
    assert!(!second.is_given_up_after(&failed()), "it was changed meanwhile");
    second.done();
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_worker_wakes_for_an_earlier_delay() {
    let queue = queue();
    queue.add_with(1, after(Duration::from_secs(60)));
    let worker = queue.clone();
    let taken = tokio::spawn(async move { *worker.take().await.unwrap().key() });
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    queue.add_with(2, after(Duration::from_secs(1)));
    assert_eq!(taken.await.unwrap(), 2);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_take_loses_no_key_and_no_wake() {
    let queue = queue();
    let mut first = queue.take();
    let mut second = queue.take();
    assert!(!is_ready(&mut first).await);
    assert!(!is_ready(&mut second).await);
    let second = tokio::spawn(second);
    tokio::task::yield_now().await;
    queue.add(1);
    drop(first);
    assert_eq!(*second.await.unwrap().unwrap().key(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_dropped_by_a_panic_is_tried_again() {
    let queue = queue();
    queue.add(1);
    let work = queue.take().await.unwrap();
    let panicked = tokio::spawn(async move {
        let _work = work;
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    let again = queue.take().await.unwrap();
    assert_eq!((*again.key(), again.attempt()), (1, 2));
    again.done();
}

/// Point 40.
#[tokio::test(start_paused = true)]
async fn shutdown_stops_intake_and_waits_for_running_keys_until_a_deadline() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    let work = queue.take().await.unwrap();
    let minute = Duration::from_secs(60);
    let unfinished = queue.drain(Leftovers::HandOut, minute).await;
    assert_eq!(unfinished, Err(Unfinished { running: 1, ready: 1 }));
    assert!(!queue.add(3));
    let worker = queue.clone();
    let rest = tokio::spawn(async move {
        let mut n = 0;
        while let Some(work) = worker.take().await {
            work.done();
            n += 1;
        }
        n
    });
    tokio::task::yield_now().await;
    work.done();
    assert_eq!(queue.drain(Leftovers::HandOut, minute).await, Ok(()));
    assert_eq!(rest.await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_process_every_key() {
    let queue = queue();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        workers.spawn(async move {
            let mut seen = Vec::new();
            while let Some(work) = queue.take().await {
                seen.push(*work.key());
                work.done();
            }
            seen
        });
    }
    for key in 0..20_000 {
        queue.add(key);
    }
    queue.shut_down(Leftovers::HandOut);
    let mut seen = workers.join_all().await.concat();
    seen.sort_unstable();
    assert_eq!(seen, (0..20_000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_usual_names() {
    let (queue, metrics, mut registry) = (queue(), Metrics::new(), Registry::default());
    metrics.register(&mut registry);
    queue.observe(&metrics);
    queue.add(1);
    queue.add(1);
    queue.add(2);
    let _running = queue.take().await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"workqueue_depth{name="test",priority="high"} 1"#,
        r#"workqueue_adds_total{name="test"} 2"#,
        r#"workqueue_coalesced_adds_total{name="test"} 1"#,
        r#"workqueue_retries_total{name="test"} 0"#,
        r#"workqueue_unfinished_work_seconds{name="test"} 3.0"#,
        r#"workqueue_longest_running_processor_seconds{name="test"} 3.0"#,
        r#"workqueue_queue_duration_seconds_count{name="test"} 1"#,
        r#"workqueue_work_duration_seconds_count{name="test"} 0"#,
        r#"workqueue_oldest_ready_seconds{name="test"} 3.0"#,
        r#"workqueue_tenant_handed_out_total{name="test",tenant=""} 1.0"#,
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}
