//! Connections to PostgreSQL: to the one of several servers that can be written, in the clear or with TLS.
//!
//! Start at [`Servers`].

mod servers;
mod tls;

pub use crate::{
    servers::{ConnectError, Link, Server, Servers, told},
    tls::{Handshake, MakeTls, Secured},
};
