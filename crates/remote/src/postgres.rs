//! Blocks in two tables of a PostgreSQL database.
//!
//! One row has the epoch of whoever opened last, and the session of its present connection for writing. Every write is one
//! statement that holds that row against changes and writes nothing if it is not its own: so nothing of a writer before
//! shows, and nothing of a connection that was given up either. One statement is one transaction, and none is ever open
//! while the server waits for us, so that whoever takes over waits for nobody.
//!
//! The address may name several servers, one of which can be written. Each put also writes how many there were, in a row
//! beside the names of the files. A server that knows of fewer than were acknowledged is one that lagged when it was
//! promoted, or a primary of before that came back: it is not gone on with.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use skopos_postgres::{Link, MakeTls, Server, Servers, told};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Statement, config::SslMode, error::SqlState};

use crate::{Block, Blocks, BlocksError, Extent, FileId, tls, url::PostgresServer};

/// Where the number of puts is: a block before the first one of the file of names, which nobody asks for.
const COUNT: (i64, i64) = (0, -1);

/// Blocks in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresBlocks {
    place: String,
    servers: Servers,
    tls: Option<MakeTls>,
    sql: Sql,
    epoch: i64,
    /// How many puts were acknowledged, those of all epochs before included.
    n_puts: AtomicU64,
    /// How often a connection for writing was made: a reader from before may be at a server that is no longer the one.
    n_writers: AtomicU64,
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
    /// How many writers there had been.
    n_writers: u64,
}

