//! What users of an informer can rely on, behaviour by behaviour.
#![expect(clippy::unwrap_used, reason = "tests")]

mod informing;
mod outages;
mod relisting;
mod server;
mod sharing;
mod subscribing;
