//! Certificates, passwords and rights.

use skopos_remote::{JournalUrl, OpenError, Remote, RemoteConfig};
use skopos_testkit::parts::{Authority, Nats, Postgres, USER};

async fn open(url: &str) -> Result<Remote, OpenError> {
    let url: JournalUrl = url.parse().unwrap();
    Remote::open(&url, RemoteConfig::default()).await
}

async fn refusal(url: &str) -> String {
    let error = open(url).await.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains("horse"), "{text}");
    text
}

fn authority_file(authority: &Authority) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.pem()).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_reached_with_the_authority_of_a_file_and_says_what_is_wrong() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Postgres::start(Some(&authority.issue(&["127.0.0.1"]))).await;
    let (good, bad) = (authority_file(&authority), authority_file(&other));
    let base = format!("postgres://{}:{}@{}/postgres", USER.0, USER.1, server.address());
    let with = |file: &tempfile::NamedTempFile| {
        format!("{base}?sslmode=verify-full&sslrootcert={}", file.path().display())
    };
    open(&with(&good)).await.unwrap();
    let text = refusal(&with(&bad)).await;
    assert!(text.contains("invalid peer certificate"), "{text}");
    let text = refusal(&with(&good).replace("correct-horse", "wrong-horse")).await;
    assert!(text.contains("password authentication failed"), "{text}");
    let text = refusal(&format!("{base}?sslrootcert=/nowhere")).await;
    assert!(text.contains("sslrootcert /nowhere cannot be used"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_that_allows_no_tables_says_what_to_do() {
    let server = Postgres::start(None).await;
    let url = format!("postgres://{}:{}@{}/postgres", USER.0, USER.1, server.address());
    let (admin, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    admin
        .batch_execute("create user guest password 'correct-horse'; create schema ops")
        .await
        .unwrap();
    let guest = format!("{}?prefix=ops.journal", url.replace("skopos:", "guest:"));
    let text = refusal(&guest).await;
    assert!(
        text.contains("permission denied") && text.contains("let the user create tables"),
        "{text}"
    );
    admin
        .batch_execute("grant create, usage on schema ops to guest")
        .await
        .unwrap();
    open(&guest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_is_reached_with_the_authority_of_a_file_and_says_what_is_wrong() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Nats::start(Some(&authority.issue(&["127.0.0.1"]))).await;
    let (good, bad) = (authority_file(&authority), authority_file(&other));
    let with = |file: &tempfile::NamedTempFile| {
        let (user, password) = USER;
        format!(
            "tls://{user}:{password}@{}?sslrootcert={}",
            server.address(),
            file.path().display()
        )
    };
    open(&with(&good)).await.unwrap();
    let text = refusal(&with(&bad)).await;
    assert!(text.contains("certificate"), "{text}");
    let text = refusal(&with(&good).replace("correct-horse", "wrong-horse")).await;
    assert!(text.to_lowercase().contains("authorization"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_would_forget_is_refused() {
    let server = Nats::start(None).await;
    let options = async_nats::ConnectOptions::with_user_and_password(USER.0.into(), USER.1.into());
    let context = async_nats::jetstream::new(options.connect(server.address()).await.unwrap());
    let config = async_nats::jetstream::stream::Config {
        name: "skopos".into(),
        subjects: vec!["skopos.>".into()],
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    let text = refusal(&format!("nats://{}:{}@{}", USER.0, USER.1, server.address())).await;
    assert!(
        text.contains("one message per subject") && text.contains("prefix="),
        "{text}"
    );
}
