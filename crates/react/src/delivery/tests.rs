//! What the engine promises, on a paused clock.

mod kit;
mod simulation;
