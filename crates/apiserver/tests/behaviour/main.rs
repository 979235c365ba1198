//! What the API server does, request by request, through its in-process service.
//!
//! With `SKOPOS_TEST_KUBECONFIG` set, the tests that need no special configuration ask that server instead,
//! one at a time: this is how their expectations were checked against kube-apiserver.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "objects are written where they are sent"
)]

mod events;
mod harness;
mod objects;
mod real;

mod applying;
mod creating;
mod deleting;
mod patching;
mod updating;

mod listing;
mod reading;
mod watching;

mod built_ins;
mod definitions;
mod garbage;
mod namespaces;
mod rules;
mod versions;

mod random;
mod restarting;
