//! HTTP endpoints.

mod endpoint;

use std::time::{Duration, SystemTime};

use hmac::{Hmac, Mac as _};
use http::Version;
use serde_json::Value;
use sha2::Sha256;
use skopos_sink::Failure;
use skopos_testkit::parts::Authority;

use crate::silence::{Proxy, check_silence};
use crate::support::{Known, check_arrived, deliver, event, events, refused, sink, told, unavailable};

use self::endpoint::{Answer, Endpoint};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn webhook_gets_one_event_as_binary_and_several_as_a_batch() {
    let endpoint = Endpoint::start(None).await;
    let yaml = format!(
        "{{webhook: {{url: '{}/hook?a=b'}}, delivery: {{batch: {{maxEvents: 10}}}}}}",
        endpoint.url()
    );
    let destination = sink(&yaml, &Known::default()).await;
    let mut events = events(0..3, 2);
    events[0].traceparent = Some(TRACEPARENT.into());
    assert!(destination.send(&events[..1]).await.failure.is_none());
    assert!(destination.send(&events).await.failure.is_none());
    let requests = endpoint.requests();
    assert_eq!(requests[0].line, "POST /hook?a=b");
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", "object-0/0"),
        ("ce-type", "dev.skopos.updated"),
        ("ce-source", "/clusters/test/apps/deployments"),
        ("ce-subject", "default/object-0"),
        ("ce-time", "2026-01-02T03:04:05.678Z"),
        ("ce-rule", "default/all"),
        ("ce-traceparent", TRACEPARENT),
        ("traceparent", TRACEPARENT),
        ("idempotency-key", "object-0/0"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(requests[0].header(name), value, "{name}");
    }
    assert_eq!(requests[0].body, br#"{"n":0}"#);
    assert_eq!(
        requests[1].header("content-type"),
        "application/cloudevents-batch+json"
    );
    let batch: Value = serde_json::from_slice(&requests[1].body).unwrap();
    let ids: Vec<_> = batch
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["object-0/0", "object-1/1", "object-0/2"]);
    assert_eq!(batch[2]["data"]["n"], 2);
    assert_eq!(
        (&batch[0]["traceparent"], batch[1].get("traceparent")),
        (&TRACEPARENT.into(), None)
    );
    assert_eq!(requests[1].header("traceparent"), "", "each event has its own");
    assert_eq!(endpoint.n_connections(), 1, "connections are used again");
}

#[tokio::test]
async fn webhook_signs_and_proves_who_it_is_without_ever_showing_it() {
    let endpoint = Endpoint::start(None).await;
    let known = Known::default()
        .with("token", "hunter2\n")
        .with("key", "signing-key")
        .with("header", "hunter3");
    let yaml = format!(
        "webhook: {{url: '{}', auth: {{token: {{secret: {{name: s, key: token}}}}}},
          hmac: {{secret: {{secret: {{name: s, key: key}}}}}},
          headers: [{{name: X-Team, value: {{value: ops}}}}, {{name: X-Key, value: {{secret: {{name: s, key: header}}}}}}]}}",
        endpoint.url()
    );
    let destination = sink(&yaml, &known).await;
    assert!(destination.send(&[event(0, "a")]).await.failure.is_none());
    let request = &endpoint.requests()[0];
    assert_eq!(request.header("authorization"), "Bearer hunter2");
    assert_eq!(
        (request.header("x-team"), request.header("x-key")),
        ("ops", "hunter3")
    );
    let (time, signature) = request.header("skopos-signature").split_once(",v1=").unwrap();
    let seconds: u64 = time.strip_prefix("t=").unwrap().parse().unwrap();
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    assert!(age.is_ok());
    let mut mac = Hmac::<Sha256>::new_from_slice(b"signing-key").unwrap();
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(&request.body);
    let expect: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(signature, expect);

    endpoint.answer(Answer::new(401).body("who is Bearer hunter2 with hunter3?"));
    let text = unavailable(&*destination).await;
    assert!(
        text.contains("401 Unauthorized: check auth: who is Bearer … with …?"),
        "{text}"
    );
    assert!(!format!("{destination:?}").contains("hunter"));
}

