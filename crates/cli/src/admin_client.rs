//! Asks a running process, or its data directory if none runs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use skopos_control::{Admin, Door, Question, Reason, Refusal, Resolve};
use skopos_journal::{Journal, JournalConfig, OpenError};
use skopos_object::GroupResource;
use skopos_react::Reactor;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::failure::{Failure, chain};

/// How long a process on this machine may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// No answer is larger: long ones come in pages.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// Where the journal is in a data directory.
const JOURNAL: &str = "journal";
/// Where the state of deliveries is in a data directory.
const DELIVERIES: &str = "react.redb";

/// Which data directory is asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataDir {
    /// Data directory of the `skopos up` or `skopos run` to ask; its journal is read directly if none runs
    #[arg(long, value_name = "DIR", default_value = ".skopos")]
    pub(crate) data_dir: PathBuf,
}

/// Answers questions about changes, rules and deliveries.
#[derive(Debug)]
pub(crate) enum AdminClient {
    /// A running process.
    Remote(Door),
    /// The data directory, opened by this process.
    Local(Box<Admin>),
}

impl DataDir {
    /// Finds who answers for the data directory.
    pub(crate) async fn open(&self) -> Result<AdminClient, Failure> {
        if let Some(client) = self.running().await? {
            return Ok(client);
        }
        let journal = self.journal()?;
        tracing::info!(data_dir = %self.data_dir.display(), "no process answers; reading the journal itself");
        Ok(AdminClient::Local(Box::new(Admin::new(journal))))
    }

    /// Finds the process that runs on the data directory: some questions only it can answer.
    pub(crate) async fn open_running(&self) -> Result<AdminClient, Failure> {
        let dir = self.data_dir.display();
        let missing = || {
            Failure::failed(format!("no process runs on {dir}"))
                .hint("start `skopos up` or `skopos run` there, or name its directory with --data-dir")
        };
        self.running().await?.ok_or_else(missing)
    }

    /// Finds who answers for the data directory, deliveries included.
    pub(crate) async fn open_with_deliveries(&self) -> Result<AdminClient, Failure> {
        let client = self.open().await?;
        // Opening would begin a new state where there is none.
        let is_kept = self.data_dir.join(DELIVERIES).exists();
        let AdminClient::Local(admin) = client else {
            return Ok(client);
        };
        if !is_kept {
            return Ok(AdminClient::Local(admin));
        }
        let log = Arc::new(admin.journal().clone());
        let reactor = Reactor::open(&self.data_dir, log).map_err(|error| Failure::failed(chain(&error)))?;
        Ok(AdminClient::Local(Box::new(admin.with_reactor(reactor))))
    }

    async fn running(&self) -> Result<Option<AdminClient>, Failure> {
        let door = Door::read(&self.data_dir).map_err(|error| Failure::failed(chain(&error)))?;
        let Some(door) = door else {
            return Ok(None);
        };
        // A process that was killed leaves its file behind.
        let answers = matches!(
            timeout(CONNECT_TIMEOUT, TcpStream::connect(door.address)).await,
            Ok(Ok(_))
        );
        Ok(answers.then_some(AdminClient::Remote(door)))
    }

    fn journal(&self) -> Result<Journal, Failure> {
        let path = self.data_dir.join(JOURNAL);
        if !path.is_dir() {
            return Err(no_journal(&self.data_dir));
        }
        let config = JournalConfig::new(path);
        let opened = match Journal::open(config.clone()) {
            Err(error) if error.is_read_only() => {
                tracing::info!(
                    error = chain(&error),
                    "the journal cannot be written to, and is only read"
                );
                Journal::open_frozen(config)
            }
            opened => opened,
        };
        opened.map_err(|error| {
            let failure = Failure::failed(chain(&error));
            match error {
                OpenError::Locked { .. } => {
                    failure.hint("a process has it but does not answer; is it just starting or stopping?")
                }
                OpenError::Io { .. } => {
                    failure.hint("check the permissions, or name another directory with --data-dir")
                }
            }
        })
    }
}

fn no_journal(data_dir: &Path) -> Failure {
    let text = format!("there is no journal in {}", data_dir.display());
    Failure::failed(text)
        .hint("run this where `skopos up` or `skopos run` keeps its data, or name it with --data-dir")
}

