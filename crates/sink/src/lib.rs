//! Destinations of deliveries.
//!
//! A [`Destination`] takes [`Event`]s and says how many it has for certain. It neither retries nor reorders: whoever
//! calls does. [`connect()`] makes one from the spec of a Sink; it talks to nobody yet. Connections are made when the
//! first event comes, and anew after each failure.

mod event;

mod connect;
mod secrets;
mod tls;

mod cloud_event;
mod link;
mod mark;
mod waves;
mod writer;

mod exec;
mod file;
mod kafka;
mod kubernetes;
mod nats;
mod postgres;
mod rabbitmq;
mod stdout;
mod webhook;

pub use crate::{
    connect::{Allowed, BadSink, Context, DEFAULT_TIMEOUT, connect},
    event::{Destination, Event, Failure, Sent},
    mark::rule_annotation,
    secrets::{SecretError, Secrets},
};
