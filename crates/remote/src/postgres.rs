//! Blocks in two tables of a PostgreSQL database.
//!
//! One row has the epoch of whoever opened last, and the session of its present connection for writing. Every write is one
//! statement that holds that row against changes and writes nothing if it is not its own: so nothing of a writer before
//! shows, and nothing of a connection that was given up either. One statement is one transaction, and none is ever open
//! while the server waits for us, so that whoever takes over waits for nobody.

use std::{error::Error as _, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use skopos_postgres_tls::MakeTls;
use tokio::{sync::Mutex, task::JoinHandle};
use tokio_postgres::{Client, Config, NoTls, Statement, config::SslMode, error::SqlState};

use crate::{Block, Blocks, BlocksError, Extent, FileId, tls, url::PostgresServer};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Blocks in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresBlocks {
    server: PostgresServer,
    tls: Option<MakeTls>,
    sql: Sql,
    epoch: i64,
    /// Nothing while there is no connection of which it is known that it is good.
    writer: Mutex<Option<Writer>>,
    reader: Mutex<Option<Reader>>,
}

#[derive(Debug)]
struct Writer {
    link: Link,
    session: i64,
    put: Statement,
    remove: Statement,
}

#[derive(Debug)]
struct Reader {
    link: Link,
    get: Statement,
}

/// A connection, and the task that moves its bytes.
#[derive(Debug)]
struct Link {
    client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl PostgresBlocks {
    /// Takes over the blocks of a database; makes its tables if they are not there.
    ///
    /// # Errors
    /// If the server does not answer or does not allow it.
    pub async fn open(server: &PostgresServer) -> Result<Self, BlocksError> {
        let mut server = server.clone();
        if server.config.get_connect_timeout().is_none() {
            server.config.connect_timeout(CONNECT_TIMEOUT);
        }
        let tls = match server.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeTls::new(Arc::new(tls::client_config(
                server.root_cert.as_deref(),
            )?))),
        };
        let mut blocks = Self {
            sql: Sql::new(&server),
            server,
            tls,
            epoch: 0,
            writer: Mutex::default(),
            reader: Mutex::default(),
        };
        let link = blocks.connect().await?;
        blocks.make_tables(&link.client).await?;
        let row = link.client.query_one(&blocks.sql.take_over, &[]).await;
        blocks.epoch = row.map_err(|error| blocks.failed("take over", &error))?.get(0);
        Ok(blocks)
    }

    async fn connect(&self) -> Result<Link, BlocksError> {
        let config: &Config = &self.server.config;
        let failed = |error: tokio_postgres::Error| self.failed("connect to", &error);
        match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await.map_err(failed)?;
                // What goes wrong with a connection is told to whoever waits for an answer.
                let driver = tokio::spawn(connection.map(drop));
                Ok(Link { client, driver })
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                let driver = tokio::spawn(connection.map(drop));
                Ok(Link { client, driver })
            }
        }
    }

    /// Makes the tables only if they are not there: the right to write them is then enough.
    async fn make_tables(&self, client: &Client) -> Result<(), BlocksError> {
        match client.prepare(&self.sql.take_over).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {}
            prepared => {
                return prepared
                    .map(drop)
                    .map_err(|error| self.failed("use the tables of", &error));
            }
        }
        match client.batch_execute(&self.sql.create).await {
            Ok(()) => Ok(()),
            // Two may make them at the same time; then one of them is told so.
            Err(error)
                if matches!(
                    error.code(),
                    Some(&SqlState::UNIQUE_VIOLATION | &SqlState::DUPLICATE_TABLE)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(self.failed("make tables in", &error)),
        }
    }

    /// Connects for writing. What an earlier connection still had under way comes to nothing from then on.
    async fn writer(&self) -> Result<Writer, BlocksError> {
        let link = self.connect().await?;
        let failed = |error: tokio_postgres::Error| self.failed("write to", &error);
        let row = link
            .client
            .query_opt(&self.sql.begin_session, &[&self.epoch])
            .await
            .map_err(failed)?;
        let session = row.ok_or_else(|| self.taken_over())?.get(0);
        Ok(Writer {
            session,
            put: link.client.prepare(&self.sql.put).await.map_err(failed)?,
            remove: link.client.prepare(&self.sql.remove).await.map_err(failed)?,
            link,
        })
    }

    async fn reader(&self) -> Result<Reader, BlocksError> {
        let link = self.connect().await?;
        let get = link.client.prepare(&self.sql.get).await;
        Ok(Reader {
            get: get.map_err(|error| self.failed("read from", &error))?,
            link,
        })
    }

    async fn put_all(&self, blocks: &[Block]) -> Result<(), BlocksError> {
        let mut slot = self.writer.lock().await;
        let writer = match slot.take() {
            Some(writer) => writer,
            None => self.writer().await?,
        };
        let files: Vec<i64> = blocks.iter().map(|block| number(block.file)).collect();
        let numbers: Vec<i64> = blocks.iter().map(|block| block.number.into()).collect();
        let bytes: Vec<&[u8]> = blocks.iter().map(|block| block.bytes.as_ref()).collect();
        let written = writer
            .link
            .client
            .execute(
                &writer.put,
                &[&self.epoch, &writer.session, &files, &numbers, &bytes],
            )
            .await
            .map_err(|error| self.failed("write to", &error))?;
        if written != blocks.len() as u64 {
            return Err(self.taken_over());
        }
        *slot = Some(writer);
        Ok(())
    }

    async fn get_all(&self, file: FileId, numbers: Range<u32>) -> Result<Vec<Bytes>, BlocksError> {
        let mut slot = self.reader.lock().await;
        let reader = match slot.take() {
            Some(reader) => reader,
            None => self.reader().await?,
        };
        let (start, end) = (i64::from(numbers.start), i64::from(numbers.end));
        let rows = reader
            .link
            .client
            .query(&reader.get, &[&number(file), &start, &end])
            .await
            .map_err(|error| self.failed("read from", &error))?;
        *slot = Some(reader);
        let mut found = vec![Bytes::new(); numbers.len()];
        for row in rows {
            let at = row.get::<_, i64>(0) - start;
            if let Some(place) = usize::try_from(at).ok().and_then(|at| found.get_mut(at)) {
                *place = row.get::<_, Vec<u8>>(1).into();
            }
        }
        Ok(found)
    }

    async fn list_all(&self) -> Result<Vec<Extent>, BlocksError> {
        let link = self.connect().await?;
        let rows = link.client.query(&self.sql.list, &[]).await;
        let rows = rows.map_err(|error| self.failed("read from", &error))?;
        let unsigned = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let extents = rows.iter().map(|row| Extent {
            file: FileId(row.get::<_, i64>(0).unsigned_abs()),
            last: unsigned(row.get(1)),
            last_len: unsigned(row.get::<_, i32>(2).into()),
        });
        Ok(extents.collect())
    }

    async fn remove_all(&self, file: FileId) -> Result<(), BlocksError> {
        let mut slot = self.writer.lock().await;
        let writer = match slot.take() {
            Some(writer) => writer,
            None => self.writer().await?,
        };
        // Whether it is still ours does not matter: nobody uses the number again.
        writer
            .link
            .client
            .execute(&writer.remove, &[&self.epoch, &writer.session, &number(file)])
            .await
            .map_err(|error| self.failed("write to", &error))?;
        *slot = Some(writer);
        Ok(())
    }

    fn taken_over(&self) -> BlocksError {
        BlocksError::TakenOver(self.server.place.clone())
    }

    fn failed(&self, what: &str, error: &tokio_postgres::Error) -> BlocksError {
        let mut text = format!("cannot {what} {}: {error}", self.server.place);
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            let (epoch, blocks) = (&self.sql.epoch_table, &self.sql.blocks_table);
            text.push_str(&format!(
                "; let the user create tables, or make {epoch} and {blocks} yourself as the guide says and grant all on them"
            ));
        }
        BlocksError::Unavailable(text)
    }
}

