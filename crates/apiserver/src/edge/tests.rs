//! The edge as clients see it: over TLS with a trivial handler behind it.

mod connections;
mod harness;
mod identity;
mod in_process;
mod requests;
mod shutdown;
mod websockets;
