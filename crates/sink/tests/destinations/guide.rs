//! The examples of the guide.

use skopos_api::Sink;
use skopos_client::Client;
use skopos_sink::{Context, connect};
use skopos_testkit::{TestServer, parts::Authority};

use crate::support::{ALL, Known, told};

/// Makes each destination that the guide shows; every kind must be among them.
#[tokio::test]
async fn every_example_of_the_guide_is_a_sink_that_can_be_made() {
    let guide = include_str!("../../../../docs/guide/sinks.md");
    let authority = Authority::new();
    let issued = authority.issue(&["skopos"]);
    let known = Known::default()
        .with("password", "p")
        .with("token", "t")
        .with("hmac", "h")
        .with("url", "https://hooks.example.com/a")
        .with("ca.crt", authority.pem())
        .with("tls.crt", &issued.cert)
        .with("tls.key", &issued.key);
    let server = TestServer::start().await;
    let client: Client = server.client();
    let mut shown = Vec::new();
    for example in guide.split("```yaml\n").skip(1) {
        let yaml = example.split("```").next().unwrap();
        let sink: Sink = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
        let context = Context {
            namespace: "default",
            secrets: &known,
            allowed: ALL,
            search_path: None,
            client: Some(&client),
        };
        if let Err(error) = connect(&sink.spec, context).await {
            panic!("{yaml}: {}", told(&error));
        }
        shown.extend(sink.spec.destinations());
    }
    shown.sort_unstable();
    shown.dedup();
    let all = [
        "exec",
        "file",
        "kafka",
        "kubernetes",
        "nats",
        "postgres",
        "rabbitmq",
        "stdout",
        "webhook",
    ];
    assert_eq!(shown, all);
}
