//! `skopos demo`: a tour on a control plane of its own.

use clap::Args;

use crate::failure::Failure;

/// Tour
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// End after the tour
    #[arg(long)]
    once: bool,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        Ok(())
    }
}
