//! Panics of code that is not ours, caught so that they end nothing else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `act` returns, or the text of its panic.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| text_of(&*panic))
}

pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "without a message".to_owned(),
    }
}
