//! RabbitMQ.

use lapin::{
    Connection, ConnectionProperties,
    options::{BasicGetOptions, QueueDeclareOptions},
    types::FieldTable,
};
use skopos_testkit::parts::{Authority, Rabbitmq, USER};

use crate::{
    AUTH, OTHER, Repeats, Server, TLS, WRONG, check_delivery, secrets,
    silence::{Proxy, check_silence, check_silent_threads_end, check_threads_end},
    support::{check_arrived, event, sink, unavailable},
};

struct Queue(Rabbitmq);

impl Queue {
    async fn connection(&self) -> Connection {
        let url = format!("amqp://{}:{}@{}/%2f", USER.0, USER.1, self.0.address());
        Connection::connect(&url, ConnectionProperties::default())
            .await
            .unwrap()
    }

    async fn make(&self) {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let channel = self.connection().await.create_channel().await.unwrap();
        channel
            .queue_declare("changes".into(), options, FieldTable::default())
            .await
            .unwrap();
    }
}

impl Server for Queue {
    async fn stop(&mut self) {
        self.0.stop().await;
    }

    async fn start(&mut self) {
        self.0.start_again().await;
    }

    /// Messages are looked at and go back when the connection ends.
    async fn received(&self) -> Vec<String> {
        let connection = self.connection().await;
        let channel = connection.create_channel().await.unwrap();
        let mut ids = Vec::new();
        while let Some(message) = channel
            .basic_get("changes".into(), BasicGetOptions::default())
            .await
            .unwrap()
        {
            ids.push(message.properties.message_id().as_ref().unwrap().to_string());
        }
        connection.close(200, "bye".into()).await.unwrap();
        ids
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_has_every_event_in_order_across_a_restart_and_names_what_is_wrong() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut queue = Queue(Rabbitmq::start(Some(&authority.issue(&["127.0.0.1"]))).await);
    let secrets = secrets(authority.pem(), other.pem());
    let plain = format!("amqp://{}/%2f", queue.0.address());
    let secured = format!("amqps://{}/%2f", queue.0.tls_address());
    let destination = async |url: &str, options: &str| {
        let yaml = format!("rabbitmq: {{url: '{url}', routingKey: changes, {options}}}");
        sink(&yaml, &secrets).await
    };
    let good = destination(&plain, AUTH).await;
    let text = unavailable(&*good).await;
    assert!(text.contains("no queue is bound"), "{text}");
    let text = unavailable(&*destination(&plain, &format!("{AUTH}, exchange: nowhere")).await).await;
    assert!(text.contains("nowhere"), "{text}");
    let text = unavailable(&*destination(&plain, WRONG).await).await;
    assert!(
        text.contains("ACCESS") && !text.contains("wrong-password"),
        "{text}"
    );
    let text = unavailable(&*destination(&secured, &format!("{AUTH}, {OTHER}")).await).await;
    assert!(text.contains("invalid peer certificate"), "{text}");

    queue.make().await;
    check_delivery(&mut queue, good, Repeats::Kept).await;
    let over_tls = destination(&secured, &format!("{AUTH}, {TLS}")).await;
    let sent = over_tls.send(&[event(1, "tls")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
    assert!(!format!("{over_tls:?}").contains(USER.1));
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_is_connected_anew_when_the_connection_is_silently_gone() {
    let queue = Queue(Rabbitmq::start(None).await);
    queue.make().await;
    let proxy = Proxy::start(queue.0.address(), false).await;
    let yaml = format!(
        "rabbitmq: {{url: 'amqp://{}/%2f', routingKey: changes, {AUTH}}}",
        proxy.address
    );
    let destination = sink(&yaml, &secrets("", "")).await;
    let sent = check_silence(&proxy, &*destination).await;
    check_arrived(&queue.received().await, &sent);
    check_silent_threads_end(&proxy, &*destination, "lapin-io-loop").await;
}

/// The client has a thread for each connection, also for one that is never made.
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_that_never_answers_leaves_no_threads_behind() {
    let authority = Authority::new();
    let secrets = secrets(authority.pem(), authority.pem());
    let proxy = Proxy::start(String::new(), true).await;
    for (scheme, options) in [("amqp", AUTH.to_owned()), ("amqps", format!("{AUTH}, {TLS}"))] {
        let address = proxy.address;
        let yaml = format!("rabbitmq: {{url: '{scheme}://{address}/%2f', routingKey: changes, {options}}}");
        check_threads_end(&*sink(&yaml, &secrets).await, "lapin-io-loop").await;
    }
}