#[tokio::test]
async fn webhook_answers_decide_between_later_and_never() {
    let endpoint = Endpoint::start(None).await;
    let known = Known::default().with("url", &format!("{}/secret-path", endpoint.url()));
    let destination = sink("webhook: {urlFrom: {secret: {name: s, key: url}}}", &known).await;
    endpoint.answer(Answer::new(503).header("retry-after", "7"));
    let sent = destination.send(&[event(0, "a")]).await;
    assert!(
        matches!(sent.failure, Some(Failure::Unavailable { retry_after: Some(wait), .. }) if wait.as_secs() == 7),
        "{sent:?}"
    );
    endpoint.answer(Answer::new(302).header("location", "http://127.0.0.1:1/"));
    let text = unavailable(&*destination).await;
    assert!(
        text.contains("redirects are not followed") && !text.contains("secret-path"),
        "{text}"
    );
    endpoint.answer(Answer::new(422).body(&"no ".repeat(100_000)));
    let text = refused(&*destination, event(0, "a")).await;
    assert!(
        text.contains("422 Unprocessable Entity: no no") && text.len() < 600,
        "{text}"
    );
    assert!(destination.send(&[event(0, "a")]).await.failure.is_none());
}

/// Many servers repeat the address they were asked for, and that of many is a password.
#[tokio::test]
async fn webhook_never_shows_an_address_from_a_secret() {
    let endpoint = Endpoint::start(None).await;
    let key = "hunter2hunter2hunter2";
    let path = format!("/services/T0/B0/{key}?token=swordfish%2Fsalmon&mode=x");
    let known = Known::default().with("url", &format!("{}{path}", endpoint.url()));
    let destination = sink("webhook: {urlFrom: {secret: {name: s, key: url}}}", &known).await;
    let decoded = path.replace("%2F", "/");
    for body in [
        format!("Cannot POST {path}"),
        format!("Cannot POST {decoded}"),
        format!("no route {}", path.replace('/', "\\/")),
        format!("<pre>{}</pre>", path.replace('&', "&amp;")),
        format!("there is nobody called {key} here, swordfish/salmon"),
        // It is cut in the middle of the key.
        format!("{}{key}", "x".repeat(290)),
    ] {
        endpoint.answer(Answer::new(404).body(&body));
        let text = unavailable(&*destination).await;
        assert!(text.contains("404 Not Found: check url"), "{text}");
        for hidden in ["hunter", "swordfish", "salmon"] {
            assert!(!text.contains(hidden), "{body}: {text}");
        }
    }
    endpoint.answer(Answer::new(404).body(&format!("Cannot POST {path}")));
    let text = unavailable(&*destination).await;
    assert!(
        text.ends_with("404 Not Found: check url: Cannot POST …"),
        "{text}"
    );
}

/// What everybody may read need not be hidden, and helps.
#[tokio::test]
async fn webhook_shows_an_address_that_is_no_secret() {
    let endpoint = Endpoint::start(None).await;
    let yaml = format!("webhook: {{url: '{}/some/long-path'}}", endpoint.url());
    let destination = sink(&yaml, &Known::default()).await;
    endpoint.answer(Answer::new(404).body("Cannot POST /some/long-path"));
    let text = unavailable(&*destination).await;
    assert!(text.ends_with("Cannot POST /some/long-path"), "{text}");
}

#[tokio::test]
async fn webhook_that_refuses_a_batch_is_asked_one_by_one() {
    let endpoint = Endpoint::start(None).await;
    let yaml = format!(
        "{{webhook: {{url: '{}'}}, delivery: {{batch: {{maxEvents: 10}}}}}}",
        endpoint.url()
    );
    let destination = sink(&yaml, &Known::default()).await;
    for code in [400, 200, 400] {
        endpoint.answer(Answer::new(code));
    }
    let sent = destination.send(&events(0..3, 1)).await;
    assert_eq!(sent.n_delivered, 1);
    assert!(matches!(sent.failure, Some(Failure::Refused(_))), "{sent:?}");
    let ids: Vec<_> = endpoint
        .requests()
        .iter()
        .skip(1)
        .map(|request| request.header("ce-id").to_owned())
        .collect();
    assert_eq!(ids, ["object-0/0", "object-0/1"]);
}

/// What had arrived was forgotten when the time of the call was over, and sent again, for ever.
#[tokio::test]
async fn webhook_that_refuses_batches_and_is_slow_gets_each_event_about_once() {
    let endpoint = Endpoint::start(None).await;
    endpoint.refuse_batches(Duration::from_millis(20));
    let yaml = format!(
        "{{webhook: {{url: '{}'}}, delivery: {{timeout: 1s, batch: {{maxEvents: 100}}}}}}",
        endpoint.url()
    );
    let destination = sink(&yaml, &Known::default()).await;
    let all = events(0..100, 3);
    let (mut rest, mut n_calls) = (&all[..], 0);
    while !rest.is_empty() && n_calls < 20 {
        n_calls += 1;
        let sending = destination.send(rest);
        if let Ok(sent) = tokio::time::timeout(Duration::from_secs(1), sending).await {
            assert!(sent.failure.is_none(), "{sent:?}");
            rest = &rest[sent.n_delivered..];
        }
    }
    let requests = endpoint.requests();
    let ids = requests.iter().map(|request| request.header("ce-id").to_owned());
    let ids: Vec<String> = ids.filter(|id| !id.is_empty()).collect();
    check_arrived(&ids, &all);
    assert!(
        ids.len() <= all.len() + n_calls,
        "{} in {n_calls} calls",
        ids.len()
    );
}

