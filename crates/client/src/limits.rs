//! How often requests are sent, and when one is sent again.

use std::error::Error as _;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use skopos_object::raw_path;
use tokio::time::Instant;

use crate::{Call, Error};

/// How often requests are sent, and when one is sent again. The default: as often as wanted, and up to five times
/// within half a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many requests may be sent. Nothing means any number: API servers defend themselves.
    pub rate: Option<Rate>,
    /// When a request is sent again.
    pub retry: Retry,
}

/// How many requests may be sent. Opening a list or a watch is one; what arrives on it then is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

/// When a request is sent again after a failure that may pass.
///
/// Whatever its method, a request is repeated after the connection was refused and after 429: the server has not
/// done it. After 503 with `Retry-After` it is repeated if twice is the same as once: reads, server-side apply,
/// updates of a given resource version and deletes of a given uid. After anything else only reads are repeated. So a
/// create never happens twice. Lists and watches are not repeated here: who follows a collection knows better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often a request is sent at most; 1 means never again.
    pub attempts: u32,
    /// The pause after the first failure. It doubles from one to the next, and up to as much again is added at random.
    pub first_pause: Duration,
    /// The longest pause, unless the server asks for a longer one.
    pub longest_pause: Duration,
    /// The most that all of it may take.
    pub total: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            total: Duration::from_secs(30),
        }
    }
}

impl Retry {
    /// Sends every request once.
    pub const NEVER: Self = Self {
        attempts: 1,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
        total: Duration::ZERO,
    };

    /// How long to wait before sending `call` again, after it failed so many times since `begin`. Nothing if it is
    /// not to be sent again.
    pub(crate) fn pause(
        &self,
        call: &Call,
        error: &Error,
        failures: u32,
        begin: Instant,
    ) -> Option<Duration> {
        if failures >= self.attempts || !is_repeatable(call, error) {
            return None;
        }
        let doubled = self
            .first_pause
            .saturating_mul(1 << (failures - 1).min(16))
            .min(self.longest_pause);
        let pause = doubled + doubled.mul_f64(fastrand::f64());
        let pause = pause.max(asked_for(error).unwrap_or_default());
        (begin.elapsed() + pause <= self.total).then_some(pause)
    }
}

fn asked_for(error: &Error) -> Option<Duration> {
    let seconds = error.status()?.retry_after_seconds()?;
    Some(Duration::from_secs(seconds.into()))
}

fn is_repeatable(call: &Call, error: &Error) -> bool {
    match error {
        Error::Refused(status) if status.code == 429 => true,
        Error::Refused(status) if status.code == 503 && asked_for(error).is_some() => is_idempotent(call),
        Error::Unreachable { .. } if was_never_sent(error) => true,
        _ => call.method == Method::GET && error.is_transient(),
    }
}

/// Whether to do it twice is the same as to do it once, whatever others do in between.
fn is_idempotent(call: &Call) -> bool {
    let has =
        |path: &[&str]| raw_path(&call.body, path).is_some_and(|value| !matches!(value, b"\"\"" | b"null"));
    match call.method {
        Method::GET => true,
        Method::PUT => has(&["metadata", "resourceVersion"]),
        Method::DELETE => has(&["preconditions", "uid"]),
        Method::PATCH => call.content_type == Some("application/apply-patch+yaml"),
        _ => false,
    }
}

/// Whether there was no connection to send on.
fn was_never_sent(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if let Some(
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable,
        ) = kind
        {
            return true;
        }
        source = error.source();
    }
    false
}

/// Hands out permissions to send at a [`Rate`].
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Below zero: so many have been promised.
    permissions: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn new(rate: Rate) -> Self {
        let burst = f64::from(rate.burst.max(1));
        Self {
            per_second: f64::from(rate.per_second.max(1)),
            burst,
            level: Mutex::new(Level {
                permissions: burst,
                at: Instant::now(),
            }),
        }
    }

    /// Waits for a permission, in the order of asking.
    pub(crate) async fn permission(&self) {
        let wait = self.take();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn take(&self) -> Duration {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let grown = level.permissions + (now - level.at).as_secs_f64() * self.per_second;
        level.permissions = grown.min(self.burst) - 1.0;
        level.at = now;
        Duration::from_secs_f64((-level.permissions / self.per_second).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_happen_twice_is_idempotent() {
        let json = "application/json";
        let check = |method: Method, body: &'static str, expect: bool| {
            let call = Call::new(method.clone(), "/x").body(json, body);
            assert_eq!(is_idempotent(&call), expect, "{method} {body}");
        };
        check(Method::GET, "", true);
        check(Method::POST, r#"{"metadata":{"resourceVersion":"1"}}"#, false);
        check(Method::PUT, r#"{"metadata":{"resourceVersion":"1"}}"#, true);
        check(Method::PUT, r#"{"metadata":{"resourceVersion":""}}"#, false);
        check(Method::PUT, "{}", false);
        check(Method::DELETE, r#"{"preconditions":{"uid":"u"}}"#, true);
        check(Method::DELETE, "{}", false);
        check(Method::PATCH, "{}", false);
        let apply = Call::new(Method::PATCH, "/x").body("application/apply-patch+yaml", "{}");
        assert!(is_idempotent(&apply));
    }
}
