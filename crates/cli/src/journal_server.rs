//! The server that keeps the journal, as commands are told of it.

use std::io::{self, ErrorKind};

use clap::Args;
use skopos_app::{JournalUrl, ReactionsError};
use skopos_control::{EngineError, StopError};
use skopos_journal::OpenError;
use skopos_react::Error;

use crate::failure::Failure;

/// The flag, which several commands have.
#[derive(Debug, Args)]
pub(crate) struct JournalServer {
    /// Server that keeps the journal and the state of deliveries, so that another replica can take over: postgres://,
    /// nats:// or tls:// (NATS)
    // The text is parsed later: an error of the parser would show the password.
    #[arg(
        long = "journal",
        value_name = "URL",
        env = "SKOPOS_JOURNAL",
        hide_env_values = true
    )]
    url: Option<String>,
}

impl JournalServer {
    /// The address, if there is one.
    pub(crate) fn url(&self) -> Result<Option<JournalUrl>, Failure> {
        let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let parsed = url
            .parse()
            .map_err(|error| Failure::usage(format!("the address in --journal or SKOPOS_JOURNAL {error}")))?;
        Ok(Some(parsed))
    }
}

const IN_USE: &str = "is another process using this data directory?";

/// What to do next with a data directory that cannot be used.
fn of_directory(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to with --data-dir"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room there, or choose another directory with --data-dir"
        }
        _ => "check the directory, or choose another with --data-dir",
    }
}

/// What to do next when reactions do not start.
pub(crate) fn hint(error: &ReactionsError) -> Option<&'static str> {
    match error {
        ReactionsError::Engine(EngineError::Server(_)) => {
            Some("check that the server of --journal runs, and what its address says")
        }
        ReactionsError::Engine(EngineError::Journal(error)) => Some(match error {
            OpenError::Locked { .. } => IN_USE,
            OpenError::Io { source, .. } => of_directory(source),
        }),
        ReactionsError::Engine(EngineError::Deliveries { source, .. }) => match source {
            Error::InUse { .. } => Some(IN_USE),
            Error::Open { source, .. } => Some(of_directory(source)),
            // Its message says what to do.
            _ => None,
        },
        ReactionsError::Engine(EngineError::OtherNamespaces { .. }) => {
            Some("name another directory with --data-dir, or another prefix in the address of --journal")
        }
        ReactionsError::Stopped(StopError::Deliveries(_) | StopError::Journal(_)) => {
            Some("nothing is lost: see to the disk of the data directory, then start again")
        }
        ReactionsError::Install { .. } => {
            Some("may this user install definitions? `skopos crd` prints them for somebody who may")
        }
        ReactionsError::Endpoint { .. } => Some("choose another with --endpoint, or stop what uses it"),
        _ => None,
    }
}
