//! The embedded control plane: CRDs and resources over the Kubernetes HTTP API, also in process.
//!
//! Start at [`ApiServer`]: [`ApiServer::service`] talks to it without a socket, [`ApiServer::serve`] over TLS.
//!
//! A request goes through the edge (limits, identity), `route` (which resource, which verb), then the read
//! path (`read`) or the write path (`write`), and leaves through `respond` in the form the client asked for.

mod server;

mod edge;
mod request;
mod route;

mod call;
mod options;
mod read;
mod respond;
mod reviews;
mod scale;
mod services;
mod strategy;
mod versions;
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
