//! What controllers do, behaviour by behaviour, on an embedded server with a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stage;

mod applying;
mod dead_letters;
mod deleting;
mod finalizing;
mod going;
mod hearing;
mod leading;
mod living;
mod managing;
mod stopping;
mod working;
mod writing;
