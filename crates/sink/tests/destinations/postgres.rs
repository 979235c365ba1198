//! PostgreSQL.

use skopos_testkit::parts::{Authority, Postgres, USER};
use tokio_postgres::{Client, NoTls};

use crate::{
    OTHER, Repeats, Server, TLS, check_delivery, secrets,
    silence::{Proxy, check_silence},
    support::{check_arrived, event, sink, unavailable},
};

struct Table(Postgres);

impl Table {
    async fn client(&self) -> Client {
        let url = format!("postgres://{}:{}@{}/postgres", USER.0, USER.1, self.0.address());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Server for Table {
    async fn stop(&mut self) {
        self.0.stop().await;
    }

    async fn start(&mut self) {
        self.0.start_again().await;
    }

    async fn received(&self) -> Vec<String> {
        let rows = self
            .client()
            .await
            .query("select id from changes order by position", &[])
            .await
            .unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

const PASSWORD: &str = "password: {secret: {name: s, key: password}}";

fn yaml(address: &str, mode: &str, options: &str) -> String {
    format!("postgres: {{url: 'postgres://skopos@{address}/postgres{mode}', table: changes, {options}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_gets_each_event_once_in_order_across_a_restart() {
    let mut table = Table(Postgres::start(None).await);
    let destination = sink(&yaml(&table.0.address(), "", PASSWORD), &secrets("", "")).await;
    check_delivery(&mut table, destination, Repeats::Dropped).await;
}

/// Stopping kills the primary, starting promotes the standby.
struct Pair(Postgres, Table);

impl Server for Pair {
    async fn stop(&mut self) {
        self.0.kill().await;
    }

    async fn start(&mut self) {
        self.1.0.promote().await;
    }

    async fn received(&self) -> Vec<String> {
        self.1.received().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_gets_each_event_once_in_order_across_a_failover() {
    let primary = Postgres::start_with(
        None,
        &["synchronous_standby_names=*", "synchronous_commit=remote_apply"],
    )
    .await;
    let standby = primary.start_standby().await;
    let addresses = format!("{},{}", standby.address(), primary.address());
    let destination = sink(&yaml(&addresses, "", PASSWORD), &secrets("", "")).await;
    let mut pair = Pair(primary, Table(standby));
    check_delivery(&mut pair, destination, Repeats::Dropped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_makes_the_table_and_refuses_only_the_event_it_cannot_hold() {
    let table = Table(Postgres::start(None).await);
    let destination = sink(&yaml(&table.0.address(), "", PASSWORD), &secrets("", "")).await;
    let mut group = [event(0, "a"), event(1, "a"), event(2, "a")];
    group[1].data = br#"{"zero":"\u0000"}"#.as_slice().into();
    let sent = destination.send(&group).await;
    assert_eq!(sent.n_delivered, 1, "{sent:?}");
    assert!(
        matches!(sent.failure, Some(skopos_sink::Failure::Refused(_))),
        "{sent:?}"
    );
    group[2].content_type = "text/plain";
    assert!(destination.send(&group[2..]).await.failure.is_none());
    let rows = table
        .client()
        .await
        .query(
            "select id, rule, type, source, subject, (time at time zone 'utc')::text, data::text from changes order by id",
            &[],
        )
        .await
        .unwrap();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| (0..7).map(|n| row.get(n)).collect())
        .collect();
    let expect = |id: &str, data: &str| {
        [
            id,
            "default/all",
            "dev.skopos.updated",
            "/clusters/test/apps/deployments",
            "default/a",
            "2026-01-02 03:04:05.678",
            data,
        ]
        .map(str::to_owned)
        .to_vec()
    };
    assert_eq!(
        rows,
        [expect("a/0", r#"{"n": 0}"#), expect("a/2", r#""{\"n\":2}""#)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_that_may_not_be_written_says_what_right_is_missing() {
    let table = Table(Postgres::start(None).await);
    let admin = table.client().await;
    admin
        .batch_execute(
            "create user guest password 'correct-horse';
             create table changes (id text primary key, rule text, type text, source text, subject text,
                                   time timestamptz, data jsonb);",
        )
        .await
        .unwrap();
    let yaml = yaml(&table.0.address(), "", PASSWORD).replace("skopos@", "guest@");
    let destination = sink(&yaml, &secrets("", "")).await;
    let text = unavailable(&*destination).await;
    assert!(
        text.contains("permission denied") && text.contains("right to insert"),
        "{text}"
    );
    // The right to insert is enough where the table is there.
    admin
        .batch_execute("grant insert on changes to guest; grant select (id) on changes to guest")
        .await
        .unwrap();
    let sent = destination.send(&[event(0, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
}

/// No event is at fault: a dead letter of each would help nobody.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_that_refuses_an_event_does_not_make_its_content_known() {
    let table = Table(Postgres::start(None).await);
    let destination = sink(&yaml(&table.0.address(), "", PASSWORD), &secrets("", "")).await;
    assert!(destination.send(&[event(0, "a")]).await.failure.is_none());
    let forbid = "alter table changes add check (subject <> 'default/b')";
    table.client().await.batch_execute(forbid).await.unwrap();
    let mut refused = event(1, "b");
    refused.data = br#"{"password":"hunter2"}"#.as_slice().into();
    let sent = destination.send(&[refused]).await;
    let failure = format!("{sent:?}");
    assert!(failure.contains("violates check constraint"), "{failure}");
    assert!(!failure.contains("hunter2"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_whose_table_wants_more_than_we_have_is_tried_again() {
    let table = Table(Postgres::start(None).await);
    let admin = table.client().await;
    let columns =
        "id text primary key, rule text, type text, source text, subject text, time timestamptz, data jsonb";
    let create = format!("create table changes ({columns}, ticket text not null)");
    admin.batch_execute(&create).await.unwrap();
    let destination = sink(&yaml(&table.0.address(), "", PASSWORD), &secrets("", "")).await;
    let text = unavailable(&*destination).await;
    assert!(
        text.contains("\"ticket\"") && text.contains("give it a default"),
        "{text}"
    );
    let default = "alter table changes alter column ticket set default ''";
    admin.batch_execute(default).await.unwrap();
    let sent = destination.send(&[event(0, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_credentials_and_certificates_that_are_wrong_are_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    // The certificate is for another name than the address has.
    let postgres = Postgres::start(Some(&authority.issue(&["db.example.com"]))).await;
    let secrets = secrets(authority.pem(), other.pem());
    let destination = async |options: &str| sink(&yaml(&postgres.address(), "", options), &secrets).await;
    let text = unavailable(&*destination(&format!("{PASSWORD}, {TLS}")).await).await;
    assert!(text.contains("not valid for name"), "{text}");
    let named = TLS.replace("}}}", "}}, serverName: db.example.com}");
    let good = destination(&format!("{PASSWORD}, {named}")).await;
    let sent = good.send(&[event(0, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
    let text = unavailable(&*destination(&format!("{PASSWORD}, {OTHER}")).await).await;
    assert!(text.contains("invalid peer certificate"), "{text}");
    let wrong = PASSWORD.replace("key: password", "key: wrong");
    let text = unavailable(&*destination(&format!("{wrong}, {named}")).await).await;
    assert!(text.contains("password authentication failed"), "{text}");
    assert!(!text.contains("wrong-password"), "{text}");
    assert!(!format!("{good:?}").contains(USER.1));
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_connected_anew_when_the_connection_is_silently_gone() {
    let table = Table(Postgres::start(None).await);
    let proxy = Proxy::start(table.0.address(), false).await;
    let destination = sink(&yaml(&proxy.address.to_string(), "", PASSWORD), &secrets("", "")).await;
    let sent = check_silence(&proxy, &*destination).await;
    check_arrived(&table.received().await, &sent);
}
