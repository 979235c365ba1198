//! The same promises by every server: PostgreSQL, NATS and one in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod blocks;
mod failover;
mod files;
mod secrets;
mod slow_answers;
mod support;
