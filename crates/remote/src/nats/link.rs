//! Connections to the servers of a cluster, and whether the leader of the stream has all that was written.

use std::{
    sync::{PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use async_nats::{
    ConnectOptions, Event, ServerAddr,
    jetstream::{self, stream::Stream},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::NatsBlocks;
use crate::BlocksError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// A new leader of a stream must apply what it has within this time; servers before 2.11 answer before they did.
const CATCHING_UP: Duration = Duration::from_secs(30);

/// A connection, and the stream as it was when it was made.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) context: jetstream::Context,
    pub(super) stream: Stream,
    /// Cancelled when the connection is. The client would go on with another one, but what was under way gets no answer.
    pub(super) lost: CancellationToken,
}

impl NatsBlocks {
    pub(super) async fn connect(&self) -> Result<(jetstream::Context, CancellationToken), BlocksError> {
        let mut servers = Vec::new();
        for server in &self.server.servers {
            let parsed: ServerAddr = server
                .parse()
                .map_err(|error| self.failed("connect to", &error))?;
            servers.push(parsed);
        }
        let lost = CancellationToken::new();
        let told = lost.clone();
        let mut options = ConnectOptions::new()
            .name("skopos")
            .connection_timeout(CONNECT_TIMEOUT)
            .ignore_discovered_servers()
            // It tries each server once and gives up: whoever calls waits and connects anew.
            .max_reconnects(servers.len())
            .reconnect_delay_callback(|_| Duration::ZERO)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    told.cancel();
                }
                std::future::ready(())
            });
        options = match (&self.server.user, &self.server.password) {
            (Some(user), Some(password)) => options.user_and_password(user.clone(), password.clone()),
            (Some(token), None) => options.token(token.clone()),
            _ => options,
        };
        if let Some(tls) = &self.tls {
            options = options.require_tls(true).tls_client_config(tls.clone());
        }
        let connected = options.connect(&servers[..]).await;
        let client = connected.map_err(|error| self.failed("connect to", &error))?;
        let mut context = jetstream::new(client);
        context.set_timeout(ANSWER_TIMEOUT);
        Ok((context, lost))
    }

    /// Connects, and makes sure that whoever leads the stream has all that was written.
    pub(super) async fn link(&self) -> Result<Link, BlocksError> {
        // Before the server is asked: what is written meanwhile need not be in its answer.
        let acknowledged = self.acknowledged.load(Relaxed);
        let (context, lost) = self.connect().await?;
        let found = context.get_stream(&self.server.prefix).await;
        let stream = found.map_err(|error| self.failed("find the stream in", &error))?;
        if stream.cached_info().state.last_sequence < acknowledged {
            return Err(self.behind(&stream));
        }
        let epoch = self.message(&stream, &self.epoch_subject()).await?;
        let found_at = epoch.as_ref().map_or(0, |epoch| epoch.sequence);
        if found_at < self.epoch_at {
            return Err(self.behind(&stream));
        }
        if epoch.is_none_or(|epoch| epoch.payload != self.epoch.as_bytes()) {
            return Err(self.taken_over());
        }
        *self.behind_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(Link {
            context,
            stream,
            lost,
        })
    }

    /// The stream ends before what it acknowledged.
    fn behind(&self, stream: &Stream) -> BlocksError {
        let mut since = self.behind_since.lock().unwrap_or_else(PoisonError::into_inner);
        let since = since.get_or_insert_with(Instant::now);
        // Who leads a stream alone has nothing to catch up with.
        let is_alone = stream.cached_info().config.num_replicas <= 1;
        match is_alone || since.elapsed() >= CATCHING_UP {
            true => BlocksError::WentBack(self.server.place.clone()),
            false => BlocksError::Unavailable(format!(
                "the stream in {} does not have all messages that it acknowledged: its leader has not caught up",
                self.server.place
            )),
        }
    }

    /// An answer, unless the connection is lost before.
    pub(super) async fn answered<T, E>(
        &self,
        link: &Link,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<BlocksError>,
    {
        match link.lost.run_until_cancelled(answer).await {
            Some(outcome) => outcome,
            None => Err(E::from(BlocksError::Unavailable(format!(
                "the connection to {} was lost",
                self.server.place
            )))),
        }
    }
}
