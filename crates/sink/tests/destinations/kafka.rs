//! Kafka.

use rskafka::client::{
    Client, ClientBuilder,
    partition::{OffsetAt, UnknownTopicHandling},
};
use skopos_testkit::parts::{Authority, Kafka, USER};

use crate::{
    AUTH, OTHER, Repeats, Server, TLS, WRONG, check_delivery, secrets,
    silence::{Proxy, check_silence},
    support::{check_arrived, event, refused, sink, unavailable},
};

const PARTITIONS: i32 = 3;

struct Topic(Kafka);

impl Topic {
    async fn client(&self) -> Client {
        ClientBuilder::new(vec![self.0.address()]).build().await.unwrap()
    }

    async fn make(&self) {
        let client = self.client().await;
        let controller = client.controller_client().unwrap();
        controller
            .create_topic("changes", PARTITIONS, 1, 10_000)
            .await
            .unwrap();
    }
}

impl Server for Topic {
    async fn stop(&mut self) {
        self.0.stop().await;
    }

    async fn start(&mut self) {
        self.0.start_again().await;
    }

    /// Partition by partition: an object has but one.
    async fn received(&self) -> Vec<String> {
        let client = self.client().await;
        let mut ids = Vec::new();
        for partition in 0..PARTITIONS {
            let partition = client
                .partition_client("changes", partition, UnknownTopicHandling::Retry)
                .await
                .unwrap();
            let end = partition.get_offset(OffsetAt::Latest).await.unwrap();
            let mut next = 0;
            while next < end {
                let (records, _) = partition.fetch_records(next, 1..1_000_000, 1_000).await.unwrap();
                for found in &records {
                    let id = String::from_utf8(found.record.headers["ce_id"].clone()).unwrap();
                    let key = String::from_utf8(found.record.key.clone().unwrap()).unwrap();
                    assert!(id.starts_with(&key));
                    ids.push(id);
                    next = found.offset + 1;
                }
            }
        }
        ids
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_has_every_event_in_order_across_a_crash_and_names_what_is_wrong() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut topic = Topic(Kafka::start(Some(&authority.issue(&["127.0.0.1"]))).await);
    let secrets = secrets(authority.pem(), other.pem());
    let (plain, secured) = (topic.0.address(), topic.0.tls_address());
    let destination = async |broker: &str, options: &str| {
        let yaml = format!("kafka: {{brokers: ['{broker}'], topic: changes{options}}}");
        sink(&yaml, &secrets).await
    };
    let good = destination(&plain, "").await;
    let text = unavailable(&*good).await;
    assert!(text.contains("no topic \"changes\""), "{text}");
    let text = unavailable(&*destination(&secured, &format!(", {WRONG}, {TLS}")).await).await;
    assert!(
        text.contains("uthentication") && !text.contains("wrong-password"),
        "{text}"
    );
    let text = unavailable(&*destination(&secured, &format!(", {AUTH}, {OTHER}")).await).await;
    assert!(text.contains("invalid peer certificate"), "{text}");

    topic.make().await;
    check_delivery(&mut topic, good, Repeats::Kept).await;
    let over_tls = destination(&secured, &format!(", {AUTH}, {TLS}")).await;
    let sent = over_tls.send(&[event(1, "tls")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
    let large = skopos_sink::Event {
        data: vec![b' '; 2 << 20].into(),
        ..event(2, "tls")
    };
    let text = refused(&*over_tls, large).await;
    assert!(text.contains("larger than topic"), "{text}");
    assert!(!format!("{over_tls:?}").contains(USER.1));
}

/// Brokers tell their own addresses, so only the first connection is that of the silent one.
#[tokio::test(flavor = "multi_thread")]
async fn kafka_is_asked_again_when_the_broker_accepts_and_never_answers() {
    let topic = Topic(Kafka::start(None).await);
    topic.make().await;
    let proxy = Proxy::start(topic.0.address(), true).await;
    let yaml = format!("kafka: {{brokers: ['{}'], topic: changes}}", proxy.address);
    let destination = sink(&yaml, &secrets("", "")).await;
    let sent = check_silence(&proxy, &*destination).await;
    check_arrived(&topic.received().await, &sent);
}
