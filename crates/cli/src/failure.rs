//! How a command fails: what it says, what to do next, and the exit code.

use std::io;

use skopos_client::{ConnectError, Error, UnknownResource};

use crate::terminal;

/// Exit codes, as `--help` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    /// All is well.
    Done = 0,
    /// The request, or one of several, failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// No API server, or it cannot be reached.
    NoConnection = 3,
    /// A control plane could not start.
    NoStart = 4,
}

/// Text for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  a request, or one of several, failed
  2  wrong usage
  3  no API server found, or it cannot be reached
  4  `up`, `run` or `apiserver` could not start";

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// A failure that was reported already.
    pub(crate) fn silent(code: Code) -> Self {
        Self::new(code, "")
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts what was being done in front of the message.
    #[must_use]
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

/// Failures that did not stop the command.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    pub(crate) worst: Option<Code>,
}

impl Failed {
    /// Reports one and goes on.
    pub(crate) fn note(&mut self, failure: &Failure) {
        terminal::report(failure);
        self.worst = self.worst.max(Some(failure.code));
    }

    /// Ends the command with the right code; what happened was said already.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.worst {
            None => Ok(()),
            Some(code) => Err(Failure::silent(code)),
        }
    }
}

/// Joins an error and its causes in one line, without saying anything twice.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Unreachable { .. } => Self::new(Code::NoConnection, chain(&error))
                .hint("is the server running? `skopos up` starts one here; --kubeconfig chooses another"),
            Error::TimedOut { .. } => {
                Self::failed(chain(&error)).hint("the server is slow or stuck; try again")
            }
            Error::Refused(status) => {
                let failure = Self::failed(format!("{} ({})", status.message, status.reason));
                match refusal_hint(status.code) {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            _ => Self::failed(chain(&error)),
        }
    }
}

fn refusal_hint(code: u16) -> Option<&'static str> {
    match code {
        401 => {
            Some("the credentials are not valid for this server; is the kubeconfig of another server in use?")
        }
        403 => Some("this user may not do that; ask for the right, or use another context (--context)"),
        409 => Some("someone else changed it at the same time; try again"),
        429 | 503 => Some("the server is busy; try again in a moment"),
        _ => None,
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let hint = match &error {
            ConnectError::NothingFound(_) => "start one here with `skopos up`, or name one with --kubeconfig",
            ConnectError::Kubeconfig { .. } => "name another with --kubeconfig, or repair this one",
            ConnectError::InCluster(_) => "does the pod mount a service account token?",
            ConnectError::Credentials { .. } => "check the certificates and tokens in the kubeconfig",
        };
        Self::new(Code::NoConnection, chain(&error)).hint(hint)
    }
}

impl From<UnknownResource> for Failure {
    fn from(error: UnknownResource) -> Self {
        Self::failed(error.to_string())
            .hint("is the CustomResourceDefinition installed? `skopos get crd` lists them")
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The reader has seen enough, as with `| head`.
            io::ErrorKind::BrokenPipe => Self::silent(Code::Done),
            _ => Self::failed(format!("cannot write the output: {error}")),
        }
    }
}
