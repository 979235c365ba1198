//! Destinations of deliveries.
//!
//! A [`Destination`] takes [`Event`]s and says how many it has for certain. It neither retries nor reorders: whoever
//! calls does.

mod event;

pub use crate::event::{Destination, Event, Failure, Sent};
