//! The server that keeps the journal, as commands are told of it.

use clap::Args;
use skopos_app::{JournalUrl, ReactionsError};
use skopos_control::EngineError;

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

/// What to do next when reactions do not start.
pub(crate) fn hint(error: &ReactionsError) -> Option<&'static str> {
    match error {
        ReactionsError::Engine(EngineError::Server(_)) => {
            Some("check that the server of --journal runs, and what its address says")
        }
        ReactionsError::Engine(EngineError::Journal(_) | EngineError::Deliveries { .. }) => {
            Some("is another process using this data directory?")
        }
        ReactionsError::Engine(EngineError::OtherNamespaces { .. }) => {
            Some("name another directory with --data-dir, or another prefix in the address of --journal")
        }
        ReactionsError::Install { .. } => {
            Some("may this user install definitions? `skopos crd` prints them for somebody who may")
        }
        ReactionsError::Endpoint { .. } => Some("choose another with --endpoint, or stop what uses it"),
        _ => None,
    }
}
