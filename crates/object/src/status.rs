//! `metav1.Status`: how an API server says that something failed, as a Rust error.

mod construct;
mod reason;
mod wire;

pub use self::reason::Reason;

/// The answer of an API server to a request that failed, and sometimes to one that succeeded.
///
/// The constructors word the message exactly as kube-apiserver does. Shown as the message alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status code. Below 400 the status reports success.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
    /// What the status is about.
    pub details: Option<Box<Details>>,
    /// Where to go on listing after a page token expired (`metadata.continue`).
    pub continue_token: Option<String>,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name; may be empty.
    pub name: String,
    /// The API group; may be empty.
    pub group: String,
    /// The kind, or very often the resource.
    pub kind: String,
    /// The object's UID; may be empty.
    pub uid: String,
    /// Single causes, such as one per invalid field.
    pub causes: Vec<Cause>,
    /// After how many seconds to try again; 0 if not said.
    pub retry_after_seconds: u32,
}

/// One cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable type, such as `FieldValueInvalid`.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The field, if the cause has one.
    pub field: String,
}

impl Status {
    /// Whether this reports success.
    pub fn is_success(&self) -> bool {
        self.code < 400
    }

    /// Whether a cause of type `reason` is given.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// After how many seconds to try again, if the server said so.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details
            .as_ref()
            .map(|details| details.retry_after_seconds)
            .filter(|seconds| *seconds > 0)
    }
}
