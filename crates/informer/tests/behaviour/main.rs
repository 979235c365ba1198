//! What users of an informer can rely on, behaviour by behaviour.

mod informing;
mod server;
