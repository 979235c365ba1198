//! The async shell, on a paused clock.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use prometheus_client::registry::Registry;
use skopos_queue::{AddOptions, Config, Leftovers, Metrics, Outcome, Queue, RateLimit, Unfinished};

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

/// The turn of a key that is put off is another's, also of one for which a worker waits already.
#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_the_rate_limit_has_the_turn_of_a_key_that_is_put_off() {
    let queue = Queue::new(Config {
        rate_limit: Some(RateLimit {
            per_second: 0.01,
            burst: 1,
        }),
        ..Config::default()
    });
    queue.add(1);
    queue.add(2);
    let first = queue.take().await.unwrap();
    let next = tokio::spawn({
        let queue = queue.clone();
        async move { *queue.take().await.unwrap().key() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.put_off(Duration::from_secs(3600));
    let next = tokio::time::timeout(Duration::from_secs(1), next).await;
    assert_eq!(next.unwrap().unwrap(), 2);
}

/// More tenants than have a series of their own. One of them leaves in between.
#[tokio::test(start_paused = true)]
async fn what_is_counted_of_tenants_never_becomes_less() {
    let queue = Queue::new(Config {
        tenant: |key: &String| key,
        ..Config::default()
    });
    let (metrics, mut registry) = (Metrics::new(), Registry::default());
    metrics.register(&mut registry);
    queue.observe(&metrics);
    for tenant in 0..150 {
        queue.add(format!("tenant-{tenant:03}"));
    }
    for _ in 0..150 {
        let work = queue.take().await.unwrap();
        match work.key().as_str() {
            "tenant-149" => work.failed("broken"),
            _ => work.done(),
        }
    }
    let before = tenants(&registry);
    // Two metrics of a hundred tenants and of the rest.
    assert_eq!(before.len(), 202);
    queue.take().await.unwrap().done();
    let after = tenants(&registry);
    let is_less = |(name, value): &(&String, &f64)| after.get(*name).is_none_or(|now| now < *value);
    let less: Vec<_> = before.iter().filter(is_less).collect();
    assert!(less.is_empty(), "{less:?}");
    assert_eq!(after.len(), 202);
}

/// What is counted of each tenant, by metric and labels.
fn tenants(registry: &Registry) -> BTreeMap<String, f64> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).expect("metrics that can be written");
    let lines = text.lines().filter(|line| line.starts_with("workqueue_tenant_"));
    let samples = lines.filter_map(|line| line.rsplit_once(' '));
    samples
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
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
