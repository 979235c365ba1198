//! For tests of controllers: a server in process, faults, scripted and model sources, builders.
//!
//! [`TestServer`] is an API server with real semantics that starts in milliseconds, without a port.
//! [`Faults`] stand in front of it, or of any other server, and break what you tell them to break.
//! Everything runs on tokio's clock: with `start_paused = true` ten minutes take no time.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use skopos_testkit::{Fault, Rule, TestServer, definition};
//!
//! let server = TestServer::start().await;
//! server.put(&definition("example.com", "v1", "Widget", "widgets")).await;
//! server.apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: small, namespace: default}}").await;
//! server.faults().add(Rule::list().resource("widgets").nth(1).then(Fault::unavailable(1)));
//!
//! let widgets = server.api("example.com/v1", "Widget", "widgets");
//! let refused = widgets.list(&Default::default()).next().await;
//! assert_eq!(refused.unwrap_err().status().unwrap().code, 503);
//! let first = widgets.list(&Default::default()).next().await?;
//! assert_eq!(first.unwrap().name(), "small");
//! # Ok(())
//! # }
//! ```
//!
//! Without HTTP: [`ModelSource`] is a collection with versions, history and the same faults behind the
//! [`ListWatch`](skopos_object::ListWatch) trait, for thousands of runs a second; [`Script`] says request by
//! request what must be asked and what is answered.
//!
//! [`parts`] starts the real servers that Skopos delivers to.

/// The guide, so that its Rust is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/testing.md")]
struct Guide;

mod server;

mod fault;
mod proxy;

mod model;
mod script;

pub mod parts;

mod eventually;
mod history;
mod objects;
mod seeds;

pub use crate::{
    eventually::{eventually, same},
    fault::{Added, Asked, Fault, FaultBody, FaultLayer, FaultService, Faults, Rule, RuleBuilder, Verb},
    history::{History, HistoryError},
    model::{Data, ModelSource},
    objects::{definition, object, objects, value},
    proxy::Proxy,
    script::{Script, Step, added, bookmark, deleted, modified},
    seeds::{Seeds, seeds},
    server::TestServer,
};
