//! Blocks in a stream of NATS JetStream.
//!
//! Each block is the last message of a subject of its own, `<prefix>.<file>.<block>`, and `<prefix>.epoch` names whoever
//! opened last. There is one writer, so it knows which number the next message of the stream will have, and says so with
//! each: the server refuses what does not fit. Taking over is a message too, after which the next one of the writer before
//! does not fit. Those that it sent without waiting could fit again by chance, so each of them also names the message that
//! must be before it. After a connection was lost the writer looks whether the epoch is still its own, and where the
//! stream ends. If that is before the last message that was acknowledged, the leader of the stream is new and has not
//! caught up, which is waited for, or the stream lost something, and then it is not gone on with.

mod link;

use std::{
    collections::BTreeMap,
    error::Error,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use async_nats::{
    HeaderMap,
    header::{NATS_EXPECTED_LAST_MESSAGE_ID, NATS_EXPECTED_LAST_SEQUENCE, NATS_MESSAGE_ID},
    jetstream::{
        context::{PublishError, PublishErrorKind},
        message::StreamMessage,
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream},
    },
};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tokio::{sync::Mutex, time::Instant};
use uuid::Uuid;

use self::link::Link;
use crate::{Block, Blocks, BlocksError, Extent, FileId, tls, url::NatsServer};

/// So many blocks are asked for at once.
const GETS: usize = 32;

/// Blocks in a stream of NATS JetStream.
#[derive(Debug)]
pub struct NatsBlocks {
    server: NatsServer,
    tls: Option<rustls::ClientConfig>,
    epoch: String,
    /// The number of the message that has our epoch.
    epoch_at: u64,
    /// The number of the last message that was acknowledged.
    acknowledged: AtomicU64,
    /// Since when the stream ends before that.
    behind_since: std::sync::Mutex<Option<Instant>>,
    /// Nothing while it is not known where the stream ends.
    writer: Mutex<Option<Writer>>,
    reader: Mutex<Option<Link>>,
}

#[derive(Debug)]
struct Writer {
    link: Link,
    /// The number of the last message.
    last: u64,
}

/// Why a message was not taken.
enum Refused {
    /// Its number does not fit.
    Misplaced,
    Failed(BlocksError),
}

impl From<BlocksError> for Refused {
    fn from(error: BlocksError) -> Self {
        Self::Failed(error)
    }
}