impl AdminClient {
    /// Asks.
    pub(crate) async fn ask<Q: Question>(&self, question: &Q) -> Result<Q::Answer, Failure> {
        Ok(self.try_ask(question).await??)
    }

    /// Asks; a refusal is an answer too.
    pub(crate) async fn try_ask<Q: Question>(
        &self,
        question: &Q,
    ) -> Result<Result<Q::Answer, Refusal>, Failure> {
        match self {
            Self::Local(admin) => Ok(admin.ask(question).await),
            Self::Remote(door) => {
                let answer = post(door, question).await;
                answer.map_err(|what| lost(door, &what))
            }
        }
    }

    /// The kind that a word means, as `plural.group`. What the journal does not know (the short name of a kind that was
    /// never captured, or captured before short names were written down) the API server may.
    pub(crate) async fn resource(&self, word: &str, connection: &Connection) -> Result<String, Failure> {
        let resolve = |word: &str| Resolve {
            resource: word.to_owned(),
        };
        let refusal = match self.try_ask(&resolve(word)).await? {
            Ok(resolved) => return Ok(resolved.resource),
            Err(refusal) if refusal.reason == Reason::UnknownResource => refusal,
            Err(refusal) => return Err(refusal.into()),
        };
        let known = match connection.discover().await {
            Ok((_, catalog)) => {
                let found = catalog.resolve(word).ok();
                found.map(|found| found.resource.group_resource())
            }
            Err(_) => match built_in(word) {
                Some(known) => Some(known),
                None => return Err(unknown_offline(refusal)),
            },
        };
        match known {
            Some(known) => Ok(self.ask(&resolve(&known.to_string())).await?.resource),
            None => Err(refusal.into()),
        }
    }
}

/// A built-in kind by its short name: those are the same everywhere.
fn built_in(word: &str) -> Option<GroupResource> {
    let mut kinds = skopos_builtin::kinds().iter();
    let known = kinds.find(|one| one.short_names.contains(&word))?;
    Some(GroupResource::new(known.group, known.plural))
}

/// A kind that the journal does not know by this word, and nobody else can be asked.
fn unknown_offline(refusal: Refusal) -> Failure {
    let forms = "no API server answers, which may know other short names: write the plural or the kind";
    let hint = format!("{}; {forms}", refusal.hint);
    Failure::from(refusal).hint(hint)
}

fn lost(door: &Door, what: &str) -> Failure {
    Failure::failed(format!("the process at {} does not answer: {what}", door.address))
        .hint("did it just stop? Try again")
}

async fn post<Q: Question>(door: &Door, question: &Q) -> Result<Result<Q::Answer, Refusal>, String> {
    let body = serde_json::to_vec(question).map_err(|error| error.to_string())?;
    let request = Request::post(format!("/v1/{}", Q::NAME))
        .header(HOST, door.address.to_string())
        .header(AUTHORIZATION, format!("Bearer {}", door.token))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let (status, body) = exchange(door, request).await.map_err(|error| chain(&*error))?;
    let unreadable = |error: serde_json::Error| format!("its answer cannot be read: {error}");
    match status {
        StatusCode::OK => serde_json::from_slice(&body).map(Ok).map_err(unreadable),
        _ => serde_json::from_slice(&body).map(Err).map_err(unreadable),
    }
}

/// Sends one request over a connection of its own.
#[expect(clippy::disallowed_methods, reason = "what is read is limited")]
async fn exchange(
    door: &Door,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(door.address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await?;
        Ok::<_, Box<dyn Error + Send + Sync>>((status, body.to_bytes()))
    };
    // The connection does its work while somebody waits for the answer, and is dropped with it.
    let (mut connection, mut answer) = (pin!(connection), pin!(answer));
    tokio::select! {
        answer = &mut answer => answer,
        ended = &mut connection => {
            ended?;
            answer.await
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let failure = match refusal.reason {
            Reason::BadQuestion => Self::usage(refusal.message),
            _ => Self::failed(refusal.message),
        };
        match refusal.hint.is_empty() {
            true => failure,
            false => failure.hint(refusal.hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_of_built_in_kinds_need_no_server() {
        let check = |word: &str, expect: Option<&str>| {
            let found = built_in(word).map(|known| known.to_string());
            assert_eq!(found.as_deref(), expect, "{word}");
        };
        check("deploy", Some("deployments.apps"));
        check("cm", Some("configmaps"));
        check("app", None);
    }
}
