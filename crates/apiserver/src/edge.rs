//! The outer edge of the API server: TLS, identities, limits, health and metrics in front of one handler.
//!
//! ```text
//! listen ─ connection ─ service: panic → audit id → deadline → login → impersonation → local paths
//!                                → in-flight limits → body → Handler
//! ```
//!
//! Start at [`Edge`] and [`serve`]; what the handler sees is in [`Request`]; every bound is in [`Limits`].

mod seam;
mod service;

mod account;
mod activity;
mod admission;
mod answer;
mod authenticate;
mod body;
mod certificate;
mod connection;
mod deadline;
mod gather;
mod impersonate;
mod kubeconfig;
mod limits;
mod listen;
mod local;
mod metrics;
mod pki;
mod query;
mod read;
mod stall;
mod tls;
mod tokens;
mod websocket;

pub use body::ResponseBody;
pub use kubeconfig::Kubeconfig;
pub use limits::Limits;
pub use pki::PkiError;
pub use service::EdgeService;
pub use tokens::TokenFileError;

pub(crate) use authenticate::Authenticator;
pub(crate) use listen::serve;
pub(crate) use local::HealthCheck;
pub(crate) use pki::Pki;
pub(crate) use seam::{Handler, Request, RequestLabels, Sample, SampleValue, User};
pub(crate) use service::{Edge, EdgeConfig};
pub(crate) use tls::ServingCertificate;
pub(crate) use tokens::TokenTable;

#[cfg(test)]
mod tests;