impl NatsBlocks {
    /// Takes over the blocks of a stream; makes it if it is not there.
    ///
    /// # Errors
    /// If the server does not answer or does not allow it, or if the stream is made for something else.
    pub async fn open(server: &NatsServer) -> Result<Self, BlocksError> {
        let tls = match server.is_tls {
            true => Some(tls::client_config(server.root_cert.as_deref())?),
            false => None,
        };
        let mut blocks = Self {
            server: server.clone(),
            tls,
            epoch: Uuid::new_v4().to_string(),
            epoch_at: 0,
            acknowledged: AtomicU64::new(0),
            behind_since: std::sync::Mutex::default(),
            writer: Mutex::default(),
            reader: Mutex::default(),
        };
        let (context, lost) = blocks.connect().await?;
        let made = context.get_or_create_stream(blocks.config()).await;
        let mut stream = made.map_err(|error| blocks.failed("make a stream in", &error))?;
        blocks.check(&stream.cached_info().config)?;
        loop {
            let info = stream.info().await;
            let last = info
                .map_err(|error| blocks.failed("read from", &error))?
                .state
                .last_sequence;
            let link = Link {
                context: context.clone(),
                stream: stream.clone(),
                lost: lost.clone(),
            };
            let mut writer = Writer { link, last };
            let epoch = vec![(blocks.epoch_subject(), Bytes::from(blocks.epoch.clone()))];
            match blocks.publish(&mut writer, epoch).await {
                Ok(()) => {
                    blocks.epoch_at = writer.last;
                    *blocks.writer.get_mut() = Some(writer);
                    return Ok(blocks);
                }
                // The writer before was quicker.
                Err(Refused::Misplaced) => {}
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
    }

    fn config(&self) -> Config {
        let prefix = &self.server.prefix;
        Config {
            name: prefix.clone(),
            description: Some("journal and deliveries of skopos".into()),
            subjects: vec![format!("{prefix}.>")],
            storage: StorageType::File,
            num_replicas: self.server.n_replicas,
            max_messages_per_subject: 1,
            // A stream that is full must refuse, not forget.
            discard: DiscardPolicy::New,
            // No message is ever sent twice with the same id.
            duplicate_window: Duration::from_secs(1),
            ..Config::default()
        }
    }

    /// Refuses a stream that would lose blocks.
    fn check(&self, found: &Config) -> Result<(), BlocksError> {
        let unusable = |what: &str| {
            Err(BlocksError::Unavailable(format!(
                "the stream {:?} in {} cannot keep a journal: {what}; remove it, or choose another name with prefix=",
                found.name, self.server.place
            )))
        };
        if found.subjects != [format!("{}.>", self.server.prefix)] {
            return unusable("it has other subjects");
        }
        if found.max_messages_per_subject != 1 {
            return unusable("it must keep one message per subject");
        }
        if found.discard != DiscardPolicy::New || !found.max_age.is_zero() {
            return unusable("it must not discard old messages");
        }
        if found.storage != StorageType::File {
            return unusable("it must be stored in files");
        }
        if found.num_replicas < self.server.n_replicas {
            tracing::warn!(
                stream = found.name,
                replicas = found.num_replicas,
                asked = self.server.n_replicas,
                "the stream was made with fewer replicas than asked for; `nats stream edit --replicas` changes that"
            );
        }
        Ok(())
    }

    fn subject(&self, file: FileId, number: u32) -> String {
        format!("{}.{}.{number}", self.server.prefix, file.0)
    }

    fn epoch_subject(&self) -> String {
        format!("{}.epoch", self.server.prefix)
    }

    /// Connects for writing, and finds out where the stream ends.
    async fn writer(&self) -> Result<Writer, BlocksError> {
        let link = self.link().await?;
        // As it was before the epoch was read: what comes after does not fit any more.
        let last = link.stream.cached_info().state.last_sequence;
        Ok(Writer { link, last })
    }

    /// Publishes messages one after the other, and waits for all.
    async fn publish(&self, writer: &mut Writer, messages: Vec<(String, Bytes)>) -> Result<(), Refused> {
        let mut acks = Vec::new();
        let mut before: Option<String> = None;
        for (last, (subject, bytes)) in (writer.last..).zip(messages) {
            let id = Uuid::new_v4().to_string();
            let mut headers = HeaderMap::new();
            headers.insert(NATS_EXPECTED_LAST_SEQUENCE, last.to_string());
            headers.insert(NATS_MESSAGE_ID, id.as_str());
            if let Some(before) = before.replace(id) {
                headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, before);
            }
            let context = &writer.link.context;
            let sent = context.publish_with_headers(subject, headers, bytes).await;
            acks.push(sent.map_err(|error| self.refused(&error))?);
        }
        for ack in acks {
            let ack = async { ack.await.map_err(|error| self.refused(&error)) };
            let ack = self.answered(&writer.link, ack).await?;
            writer.last = ack.sequence;
        }
        self.acknowledged.store(writer.last, Relaxed);
        Ok(())
    }

    async fn put_all(&self, blocks: &[Block]) -> Result<(), BlocksError> {
        let mut slot = self.writer.lock().await;
        let mut writer = match slot.take() {
            Some(writer) => writer,
            None => self.writer().await?,
        };
        let mut messages = Vec::with_capacity(blocks.len());
        for block in blocks {
            messages.push((self.subject(block.file, block.number), block.bytes.clone()));
        }
        match self.publish(&mut writer, messages).await {
            Ok(()) => {
                *slot = Some(writer);
                Ok(())
            }
            // Either another took over, or something of ours came late: a new writer finds out.
            Err(Refused::Misplaced) => {
                *slot = Some(self.writer().await?);
                Err(BlocksError::Unavailable(format!(
                    "{} got messages of an earlier connection",
                    self.server.place
                )))
            }
            Err(Refused::Failed(error)) => Err(error),
        }
    }

    async fn reader(&self) -> Result<Link, BlocksError> {
        let mut slot = self.reader.lock().await;
        if let Some(link) = &*slot {
            return Ok(link.clone());
        }
        let link = self.link().await?;
        *slot = Some(link.clone());
        Ok(link)
    }

    /// The last message of a subject, from the leader of the stream: the other servers may lag.
    async fn message(&self, stream: &Stream, subject: &str) -> Result<Option<StreamMessage>, BlocksError> {
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(self.failed("read from", &error)),
        }
    }

