//! Every fault, as a client of the server sees it. Also examples of how to use them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Read as _;
use std::time::Duration;

use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::json;
use skopos_client::{Api, Error, ListParams, WatchParams, WatchStream};
use skopos_object::{Status, WatchEvent};
use skopos_testkit::{Added, Data, Fault, Faults, Proxy, Rule, TestServer, definition, value};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

/// A server with widgets `a` and `b`, a fault, and widgets as a client sees them through it.
async fn broken(rule: Rule) -> (TestServer, Api, Added) {
    let server = TestServer::start().await;
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    for name in ["a", "b"] {
        put(&server, name, 1).await;
    }
    let added = server.faults().add(rule);
    let widgets = server.api("example.com/v1", "Widget", "widgets");
    (server, widgets, added)
}

async fn put(server: &TestServer, name: &str, size: u32) {
    let widget = format!(
        "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: default}}, spec: {{size: {size}}}}}"
    );
    server.put(&value(&widget)).await;
}

async fn list(widgets: &Api) -> Result<Vec<String>, Error> {
    let mut list = widgets.list(&ListParams::default());
    let mut names = Vec::new();
    while let Some(object) = list.next().await? {
        names.push(object.name().to_owned());
    }
    Ok(names)
}

/// A watch of everything there is and will be.
async fn watch(widgets: &Api) -> WatchStream {
    let params = WatchParams {
        initial_events: true,
        ..WatchParams::default()
    };
    widgets.watch(&params).await.unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> u16 {
    result.unwrap_err().status().unwrap().code
}

/// Events as text, until the stream is quiet for an hour, ends or fails.
async fn events(mut watch: WatchStream) -> String {
    let mut seen = Vec::new();
    loop {
        let event = match timeout(Duration::from_secs(240), watch.next()).await {
            Err(_) => "silence".to_owned(),
            Ok(Ok(None)) => "end".to_owned(),
            Ok(Err(Error::Refused(status))) => format!("error {}", status.code),
            Ok(Err(_)) => "broken".to_owned(),
            Ok(Ok(Some(event))) => {
                seen.push(match event {
                    WatchEvent::Added(object) => format!("+{}", object.name()),
                    WatchEvent::Modified(object) => format!("~{}", object.name()),
                    WatchEvent::Deleted(object) => format!("-{}", object.name()),
                    WatchEvent::Malformed { .. } => "malformed".to_owned(),
                    WatchEvent::Bookmark { .. } => "mark".to_owned(),
                });
                continue;
            }
        };
        seen.push(event);
        return seen.join(" ");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_reaches_nobody() {
    let (_server, widgets, refused) = broken(Rule::list().first(2).then(Fault::Refused)).await;
    assert!(list(&widgets).await.unwrap_err().is_unreachable());
    assert!(list(&widgets).await.unwrap_err().is_unreachable());
    assert_eq!(list(&widgets).await.unwrap(), ["a", "b"]);
    assert_eq!(refused.injected(), 2);
}

#[tokio::test(start_paused = true)]
async fn answers_are_told_instead() {
    for (fault, expect) in [
        (Fault::gone(), 410),
        (Fault::too_many_requests(3), 429),
        (Fault::unavailable(1), 503),
        (Fault::internal(), 500),
        (Fault::version_too_large(), 504),
        (Fault::Answer(Status::unauthorized()), 401),
    ] {
        let (_server, widgets, _) = broken(Rule::list().resource("widgets").then(fault)).await;
        assert_eq!(code(list(&widgets).await), expect);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_in_the_header_too() {
    let (server, _, _) = broken(Rule::any().then(Fault::too_many_requests(3))).await;
    let request = Request::get("/api/v1/pods").body(Body::empty()).unwrap();
    let response = server.kube().send(request).await.unwrap();
    assert_eq!(response.headers()[header::RETRY_AFTER], "3");
}

#[tokio::test(start_paused = true)]
async fn conflict_writes_nothing() {
    let (_server, widgets, _) = broken(Rule::write().name("a").nth(1).then(Fault::conflict())).await;
    let patch = json!({"spec": {"size": 9}});
    let default = Api::namespaced(widgets.client(), widgets.resource(), "default");
    let send = async || {
        let patch = skopos_client::Patch::Merge(&patch);
        default.patch("a", patch, &Default::default()).await
    };
    assert!(send().await.unwrap_err().is_conflict());
    assert_eq!(default.get("a").await.unwrap()["spec"]["size"], 1);
    send().await.unwrap();
    assert_eq!(default.get("a").await.unwrap()["spec"]["size"], 9);
}

#[tokio::test(start_paused = true)]
async fn lost_answer_of_a_write_that_happened() {
    let (_server, widgets, _) = broken(Rule::write().nth(1).then(Fault::LostAnswer)).await;
    let default = Api::namespaced(widgets.client(), widgets.resource(), "default");
    let deleted = default.delete("a", &Default::default()).await;
    assert!(deleted.unwrap_err().is_unreachable());
    assert_eq!(list(&widgets).await.unwrap(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn error_event_comes_inside_the_watch() {
    let (_server, widgets, _) = broken(Rule::watch().then(Fault::gone_in_stream(1))).await;
    assert_eq!(events(watch(&widgets).await).await, "+a error 410");
    let (_server, widgets, _) = broken(Rule::watch().then(Fault::gone_in_stream(0))).await;
    assert_eq!(events(watch(&widgets).await).await, "error 410");
}

#[tokio::test(start_paused = true)]
async fn cut_end_and_stall_at_any_byte() {
    for (fault, expect) in [
        (Fault::Cut { after_bytes: 0 }, "broken"),
        (Fault::Cut { after_bytes: 700 }, "+a broken"),
        (Fault::Stall { after_bytes: 700 }, "+a silence"),
    ] {
        let (_server, widgets, _) = broken(Rule::watch().then(fault)).await;
        assert_eq!(events(watch(&widgets).await).await, expect);
    }
    let (_server, widgets, _) = broken(Rule::list().then(Fault::Cut { after_bytes: 400 })).await;
    assert!(matches!(list(&widgets).await, Err(Error::Interrupted { .. })));
    let (_server, widgets, ended) = broken(Rule::list().then(Fault::End { after_bytes: 400 })).await;
    assert!(list(&widgets).await.is_err(), "half a list is no list");
    assert_eq!(ended.injected(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_list_takes_its_time_on_a_paused_clock() {
    let slow = Fault::Slow(Duration::from_secs(600));
    let (_server, widgets, _) = broken(Rule::list().then(slow)).await;
    let begun = Instant::now();
    assert_eq!(list(&widgets).await.unwrap(), ["a", "b"]);
    assert_eq!(begun.elapsed().as_secs(), 600);
}

/// When changes of a size arrive at a watch, in seconds from now, until so many have.
fn arrivals(mut watch: WatchStream, n: usize) -> JoinHandle<Vec<u64>> {
    let begun = Instant::now();
    tokio::spawn(async move {
        let mut arrived = Vec::new();
        while arrived.len() < n {
            if let Some(WatchEvent::Modified(_)) = watch.next().await.unwrap() {
                arrived.push(begun.elapsed().as_secs());
            }
        }
        arrived
    })
}

#[tokio::test(start_paused = true)]
async fn events_lag_in_order_also_on_a_watch_that_is_open() {
    let (server, widgets, _) = broken(Rule::watch().nth(99).then(Fault::gone())).await;
    let arrivals = arrivals(watch(&widgets).await, 4);
    let lags = [0, 7, 7, 0].map(Duration::from_secs);
    for (lag, size) in lags.into_iter().zip(2..) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.faults().lag("widgets", lag);
        put(&server, "a", size).await;
    }
    // The last does not overtake those before it.
    assert_eq!(arrivals.await.unwrap(), [1, 9, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn what_lags_can_break_as_well_and_a_lag_outlives_the_rules() {
    let (server, widgets, rule) = broken(Rule::watch().first(1).then(Fault::gone_in_stream(2))).await;
    server.faults().lag("widgets", Duration::from_secs(7));
    let begun = Instant::now();
    let mut gone = watch(&widgets).await;
    while gone.next().await.is_ok_and(|event| event.is_some()) {}
    assert_eq!((rule.injected(), begun.elapsed().as_secs()), (1, 7));
    server.faults().clear();
    let arrivals = arrivals(watch(&widgets).await, 1);
    put(&server, "a", 2).await;
    assert_eq!(arrivals.await.unwrap(), [7]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_twice_or_late() {
    let (server, widgets, _) = broken(Rule::watch().then(Fault::DuplicateBookmarks)).await;
    let twice = events(watch(&widgets).await);
    assert_eq!(
        twice.await,
        "+a +b mark mark mark mark mark mark mark mark mark mark mark mark end"
    );
    server.faults().clear();
    server.faults().add(Rule::watch().then(Fault::LateBookmarks));
    let late = tokio::spawn(events(watch(&widgets).await));
    tokio::time::sleep(Duration::from_secs(90)).await;
    put(&server, "a", 2).await;
    let late = late.await.unwrap();
    assert!(late.starts_with("+a +b mark ~a mark"), "{late}");
}

#[tokio::test(start_paused = true)]
async fn gzip_members_only_for_who_accepts_them() {
    let (server, _, gzip) = broken(Rule::list().then(Fault::GzipMembers)).await;
    let get = async |encoding: &str| {
        let request = Request::get("/apis/example.com/v1/widgets").header(header::ACCEPT_ENCODING, encoding);
        let request = request.body(Body::empty()).unwrap();
        let response = server.kube().send(request).await.unwrap();
        let packed = response.headers().get(header::CONTENT_ENCODING).is_some();
        let mut bytes = Vec::new();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        (packed, bytes)
    };
    let (packed, plain) = get("identity").await;
    assert_eq!((packed, gzip.injected()), (false, 0));
    let (packed, bytes) = get("gzip").await;
    let mut unpacked = Vec::new();
    flate2::read::MultiGzDecoder::new(&*bytes)
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!((packed, gzip.injected(), unpacked), (true, 1, plain));
}

#[tokio::test(start_paused = true)]
async fn servers_without_streaming_lists_refuse_them() {
    let (_server, widgets, _) = broken(Rule::any().then(Fault::NoStreamingLists)).await;
    let params = WatchParams {
        initial_events: true,
        ..WatchParams::default()
    };
    assert_eq!(code(widgets.watch(&params).await), 422);
    assert!(widgets.watch(&WatchParams::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn chances_repeat_with_their_seed() {
    let run = async || {
        let (server, widgets, some) = broken(Rule::list().with_chance(0.3).then(Fault::Refused)).await;
        let mut outcome = Vec::new();
        for _ in 0..20 {
            outcome.push(list(&widgets).await.is_ok());
        }
        assert_eq!(server.faults().injected(), some.injected());
        outcome
    };
    let first = run().await;
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
    assert_eq!(first, run().await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_breaks_what_is_open_and_refuses_the_rest() {
    let (mut server, widgets, _) = broken(Rule::get().then(Fault::Refused)).await;
    let open = watch(&widgets).await;
    server.faults().go_away();
    assert_eq!(events(open).await, "broken");
    assert!(list(&widgets).await.unwrap_err().is_unreachable());
    server.faults().come_back();
    assert_eq!(list(&widgets).await.unwrap(), ["a", "b"]);
    let open = watch(&widgets).await;
    server.restart(Data::Kept).await;
    assert_eq!(events(open).await, "broken");
}

#[tokio::test]
async fn faults_work_through_a_proxy_over_tls() {
    let mut server = TestServer::start().await;
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.serve().await).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
    let over_tls = kube::Client::try_from(config.unwrap()).unwrap();
    let faults = Faults::seeded(0);
    let proxy = Proxy::start(over_tls, &faults).await.unwrap();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&proxy.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    let namespaces =
        kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(kube::Client::try_from(config).unwrap());
    let lost = faults.add(Rule::list().nth(1).then(Fault::Cut { after_bytes: 50 }));
    assert!(namespaces.list(&Default::default()).await.is_err());
    assert!(namespaces.list(&Default::default()).await.is_ok());
    assert_eq!(lost.injected(), 1);
    proxy.stop().await;
    server.stop().await;
}
