//! Writes under a guard, against a scripted server with a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use skopos_client::{Answer, Api, Call, Client, Error, Fate, Limits, WriteGuard, WriteParams};
use support::{Exchange, exchange, resource, scripted};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Admits writes until a time, and keeps what was written.
struct Until(Option<Instant>, Mutex<Vec<String>>, Mutex<Vec<Fate>>);

impl WriteGuard for Until {
    fn admit(&self, _: &Call) -> Result<Option<Instant>, Box<dyn std::error::Error + Send + Sync>> {
        match self.0 {
            Some(until) if until > Instant::now() => Ok(Some(until)),
            Some(_) => Err("too late".into()),
            None => Ok(None),
        }
    }

    fn written(&self, call: &Call, answer: &Answer) {
        let line = format!("{} {} {}", call.method(), call.path(), answer.code);
        self.1.lock().unwrap().push(line);
    }

    fn ended(&self, _: &Call, fate: Fate) {
        self.2.lock().unwrap().push(fate);
    }
}

fn guarded(script: Vec<Exchange>, until: Option<Instant>) -> (Api, Arc<Until>, impl Fn() -> usize) {
    let guard = Arc::new(Until(until, Mutex::default(), Mutex::default()));
    let (client, left) = scripted(script);
    let client = client.with_limits(&Limits::default()).guarded(guard.clone());
    let left = move || left.lock().unwrap().len();
    (Api::all(&client, &resource()), guard, left)
}

#[tokio::test(start_paused = true)]
async fn tells_the_guard_of_writes_and_not_of_reads() {
    let script = vec![exchange(&[], 200, "{}"), exchange(&[], 201, "{}")];
    let (api, guard, _) = guarded(script, None);
    api.get("a").await.unwrap();
    api.create(&json!({}), &WriteParams::default()).await.unwrap();
    let written = guard.1.lock().unwrap().clone();
    assert_eq!(written, [format!("POST {} 201", api.path())]);
}

#[tokio::test(start_paused = true)]
async fn tells_the_guard_whether_what_was_sent_may_still_happen() {
    let script = vec![
        exchange(&[], 201, "{}"),
        exchange(
            &[],
            409,
            r#"{"kind": "Status", "code": 409, "reason": "Conflict"}"#,
        ),
        exchange(
            &[],
            504,
            r#"{"kind": "Status", "code": 504, "reason": "Timeout"}"#,
        ),
    ];
    let (api, guard, _) = guarded(script, None);
    for _ in 0..3 {
        let _ = api.create(&json!({}), &WriteParams::default()).await;
    }
    assert_eq!(
        *guard.2.lock().unwrap(),
        [Fate::Known, Fate::Known, Fate::Unknown]
    );
}

#[tokio::test(start_paused = true)]
async fn sends_nothing_that_the_guard_holds_back() {
    let (api, _, left) = guarded(vec![exchange(&[], 201, "{}")], Some(Instant::now()));
    let error = api.create(&json!({}), &WriteParams::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Withheld { source, .. } if source.to_string() == "too late"));
    assert_eq!(left(), 1);
}

#[tokio::test(start_paused = true)]
async fn asks_the_guard_again_before_a_repetition() {
    let busy = exchange(&[], 429, "busy").header("retry-after", "2");
    let until = Instant::now() + Duration::from_secs(1);
    let (api, _, left) = guarded(vec![busy, exchange(&[], 201, "{}")], Some(until));
    let error = api.create(&json!({}), &WriteParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::Withheld { .. }), "{error}");
    assert_eq!(left(), 1);
}

/// A process that was paused finds its time over and the way free in the same moment.
#[tokio::test(start_paused = true)]
async fn begins_nothing_more_of_a_write_whose_time_ended_in_a_pause() {
    let (way, arrived) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (free, arrives) = (Arc::clone(&way), Arc::clone(&arrived));
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (way, arrived) = (Arc::clone(&way), Arc::clone(&arrived));
        async move {
            way.notified().await;
            arrived.store(true, Ordering::SeqCst);
            let body = kube::client::Body::from(b"{}".to_vec());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        }
    });
    let client = Client::new(kube::Client::new(service, "default"), "in process");
    let until = Instant::now() + Duration::from_secs(3);
    let client = client.guarded(Arc::new(Until(Some(until), Mutex::default(), Mutex::default())));
    let api = Api::all(&client, &resource());
    let writing = tokio::spawn(async move { api.create(&json!({}), &WriteParams::default()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    free.notify_one();
    tokio::time::advance(Duration::from_secs(10)).await;
    let error = writing.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(!arrives.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn drops_a_write_that_is_not_answered_in_time() {
    let until = Instant::now() + Duration::from_secs(3);
    let (api, guard, _) = guarded(vec![support::silent(&[])], Some(until));
    let error = api.create(&json!({}), &WriteParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(Instant::now(), until);
    assert!(guard.1.lock().unwrap().is_empty());
}
