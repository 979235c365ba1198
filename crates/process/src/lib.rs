//! What the system knows of this process, as metrics.

mod process;

pub use crate::process::Process;
