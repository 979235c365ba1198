//! The embedded control plane: CRDs and resources over the Kubernetes HTTP API, also in process.
//!
//! Start at [`ApiServer`]: [`ApiServer::service`] talks to it without a socket, [`ApiServer::serve`] over TLS.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Namespace;
//! use skopos_apiserver::{ApiServer, Config};
//!
//! let server = ApiServer::start(Config::default()).await?; // in memory
//! let client = kube::Client::new(server.service(), "default");
//! let namespaces: kube::Api<Namespace> = kube::Api::all(client);
//! assert_eq!(namespaces.list(&Default::default()).await?.items.len(), 4);
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A request goes through the edge (limits, identity), `route` (which resource, which verb), then the read
//! path (`read`) or the write path (`write`), and leaves through `respond` in the form the client asked for.

/// The guide, so that its Rust is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/control-plane.md")]
struct Guide;

mod server;

mod edge;
mod request;
mod route;

mod call;
mod chance;
mod claims;
mod options;
mod read;
mod respond;
mod reviews;
mod scale;
mod services;
mod strategy;
mod versions;
mod warnings;
mod write;

mod controllers;
mod definition;
mod metrics;
mod present;
mod published;
mod registry;
mod state;

pub use crate::{
    edge::{EdgeService, Kubeconfig, Limits, PkiError, ResponseBody, TokenFileError},
    route::Router,
    server::{ApiServer, ApiService, Config, StartError},
};
