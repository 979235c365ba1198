//! Real servers for tests of what talks to them: PostgreSQL, NATS, RabbitMQ, Kafka.
//!
//! Each runs on free loopback ports with a directory of its own, is ready when its constructor returns, can be stopped
//! and started in between, and ends with its value. `cargo xtask parts` installs them.

mod authority;
mod kafka;
mod nats;
mod postgres;
mod rabbitmq;
mod service;

pub use self::{
    authority::{Authority, Issued},
    kafka::Kafka,
    nats::Nats,
    postgres::Postgres,
    rabbitmq::Rabbitmq,
};

/// The user and the password that every part knows.
pub const USER: (&str, &str) = ("skopos", "correct-horse");