impl PostgresBlocks {
    /// Takes over the blocks of a database; makes its tables if they are not there.
    ///
    /// # Errors
    /// If no server that can be written answers, or it does not allow it.
    pub async fn open(server: &PostgresServer) -> Result<Self, BlocksError> {
        let tls = match server.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeTls::new(Arc::new(tls::client_config(
                server.root_cert.as_deref(),
            )?))),
        };
        let mut blocks = Self {
            place: server.place.clone(),
            servers: Servers::new(&server.config),
            tls,
            sql: Sql::new(server),
            epoch: 0,
            n_puts: AtomicU64::new(0),
            n_writers: AtomicU64::new(0),
            writer: Mutex::default(),
            reader: Mutex::default(),
        };
        let connected = blocks.servers.connect(blocks.tls.as_ref()).await;
        let link = connected.map_err(|error| blocks.unavailable("connect to", &error.to_string()))?;
        blocks.make_tables(&link.client).await?;
        let row = link.client.query_one(&blocks.sql.take_over, &[]).await;
        blocks.epoch = row.map_err(|error| blocks.failed("take over", &error))?.get(0);
        let found = link.client.query_one(&blocks.sql.standing, &[]).await;
        let found = found.map_err(|error| blocks.failed("read from", &error))?;
        blocks.n_puts = AtomicU64::new(count(found.get(1)));
        Ok(blocks)
    }

    /// Connects to the first server that has all that was written.
    async fn connect(&self) -> Result<Link, BlocksError> {
        let (mut reasons, mut went_back) = (Vec::new(), None);
        for server in self.servers.iter() {
            match self.connect_to(server).await {
                Err(BlocksError::Unavailable(reason)) => reasons.push(reason),
                Err(error @ BlocksError::WentBack(_)) => went_back = Some(error),
                outcome => return outcome,
            }
        }
        Err(went_back.unwrap_or_else(|| BlocksError::Unavailable(reasons.join("; "))))
    }

    async fn connect_to(&self, server: &Server) -> Result<Link, BlocksError> {
        // Before the server is asked: what is written meanwhile need not be in its answer.
        let acknowledged = self.n_puts.load(Relaxed);
        let connected = server.connect(self.tls.as_ref()).await;
        let link = connected.map_err(|error| {
            let place = &self.place;
            BlocksError::Unavailable(format!("cannot connect to {server} of {place}: {error}"))
        })?;
        let row = match link.client.query_opt(&self.sql.standing, &[]).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => None,
            found => found.map_err(|error| self.failed("read from", &error))?,
        };
        let Some(row) = row else {
            return Err(self.went_back());
        };
        let (epoch, n_puts) = (row.get::<_, i64>(0), count(row.get(1)));
        if epoch > self.epoch {
            return Err(self.taken_over());
        }
        match epoch == self.epoch && n_puts >= acknowledged {
            true => Ok(link),
            false => Err(self.went_back()),
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
        self.n_writers.fetch_add(1, Relaxed);
        Ok(Writer {
            session,
            put: link.client.prepare(&self.sql.put).await.map_err(failed)?,
            remove: link.client.prepare(&self.sql.remove).await.map_err(failed)?,
            link,
        })
    }

    async fn reader(&self) -> Result<Reader, BlocksError> {
        let n_writers = self.n_writers.load(Relaxed);
        let link = self.connect().await?;
        let get = link.client.prepare(&self.sql.get).await;
        Ok(Reader {
            get: get.map_err(|error| self.failed("read from", &error))?,
            link,
            n_writers,
        })
    }

    async fn put_all(&self, blocks: &[Block]) -> Result<(), BlocksError> {
        let mut slot = self.writer.lock().await;
        let writer = match slot.take() {
            Some(writer) => writer,
            None => self.writer().await?,
        };
        let n_puts = self.n_puts.load(Relaxed) + 1;
        let count = n_puts.to_be_bytes();
        let (mut files, mut numbers, mut bytes) = (vec![COUNT.0], vec![COUNT.1], vec![&count[..]]);
        for block in blocks {
            files.push(number(block.file));
            numbers.push(block.number.into());
            bytes.push(&block.bytes);
        }
        let written = writer
            .link
            .client
            .execute(
                &writer.put,
                &[&self.epoch, &writer.session, &files, &numbers, &bytes],
            )
            .await
            .map_err(|error| self.failed("write to", &error))?;
        if written != files.len() as u64 {
            return Err(self.taken_over());
        }
        self.n_puts.store(n_puts, Relaxed);
        *slot = Some(writer);
        Ok(())
    }

    async fn get_all(&self, file: FileId, numbers: Range<u32>) -> Result<Vec<Bytes>, BlocksError> {
        let mut slot = self.reader.lock().await;
        let reader = match slot.take() {
            Some(reader) if reader.n_writers == self.n_writers.load(Relaxed) => reader,
            _ => self.reader().await?,
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
        BlocksError::TakenOver(self.place.clone())
    }

    fn went_back(&self) -> BlocksError {
        BlocksError::WentBack(self.place.clone())
    }

    fn failed(&self, what: &str, error: &tokio_postgres::Error) -> BlocksError {
        let mut text = told(error);
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            let (epoch, blocks) = (&self.sql.epoch_table, &self.sql.blocks_table);
            text.push_str(&format!(
                "; let the user create tables, or make {epoch} and {blocks} yourself as the guide says and grant all on them"
            ));
        }
        self.unavailable(what, &text)
    }

    fn unavailable(&self, what: &str, why: &str) -> BlocksError {
        BlocksError::Unavailable(format!("cannot {what} {}: {why}", self.place))
    }
}

fn number(file: FileId) -> i64 {
    i64::try_from(file.0).unwrap_or(i64::MAX)
}

/// The number of puts as it is written; none was counted before this was.
fn count(bytes: Option<&[u8]>) -> u64 {
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

impl Blocks for PostgresBlocks {
    fn place(&self) -> &str {
        &self.place
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
    standing: String,
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
            // In steps of any length: were an epoch lost by a failover, the next one must not be the same.
            take_over: format!(
                "insert into {epoch} as old (epoch, session) values (1 + floor(random() * 1e9)::bigint, 0)
                 on conflict (one) do update set epoch = old.epoch + excluded.epoch, session = 0 returning epoch"
            ),
            standing: format!(
                "select epoch, (select bytes from {blocks} where file = {} and block = {}) from {epoch}",
                COUNT.0, COUNT.1
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
                 where block >= 0 and octet_length(bytes) > 0 order by file, block desc"
            ),
            epoch_table: epoch,
            blocks_table: blocks,
        }
    }
}