fn number(file: FileId) -> i64 {
    i64::try_from(file.0).unwrap_or(i64::MAX)
}

impl Blocks for PostgresBlocks {
    fn place(&self) -> &str {
        &self.server.place
    }

    fn put<'a>(&'a self, blocks: &'a [Block]) -> BoxFuture<'a, Result<(), BlocksError>> {
        self.put_all(blocks).boxed()
    }

    fn get(&self, file: FileId, numbers: Range<u32>) -> BoxFuture<'_, Result<Vec<Bytes>, BlocksError>> {
        self.get_all(file, numbers).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Extent>, BlocksError>> {
        self.list_all().boxed()
    }

    fn remove(&self, file: FileId) -> BoxFuture<'_, Result<(), BlocksError>> {
        self.remove_all(file).boxed()
    }
}

/// What is said to the server.
#[derive(Debug)]
struct Sql {
    epoch_table: String,
    blocks_table: String,
    create: String,
    take_over: String,
    begin_session: String,
    put: String,
    remove: String,
    get: String,
    list: String,
}

impl Sql {
    fn new(server: &PostgresServer) -> Self {
        let schema = server.schema.as_ref().map(|schema| format!("\"{schema}\"."));
        let schema = schema.unwrap_or_default();
        let prefix = &server.prefix;
        let (epoch, blocks) = (
            format!("{schema}\"{prefix}_epoch\""),
            format!("{schema}\"{prefix}_blocks\""),
        );
        let ours =
            format!("with ours as (select 1 from {epoch} where epoch = $1 and session = $2 for share)");
        Self {
            create: format!(
                "create table {epoch} (one boolean primary key default true check (one), epoch bigint not null, session bigint not null);
                 create table {blocks} (file bigint, block bigint, bytes bytea not null, primary key (file, block));
                 -- What is written is compressed already.
                 alter table {blocks} alter column bytes set storage external"
            ),
            take_over: format!(
                "insert into {epoch} as old (epoch, session) values (1, 0)
                 on conflict (one) do update set epoch = old.epoch + 1, session = 0 returning epoch"
            ),
            begin_session: format!(
                "update {epoch} set session = session + 1 where epoch = $1 returning session"
            ),
            put: format!(
                "{ours} insert into {blocks} (file, block, bytes)
                 select * from unnest($3::bigint[], $4::bigint[], $5::bytea[]) where exists (select from ours)
                 on conflict (file, block) do update set bytes = excluded.bytes"
            ),
            remove: format!("{ours} delete from {blocks} where file = $3 and exists (select from ours)"),
            get: format!("select block, bytes from {blocks} where file = $1 and block >= $2 and block < $3"),
            list: format!(
                "select distinct on (file) file, block, octet_length(bytes) from {blocks}
                 where octet_length(bytes) > 0 order by file, block desc"
            ),
            epoch_table: epoch,
            blocks_table: blocks,
        }
    }
}
