//! What the engine promises, on a paused clock.

mod disk;
mod kit;
mod metrics_page;
mod promises;
mod simulation;
