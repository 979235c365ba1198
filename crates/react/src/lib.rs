//! Rules and deliveries: which changes match, what is sent where, in order and at least once.

pub mod rule;
