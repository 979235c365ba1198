//! Composition root: configuration in, a running Skopos out.
//!
//! The binary and the end-to-end tests use the same [`App`]:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use skopos_app::{App, Config};
//! use tokio_util::sync::CancellationToken;
//!
//! let app = App::start(Config::in_memory()).await?;
//! let shutdown = CancellationToken::new();
//! app.run(shutdown).await?;
//! # Ok(())
//! # }
//! ```

mod app;
mod config;
mod reactions;

pub use crate::{
    app::{App, RunError, StartError},
    config::{Config, Credentials},
    reactions::{Reactions, ReactionsConfig, ReactionsError, run_reactions},
};
pub use skopos_apiserver::ApiService;
pub use skopos_controller::LeaderConfig;
pub use skopos_remote::JournalUrl;
