//! Specs that make no destination.

use std::sync::Arc;

use skopos_sink::{Allowed, Context, connect};
use skopos_testkit::parts::Authority;

use crate::support::{Known, spec, told, try_sink};

async fn check(yaml: &str, secrets: &Known, expect: &str) {
    match try_sink(yaml, secrets).await {
        Ok(sink) => panic!("{yaml} gives {sink:?}"),
        Err(error) => {
            let text = told(&error);
            assert!(text.contains(expect), "{yaml}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_spec_that_cannot_work_says_what_is_wrong_and_where() {
    let none = Known::default();
    for (yaml, expect) in [
        ("{}", "the sink has no destination: give one of webhook,"),
        (
            "{stdout: {}, exec: {command: [a]}}",
            "more than one destination (stdout, exec)",
        ),
        (
            "{stdout: {}, delivery: {batch: {maxEvents: 0}}}",
            "delivery.batch.maxEvents must be at least 1",
        ),
        ("webhook: {url: '/events'}", "url \"/events\" must be a whole URL"),
        (
            "webhook: {url: 'ftp://example.com/'}",
            "must begin with https:// or http://",
        ),
        (
            "webhook: {url: 'https://a:hunter2@example.com/'}",
            "url must not hold a user or a password: use auth",
        ),
        ("webhook: {}", "url or urlFrom must be given"),
        (
            "webhook: {url: 'https://a/', auth: {username: a}}",
            "auth must have username and password, or token alone",
        ),
        (
            "webhook: {url: 'https://a/', auth: {token: {}}}",
            "auth.token must have exactly one of value, secret, env and file",
        ),
        (
            "webhook: {url: 'https://a/', auth: {token: {secret: {name: x, key: y}}}}",
            "auth.token: no value from key \"y\" of Secret \"x\": it does not exist",
        ),
        (
            "webhook: {url: 'https://a/', auth: {token: {env: HOME}}}",
            "auth.token: no value from environment variable \"HOME\": only sinks from the directory of Skopos may use it",
        ),
        (
            "webhook: {url: 'https://a/', auth: {token: {file: /etc/passwd}}}",
            "only sinks from the directory",
        ),
        (
            "webhook: {url: 'https://a/', hmac: {secret: {value: ''}}}",
            "hmac.secret is empty",
        ),
        (
            "webhook: {url: 'https://a/', headers: [{name: 'a b', value: {value: c}}]}",
            "\"a b\" is not the name of a header",
        ),
        (
            "webhook: {url: 'https://a/', headers: [{name: Ce-Id, value: {value: c}}]}",
            "is set by Skopos itself",
        ),
        (
            "webhook: {url: 'https://a/', tls: {serverName: 'a b'}}",
            "tls.serverName \"a b\" is neither",
        ),
        (
            "nats: {servers: [], subject: a}",
            "servers must name one server at least",
        ),
        (
            "nats: {servers: ['nats://a:hunter2@b'], subject: a}",
            "servers must not hold a user or a password",
        ),
        (
            "nats: {servers: ['nats://b'], subject: 'a.>'}",
            "subject \"a.>\" is not a subject to publish to",
        ),
        (
            "kafka: {brokers: [kafka], topic: a}",
            "brokers \"kafka\" is not host:port",
        ),
        ("kafka: {brokers: ['kafka:9092'], topic: ''}", "topic is empty"),
        (
            "kafka: {brokers: ['k:1'], topic: a, auth: {token: {value: t}}}",
            "auth.token does not work here",
        ),
        (
            "rabbitmq: {url: 'http://a', routingKey: b}",
            "is not an address such as amqps://",
        ),
        (
            "rabbitmq: {url: 'amqp://a:hunter2@b', routingKey: b}",
            "url must not hold a user or a password",
        ),
        (
            "rabbitmq: {url: 'amqp://b', routingKey: ''}",
            "routingKey is empty",
        ),
        (
            "rabbitmq: {url: 'amqp://b', routingKey: a, tls: {}}",
            "url must begin with amqps://",
        ),
        (
            "postgres: {url: 'postgres://a:hunter2@b/c', table: t}",
            "url must not hold the password",
        ),
        (
            "postgres: {url: 'postgres://b/c', table: t}",
            "url must name the user",
        ),
        (
            "postgres: {url: 'mysql:hunter2', table: t}",
            "url is not an address such as postgres://",
        ),
        (
            "postgres: {url: 'postgres://a@b/c?sslmode=disable', table: 'a.b.c'}",
            "is not table or schema.table",
        ),
        ("file: {path: ''}", "is not the path of a file"),
        ("exec: {command: []}", "command is empty"),
        (
            "exec: {command: [a], env: {'A=B': {value: c}}}",
            "\"A=B\" is not the name of a variable",
        ),
        ("kubernetes: {}", "there is no cluster to write to"),
    ] {
        check(yaml, &none, expect).await;
    }
}

#[tokio::test]
async fn certificates_that_are_none_are_named_and_not_shown() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (ours, theirs) = (authority.issue(&["a"]), other.issue(&["a"]));
    let known = Known::default()
        .with("ca", authority.pem())
        .with("cert", &ours.cert)
        .with("key", &theirs.key)
        .with("junk", "hunter2");
    let yaml = |fields: &str| format!("webhook: {{url: 'https://a/', tls: {{{fields}}}}}");
    let from = |key: &str| format!("{{secret: {{name: s, key: {key}}}}}");
    check(
        &yaml(&format!("ca: {}", from("junk"))),
        &known,
        "tls.ca is not a certificate in PEM",
    )
    .await;
    check(
        &yaml(&format!("cert: {}", from("cert"))),
        &known,
        "tls.key is missing",
    )
    .await;
    check(
        &yaml(&format!("key: {}", from("key"))),
        &known,
        "tls.cert is missing",
    )
    .await;
    let pair = |key: &str| yaml(&format!("cert: {}, key: {}", from("cert"), from(key)));
    check(&pair("junk"), &known, "tls.key is not a private key in PEM").await;
    check(&pair("key"), &known, "tls.key does not fit tls.cert").await;
}

#[tokio::test]
async fn commands_and_files_need_leave() {
    for (yaml, expect) in [
        ("exec: {command: [a]}", "--allow-exec"),
        ("file: {path: /tmp/a}", "--allow-file"),
    ] {
        let context = Context {
            namespace: "default",
            secrets: &Known::default(),
            allowed: Allowed::default(),
            search_path: None,
            client: None,
        };
        let refused = connect(&spec(yaml), context)
            .await
            .map(|sink: Arc<_>| format!("{sink:?}"));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(expect), "{text}");
    }
}
