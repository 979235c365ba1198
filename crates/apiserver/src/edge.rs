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
mod impersonate;
mod kubeconfig;
mod limits;
mod listen;
mod local;
mod metrics;
mod pki;
mod process;
mod query;
mod read;
mod stall;
mod tls;
mod tokens;

pub use authenticate::Authenticator;
pub use body::ResponseBody;
pub use certificate::ClientAuthority;
pub use kubeconfig::Kubeconfig;
pub use limits::Limits;
pub use listen::serve;
pub use local::{HealthCheck, KUBERNETES_VERSION, Probe};
pub use pki::{Pki, PkiError};
pub use seam::{
    ANONYMOUS, AUTHENTICATED, Handler, MASTERS, Request, RequestLabels, Sample, SampleValue, UNAUTHENTICATED,
    User,
};
pub use service::{Edge, EdgeConfig, EdgeService};
pub use tls::ServingCertificate;
pub use tokens::{TokenFileError, TokenTable};

#[cfg(test)]
mod tests;
