//! The outer tests of the API server: real clients against a real process.
//!
//! A [`Target`] is a server under test: an embedded one that the test starts for itself, or the one whose
//! kubeconfig is in `SKOPOS_TARGET`. The expected answers in `scripts/` are recorded from kube-apiserver
//! (`UPDATE=1` with a real target) and replayed on the embedded server, so both must say the same. Where there is a
//! real server, the requests in `scenarios/` go to both and the answers are compared ([`Pair`]).

mod aged;
mod differ;
mod endpoint;
mod kubeconfig;
mod server;
mod target;
mod tools;
mod tour;
mod transcript;

pub use differ::{Difference, Excuses, Outcome, Pair, Scenario, Step, Until, Watch, Who};
pub use endpoint::{Answer, Connection, Endpoint, Request, Streams};
pub use kubeconfig::Kubeconfig;
pub use server::{Server, Start, memory_of};
pub use target::Target;
pub use tools::{kubectl, python, skopos};
pub use tour::{Tour, build_with, client_sources};
pub use transcript::play;
