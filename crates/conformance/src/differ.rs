//! The differential suite: the same requests to the embedded server and to kube-apiserver, every answer compared.
//!
//! A [`Scenario`] is a list of requests. [`Pair::play`] sends it to both servers; what differs, after replacing
//! what changes from run to run, must be excused by a row of `docs/compatibility.md` ([`Excuses`]).

mod compare;
mod excuse;
mod generate;
mod normal;
mod pair;
mod path;
mod protobuf;
mod scenario;
mod settled;
mod shrink;
mod stage;

pub use compare::Difference;
pub use excuse::Excuses;
pub use pair::{Outcome, Pair};
pub use scenario::{Scenario, Step, Until, Watch, Who};
