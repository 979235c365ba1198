//! A PostgreSQL table.

mod table;

use std::{error::Error, time::Duration};

use futures_core::future::BoxFuture;
use skopos_api::Postgres as Spec;
use tokio::task::JoinHandle;
use tokio_postgres::{
    Client, Config, NoTls,
    config::{Host, SslMode},
    error::SqlState,
    types::Json,
};

use crate::{
    Context, Destination, Event, Failure, Sent,
    connect::BadSink,
    link::Link,
    secrets::{Hidden, text},
    tls::Tls,
};

use self::table::Table;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Inserts events into a table, one statement per batch. The id is the primary key, so repetitions change nothing.
#[derive(Debug)]
pub(crate) struct Postgres {
    config: Config,
    password: Option<Hidden>,
    tls: Option<Tls>,
    table: Table,
    max_batch: usize,
    link: Link<Open>,
}

/// A connection whose table exists.
#[derive(Debug)]
struct Open {
    client: Client,
    insert: tokio_postgres::Statement,
    _driver: Driver,
}

/// The task that moves the bytes of a connection; ends with it.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Postgres {
    pub(crate) async fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        let mut config = address(&spec.url)?;
        config.application_name("skopos").connect_timeout(CONNECT_TIMEOUT);
        if spec.tls.is_some() {
            // Whoever says whom to trust does not want to go without when the server does.
            config.ssl_mode(SslMode::Require);
        }
        Ok(Self {
            password: match &spec.password {
                Some(source) => Some(text(context.secrets, "password", source).await?),
                None => None,
            },
            tls: match (
                config.get_ssl_mode(),
                Tls::new(spec.tls.as_ref(), context.secrets).await,
            ) {
                (SslMode::Disable, _) => None,
                // It may go without, so it may lack authorities.
                (SslMode::Prefer, Err(_)) => Some(Tls::trusting_nobody()),
                (_, tls) => Some(tls?),
            },
            config,
            table: Table::new(&spec.table)?,
            max_batch,
            link: Link::default(),
        })
    }

    async fn connect(&self) -> Result<Open, Failure> {
        let mut config = self.config.clone();
        if let Some(password) = &self.password {
            config.password(&password.0);
        }
        let (client, driver) = match &self.tls {
            Some(tls) => {
                let connected = config.connect(tls.for_postgres()).await;
                let (client, connection) = connected.map_err(|error| self.failed("connect to", &error))?;
                (client, tokio::spawn(drive(connection)))
            }
            None => {
                let connected = config.connect(NoTls).await;
                let (client, connection) = connected.map_err(|error| self.failed("connect to", &error))?;
                (client, tokio::spawn(drive(connection)))
            }
        };
        let driver = Driver(driver);
        let insert = self.prepare(&client).await?;
        Ok(Open {
            client,
            insert,
            _driver: driver,
        })
    }

    /// Makes the table only if it is not there: the right to insert is then enough.
    async fn prepare(&self, client: &Client) -> Result<tokio_postgres::Statement, Failure> {
        match client.prepare(&self.table.insert()).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {}
            prepared => return prepared.map_err(|error| self.failed("write to its table at", &error)),
        }
        if let Err(error) = client.batch_execute(&self.table.create()).await {
            // Two may make it at the same time; then one of them is told so.
            let made_by_another = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE];
            if !error.code().is_some_and(|code| made_by_another.contains(code)) {
                return Err(self.failed("make a table at", &error));
            }
        }
        let prepared = client.prepare(&self.table.insert()).await;
        prepared.map_err(|error| self.failed("write to its table at", &error))
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let open = match self.link.get(self.connect()).await {
            Ok(open) => open,
            Err(failure) => return Sent::failed(0, failure),
        };
        let sent = match insert(&open, events).await {
            Ok(()) => Sent::all(events),
            // One of them is not wanted: one by one shows which.
            Err(error) if is_bad_data(&error) => self.send_each(&open, events).await,
            Err(error) => Sent::failed(0, self.failed("write to", &error)),
        };
        if !matches!(sent.failure, Some(Failure::Unavailable { .. })) {
            open.keep();
        }
        sent
    }

    async fn send_each(&self, open: &Open, events: &[Event]) -> Sent {
        for (n, event) in events.iter().enumerate() {
            match insert(open, std::slice::from_ref(event)).await {
                Ok(()) => {}
                Err(error) if is_bad_data(&error) => return Sent::failed(n, Failure::refused(told(&error))),
                Err(error) => return Sent::failed(n, self.failed("write to", &error)),
            }
        }
        Sent::all(events)
    }

    fn failed(&self, what: &str, error: &tokio_postgres::Error) -> Failure {
        let hosts: Vec<_> = self
            .config
            .get_hosts()
            .iter()
            .zip(self.config.get_ports())
            .map(show)
            .collect();
        let hint = match error.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                "; give the user the right to insert, and to create the table or make it yourself"
            }
            Some(code) if *code == SqlState::UNDEFINED_COLUMN => {
                "; its table has other columns than those of the guide"
            }
            _ => "",
        };
        Failure::unavailable(format!(
            "cannot {what} PostgreSQL at {}: {}{hint}",
            hosts.join(", "),
            told(error)
        ))
    }
}

impl Destination for Postgres {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}

async fn drive<S, T>(connection: tokio_postgres::Connection<S, T>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    // What goes wrong here is told to whoever waits for an answer.
    let _ = connection.await;
}

/// One statement is one transaction: all events of a batch or none.
async fn insert(open: &Open, events: &[Event]) -> Result<(), tokio_postgres::Error> {
    let column = |of: fn(&Event) -> &str| events.iter().map(of).collect::<Vec<_>>();
    let (ids, rules) = (column(|event| &event.id), column(|event| &event.rule));
    let (types, sources) = (column(Event::cloud_event_type), column(|event| &event.source));
    let (subjects, times) = (column(|event| &event.subject), column(|event| &event.time));
    let data: Vec<_> = events.iter().map(|event| Json(table::data(event))).collect();
    open.client
        .execute(
            &open.insert,
            &[&ids, &rules, &types, &sources, &subjects, &times, &data],
        )
        .await
        .map(drop)
}

/// A value that no column of its type can have (class 22), or that a rule of the table forbids (class 23).
fn is_bad_data(error: &tokio_postgres::Error) -> bool {
    let class = error.code().map(|code| &code.code()[..2]);
    matches!(class, Some("22" | "23"))
}

fn told(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn show((host, port): (&Host, &u16)) -> String {
    match host {
        Host::Tcp(host) => format!("{host}:{port}"),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn address(url: &str) -> Result<Config, BadSink> {
    let bad = |problem: &str| BadSink::value("url", problem);
    // The text is not shown: it may hold a password.
    let config: Config = url
        .parse()
        .map_err(|_| bad("is not an address such as postgres://skopos@postgres:5432/audit"))?;
    if config.get_password().is_some() {
        return Err(bad("must not hold the password: use password"));
    }
    if config.get_user().is_none() {
        return Err(bad(
            "must name the user, as in postgres://skopos@postgres:5432/audit",
        ));
    }
    if config.get_hosts().is_empty() {
        return Err(bad(
            "must name the server, as in postgres://skopos@postgres:5432/audit",
        ));
    }
    Ok(config)
}
