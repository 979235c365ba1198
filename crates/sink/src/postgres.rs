//! A PostgreSQL table.

mod table;

use std::fmt::Display;

use futures_core::future::BoxFuture;
use skopos_api::Postgres as Spec;
use skopos_postgres::{MakeTls, Servers, told};
use tokio_postgres::{Client, Config, config::SslMode, error::SqlState, types::Json};

use crate::{
    Context, Destination, Event, Failure, Sent, connect::BadSink, link::Link, secrets::text, tls::Tls,
};

use self::table::Table;

/// Inserts events into a table, one statement per batch. The id is the primary key, so repetitions change nothing.
#[derive(Debug)]
pub(crate) struct Postgres {
    servers: Servers,
    tls: Option<MakeTls>,
    table: Table,
    max_batch: usize,
    link: Link<Open>,
}

/// A connection whose table exists.
#[derive(Debug)]
struct Open {
    link: skopos_postgres::Link,
    insert: tokio_postgres::Statement,
}

impl Postgres {
    pub(crate) async fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        let mut config = address(&spec.url)?;
        config.application_name("skopos");
        if spec.tls.is_some() {
            // Whoever says whom to trust does not want to go without when the server does.
            config.ssl_mode(SslMode::Require);
        }
        if let Some(source) = &spec.password {
            config.password(text(context.secrets, "password", source).await?.0);
        }
        let tls = match (
            config.get_ssl_mode(),
            Tls::new(spec.tls.as_ref(), context.secrets).await,
        ) {
            (SslMode::Disable, _) => None,
            // It may go without, so it may lack authorities.
            (SslMode::Prefer, Err(_)) => Some(Tls::trusting_nobody()),
            (_, tls) => Some(tls?),
        };
        Ok(Self {
            servers: Servers::new(&config),
            tls: tls.as_ref().map(Tls::for_postgres),
            table: Table::new(&spec.table)?,
            max_batch,
            link: Link::default(),
        })
    }

    async fn connect(&self) -> Result<Open, Failure> {
        let connected = self.servers.connect(self.tls.as_ref()).await;
        let link = connected.map_err(|error| self.unavailable("connect to", &error, ""))?;
        let insert = self.prepare(&link.client).await?;
        Ok(Open { link, insert })
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
        let hint = match error.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                "; give the user the right to insert, and to create the table or make it yourself"
            }
            Some(code) if *code == SqlState::UNDEFINED_COLUMN => {
                "; its table has other columns than those of the guide"
            }
            Some(code) if *code == SqlState::NOT_NULL_VIOLATION => {
                "; the column is none of the guide's: give it a default, or let it be null"
            }
            _ => "",
        };
        self.unavailable(what, &told(error), hint)
    }

    fn unavailable(&self, what: &str, why: &dyn Display, hint: &str) -> Failure {
        Failure::unavailable(format!(
            "cannot {what} PostgreSQL at {}: {why}{hint}",
            self.servers
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

/// One statement is one transaction: all events of a batch or none.
async fn insert(open: &Open, events: &[Event]) -> Result<(), tokio_postgres::Error> {
    let column = |of: fn(&Event) -> &str| events.iter().map(of).collect::<Vec<_>>();
    let (ids, rules) = (column(|event| &event.id), column(|event| &event.rule));
    let (types, sources) = (column(Event::cloud_event_type), column(|event| &event.source));
    let (subjects, times) = (column(|event| &event.subject), column(|event| &event.time));
    let data: Vec<_> = events.iter().map(|event| Json(table::data(event))).collect();
    open.link
        .client
        .execute(
            &open.insert,
            &[&ids, &rules, &types, &sources, &subjects, &times, &data],
        )
        .await
        .map(drop)
}

/// A value that no column of its type can have (class 22), or that a rule of the table forbids (class 23). Not that a
/// column needs a value: ours always have one, so that it is another, and no event is at fault.
fn is_bad_data(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| *code != SqlState::NOT_NULL_VIOLATION && matches!(&code.code()[..2], "22" | "23"))
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