#[tokio::test]
async fn webhook_checks_certificates_and_shows_its_own() {
    let (authority, other) = (Authority::new(), Authority::new());
    let endpoint = Endpoint::start(Some((&authority.issue(&["hooks.example.com"]), authority.pem()))).await;
    let ours = authority.issue(&["skopos"]);
    let known = Known::default()
        .with("ca", authority.pem())
        .with("other", other.pem())
        .with("cert", &ours.cert)
        .with("key", &ours.key);
    let destination = async |ca: &str, more: &str| {
        let tls = format!("{{ca: {{secret: {{name: s, key: {ca}}}}}{more}}}");
        sink(
            &format!("webhook: {{url: '{}', tls: {tls}}}", endpoint.url()),
            &known,
        )
        .await
    };
    let text = unavailable(&*destination("ca", "").await).await;
    assert!(text.contains("not valid for name"), "{text}");
    let text = unavailable(&*destination("other", ", serverName: hooks.example.com").await).await;
    assert!(text.contains("invalid peer certificate"), "{text}");
    let text = unavailable(&*destination("ca", ", serverName: hooks.example.com").await).await;
    assert!(text.contains("ertificate"), "{text}");
    let pair = ", serverName: hooks.example.com, cert: {secret: {name: s, key: cert}}, key: {secret: {name: s, key: key}}";
    let sent = destination("ca", pair).await.send(&[event(0, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
}

#[tokio::test]
async fn webhook_that_is_down_is_reached_when_it_is_up_again() {
    let mut endpoint = Endpoint::start(None).await;
    let destination = sink(
        &format!("webhook: {{url: '{}'}}", endpoint.url()),
        &Known::default(),
    )
    .await;
    let all = events(0..20, 3);
    deliver(&*destination, &all[..10]).await;
    endpoint.stop().await;
    let sent = destination.send(&all[10..11]).await;
    let text = told(&sent.failure.unwrap());
    assert!(text.contains("cannot reach http://127.0.0.1:"), "{text}");
    endpoint.start_again().await;
    deliver(&*destination, &all[10..]).await;
    let ids: Vec<_> = endpoint
        .requests()
        .iter()
        .map(|request| request.header("ce-id").to_owned())
        .collect();
    check_arrived(&ids, &all);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_connected_anew_when_the_connection_is_silently_gone() {
    let endpoint = Endpoint::start(None).await;
    let server = endpoint.url().trim_start_matches("http://").to_owned();
    let proxy = Proxy::start(server, false).await;
    let yaml = format!("webhook: {{url: 'http://{}/'}}", proxy.address);
    let destination = sink(&yaml, &Known::default()).await;
    let sent = check_silence(&proxy, &*destination).await;
    let requests = endpoint.requests();
    let ids: Vec<String> = requests
        .iter()
        .map(|one| one.header("ce-id").to_owned())
        .collect();
    check_arrived(&ids, &sent);
}

/// Over HTTP/2 the connection was used again by each attempt, until the system gave it up, minutes later.
#[tokio::test(flavor = "multi_thread")]
async fn webhook_over_http2_is_connected_anew_when_the_connection_is_silently_gone() {
    let authority = Authority::new();
    let issued = authority.issue(&["hooks.example.com"]);
    let endpoint = Endpoint::start(Some((&issued, authority.pem()))).await;
    let server = endpoint.url().trim_start_matches("https://").to_owned();
    let proxy = Proxy::start(server, false).await;
    let known = Known::default()
        .with("ca", authority.pem())
        .with("cert", &issued.cert)
        .with("key", &issued.key);
    let yaml = format!(
        "webhook: {{url: 'https://{}/', tls: {{serverName: hooks.example.com, ca: {{secret: {{name: s, key: ca}}}},
          cert: {{secret: {{name: s, key: cert}}}}, key: {{secret: {{name: s, key: key}}}}}}}}",
        proxy.address
    );
    let destination = sink(&yaml, &known).await;
    let delivery = check_silence(&proxy, &*destination);
    let sent = tokio::time::timeout(Duration::from_secs(30), delivery).await;
    let requests = endpoint.requests();
    assert!(requests.iter().all(|one| one.version == Version::HTTP_2));
    let ids: Vec<String> = requests
        .iter()
        .map(|one| one.header("ce-id").to_owned())
        .collect();
    check_arrived(&ids, &sent.expect("it goes on soon"));
}
