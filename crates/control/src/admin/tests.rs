//! Questions about a journal in a directory, filled by a capture.

mod asking;
mod rules;
mod serving;
mod stage;

use self::stage::{Stage, at};
