//! NATS JetStream.

use std::time::Duration;

use async_nats::{ConnectOptions, jetstream};
use skopos_testkit::parts::{Authority, Nats, USER};

use crate::{
    AUTH, OTHER, Repeats, Server, TLS, WRONG, check_delivery, secrets,
    support::{check_arrived, deliver, event, events, refused, sink, unavailable},
};

struct Stream(Nats);

impl Stream {
    async fn context(&self) -> jetstream::Context {
        let options = ConnectOptions::with_user_and_password(USER.0.into(), USER.1.into());
        jetstream::new(options.connect(self.0.address()).await.unwrap())
    }

    async fn make(&self, max_message_size: i32) {
        let config = jetstream::stream::Config {
            name: "changes".into(),
            subjects: vec!["changes.>".into()],
            max_message_size,
            ..Default::default()
        };
        self.context().await.create_stream(config).await.unwrap();
    }
}

impl Server for Stream {
    async fn stop(&mut self) {
        self.0.stop().await;
    }

    async fn start(&mut self) {
        self.0.start_again().await;
    }

    async fn received(&self) -> Vec<String> {
        let mut stream = self.context().await.get_stream("changes").await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut ids = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            ids.push(message.headers.get("Nats-Msg-Id").unwrap().as_str().to_owned());
        }
        ids
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_gets_each_event_once_in_order_across_a_restart() {
    let mut stream = Stream(Nats::start(None).await);
    stream.make(-1).await;
    let yaml = format!(
        "nats: {{servers: ['nats://{}'], subject: changes.all, {AUTH}}}",
        stream.0.address()
    );
    let destination = sink(&yaml, &secrets("", "")).await;
    check_delivery(&mut stream, destination, Repeats::Dropped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_that_hangs_is_given_up_by_the_caller_and_used_again_later() {
    let stream = Stream(Nats::start(None).await);
    stream.make(-1).await;
    let yaml = format!(
        "nats: {{servers: ['{}'], subject: changes.all, {AUTH}}}",
        stream.0.address()
    );
    let destination = sink(&yaml, &secrets("", "")).await;
    let all = events(0..6, 2);
    deliver(&*destination, &all[..2]).await;
    stream.0.pause().await;
    let hanging = tokio::time::timeout(Duration::from_millis(200), destination.send(&all[2..4])).await;
    assert!(hanging.is_err(), "{hanging:?}");
    stream.0.resume();
    deliver(&*destination, &all[2..]).await;
    let received = stream.received().await;
    assert_eq!(received.len(), all.len());
    check_arrived(&received, &all);
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_without_a_stream_or_with_too_large_events_says_so() {
    let stream = Stream(Nats::start(None).await);
    let yaml = format!(
        "nats: {{servers: ['{}'], subject: changes.all, {AUTH}}}",
        stream.0.address()
    );
    let destination = sink(&yaml, &secrets("", "")).await;
    let text = unavailable(&*destination).await;
    assert!(text.contains("no stream listens to \"changes.all\""), "{text}");
    stream.make(2_000).await;
    let large = |bytes| skopos_sink::Event {
        data: vec![b' '; bytes].into(),
        ..event(1, "a")
    };
    let text = refused(&*destination, large(3_000)).await;
    assert!(text.contains("larger than the stream"), "{text}");
    let text = refused(&*destination, large(2 << 20)).await;
    assert!(text.contains("max_payload"), "{text}");
    let sent = destination.send(&[event(1, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_credentials_and_certificates_that_are_wrong_are_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let nats = Nats::start(Some(&authority.issue(&["127.0.0.1"]))).await;
    let secrets = secrets(authority.pem(), other.pem());
    let destination = async |options: &str| {
        let yaml = format!(
            "nats: {{servers: ['tls://{}'], subject: changes.all, {options}}}",
            nats.address()
        );
        sink(&yaml, &secrets).await
    };
    let good = destination(&format!("{AUTH}, {TLS}")).await;
    let text = unavailable(&*good).await;
    assert!(text.contains("no stream listens"), "{text}");
    let text = unavailable(&*destination(&format!("{WRONG}, {TLS}")).await).await;
    assert!(text.contains("authorization"), "{text}");
    assert!(!text.contains("wrong-password"), "{text}");
    let text = unavailable(&*destination(&format!("{AUTH}, {OTHER}")).await).await;
    assert!(text.contains("invalid peer certificate"), "{text}");
    assert!(!format!("{good:?}").contains(USER.1));
}
