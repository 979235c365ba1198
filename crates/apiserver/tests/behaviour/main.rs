//! What the API server does, request by request, through its in-process service.
//!
//! With `SKOPOS_TEST_KUBECONFIG` set, the tests that need no special configuration ask that server instead,
//! one at a time: this is how their expectations were checked against kube-apiserver.

#![expect(clippy::unwrap_used, reason = "tests")]

mod harness;
mod real;

mod creating;
mod patching;
mod updating;