    async fn read(&self, link: &Link, subject: &str) -> Result<Bytes, BlocksError> {
        let message = self.answered(link, self.message(&link.stream, subject)).await?;
        Ok(message.map(|message| message.payload).unwrap_or_default())
    }

    async fn get_all(&self, file: FileId, numbers: Range<u32>) -> Result<Vec<Bytes>, BlocksError> {
        let link = self.reader().await?;
        let subjects = numbers.map(|number| self.subject(file, number));
        let reads = subjects.map(|subject| {
            let link = &link;
            async move { self.read(link, &subject).await }
        });
        let found = stream::iter(reads).buffered(GETS).try_collect().await;
        if found.is_err() {
            *self.reader.lock().await = None;
        }
        found
    }

    async fn list_all(&self) -> Result<Vec<Extent>, BlocksError> {
        let link = self.reader().await?;
        let failed = |error: &dyn Error| self.failed("read from", error);
        let all = format!("{}.>", self.server.prefix);
        let mut subjects = link
            .stream
            .info_with_subjects(all)
            .await
            .map_err(|error| failed(&error))?;
        let mut numbers: BTreeMap<FileId, Vec<u32>> = BTreeMap::new();
        while let Some((subject, _)) = subjects.try_next().await.map_err(|error| failed(&error))? {
            if let Some((file, number)) = self.parse(&subject) {
                numbers.entry(file).or_default().push(number);
            }
        }
        let mut extents = Vec::new();
        for (file, mut numbers) in numbers {
            numbers.sort_unstable();
            for number in numbers.into_iter().rev() {
                let bytes = self.read(&link, &self.subject(file, number)).await?;
                if !bytes.is_empty() {
                    extents.push(Extent {
                        file,
                        last: number,
                        last_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                    });
                    break;
                }
            }
        }
        Ok(extents)
    }

    fn parse(&self, subject: &str) -> Option<(FileId, u32)> {
        let rest = subject.strip_prefix(&self.server.prefix)?.strip_prefix('.')?;
        let (file, number) = rest.split_once('.')?;
        Some((FileId(file.parse().ok()?), number.parse().ok()?))
    }

    /// The names without this file are written already, by a message that only the present writer could send.
    async fn remove_all(&self, file: FileId) -> Result<(), BlocksError> {
        let mut slot = self.writer.lock().await;
        let writer = match slot.take() {
            Some(writer) => writer,
            None => self.writer().await?,
        };
        let filter = format!("{}.{}.>", self.server.prefix, file.0);
        // Up to what we wrote: nothing that another may have written later goes.
        let purge = writer
            .link
            .stream
            .purge()
            .sequence(writer.last + 1)
            .filter(filter);
        let purging = async { purge.await.map_err(|error| self.failed("write to", &error)) };
        self.answered(&writer.link, purging).await?;
        *slot = Some(writer);
        Ok(())
    }

    fn taken_over(&self) -> BlocksError {
        BlocksError::TakenOver(self.server.place.clone())
    }

    fn refused(&self, error: &PublishError) -> Refused {
        match error.kind() {
            PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId => Refused::Misplaced,
            _ => Refused::Failed(self.failed("write to", error)),
        }
    }

    fn failed(&self, what: &str, error: &dyn Error) -> BlocksError {
        let mut text = format!("cannot {what} {}", self.server.place);
        let mut cause = Some(error);
        while let Some(error) = cause {
            let said = error.to_string();
            if !text.contains(&said) {
                text.push_str(&format!(": {said}"));
            }
            cause = error.source();
        }
        BlocksError::Unavailable(text)
    }
}

impl Blocks for NatsBlocks {
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
