//! What controllers do, behaviour by behaviour, on an embedded server with a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stage;

mod applying;
mod finalizing;
mod hearing;
mod leading;
mod managing;
mod stopping;
mod working;
mod writing;
