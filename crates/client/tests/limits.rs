//! How often requests are sent and repeated, against a scripted server with a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::Duration;

use serde_json::json;
use skopos_client::{Api, DeleteParams, Limits, Rate, Retry, WriteParams};
use support::{Exchange, broken, exchange, refused, resource, scripted};
use tokio::time::Instant;

const OK: &str = "{}";

fn busy() -> Exchange {
    exchange(&[], 429, "busy").header("retry-after", "2")
}

fn away() -> Exchange {
    exchange(&[], 503, "away").header("retry-after", "2")
}

/// An API with the default limits, and how many exchanges are left of the script.
fn api(script: Vec<Exchange>) -> (Api, impl Fn() -> usize) {
    let (client, left) = scripted(script);
    let client = client.with_limits(&Limits::default());
    (Api::all(&client, &resource()), move || left.lock().unwrap().len())
}

#[tokio::test(start_paused = true)]
async fn reads_are_repeated_until_they_succeed() {
    let (api, left) = api(vec![
        refused(&[]),
        broken(&[]),
        busy(),
        away(),
        exchange(&[], 200, OK),
    ]);
    let begin = Instant::now();
    api.get("a").await.unwrap();
    assert_eq!(left(), 0);
    let took = begin.elapsed();
    assert!(
        took >= Duration::from_secs(4) && took < Duration::from_secs(6),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn repeats_are_bounded_in_number_and_time() {
    let (few, left) = api((0..9).map(|_| busy()).collect());
    few.get("a").await.unwrap_err();
    assert_eq!(left(), 4);
    let patient = |seconds| exchange(&[], 429, "busy").header("retry-after", seconds);
    let (long, left) = api(vec![patient("20"), patient("20"), exchange(&[], 200, OK)]);
    let begin = Instant::now();
    long.get("a").await.unwrap_err();
    assert_eq!((left(), begin.elapsed()), (1, Duration::from_secs(20)));
}

#[tokio::test(start_paused = true)]
async fn a_create_is_never_done_twice() {
    let object = json!({"metadata": {"generateName": "a-"}});
    for failure in [
        broken(&[]),
        away(),
        exchange(&[], 500, "x"),
        exchange(&[], 504, "x"),
    ] {
        let (api, left) = api(vec![failure, exchange(&[], 201, OK)]);
        api.create(&object, &WriteParams::default()).await.unwrap_err();
        assert_eq!(left(), 1);
    }
    // These were certainly not done.
    let (api, left) = api(vec![refused(&[]), busy(), exchange(&[], 201, OK)]);
    api.create(&object, &WriteParams::default()).await.unwrap();
    assert_eq!(left(), 0);
}

#[tokio::test(start_paused = true)]
async fn writes_with_preconditions_are_repeated_when_the_server_asks() {
    let (update, left) = api(vec![away(), exchange(&[], 200, OK)]);
    let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    update
        .update("a", &object, &WriteParams::default())
        .await
        .unwrap();
    assert_eq!(left(), 0);
    let (delete, left) = api(vec![away(), exchange(&[], 200, OK)]);
    let any = DeleteParams::default();
    delete.delete("a", &any).await.unwrap_err();
    assert_eq!(left(), 1);
    let (delete, left) = api(vec![away(), exchange(&[], 200, OK)]);
    let uid = Some("u".into());
    let this = DeleteParams { uid, ..any };
    delete.delete("a", &this).await.unwrap();
    assert_eq!(left(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_keep_to_the_rate() {
    let (client, _) = scripted((0..30).map(|_| exchange(&[], 200, OK)).collect());
    let client = client.with_limits(&Limits {
        rate: Some(Rate {
            per_second: 10,
            burst: 5,
        }),
        retry: Retry::NEVER,
    });
    let api = Api::all(&client, &resource());
    let begin = Instant::now();
    let reads = futures_util::future::join_all((0..25).map(|_| api.get("a"))).await;
    assert!(reads.iter().all(Result::is_ok));
    let took = begin.elapsed();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_millis(2100),
        "{took:?}"
    );
}
