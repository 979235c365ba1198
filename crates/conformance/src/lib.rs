//! The outer tests of the API server: real clients against a real process.
//!
//! A [`Target`] is a server under test: an embedded one that the test starts for itself, or the one whose
//! kubeconfig is in `SKOPOS_TARGET`. The expected answers in `scripts/` are recorded from kube-apiserver
//! (`UPDATE=1` with a real target) and replayed on the embedded server, so both must say the same.

mod aged;
mod endpoint;
mod kubeconfig;
mod requests;
mod server;
mod target;
mod tools;
mod tour;
mod transcript;

pub use endpoint::{Answer, Connection, Endpoint, Request, Streams};
pub use kubeconfig::Kubeconfig;
pub use requests::{play_requests, set_requests_stage};
pub use server::{Server, Start, memory_of};
pub use target::Target;
pub use tools::{kubectl, python, skopos};
pub use tour::{Tour, build_with, client_sources};
pub use transcript::{compare_or_update, play};
