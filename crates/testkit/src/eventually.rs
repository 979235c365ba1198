//! Waiting for what must come true.

use std::{fmt::Display, time::Duration};

use serde_json::Value;
use skopos_object::diff;

/// How long something may take to come true, on tokio's clock.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(10);

/// Waits until `check` succeeds, for at most a minute of tokio's clock, and says what it lacked if it never does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use skopos_testkit::{eventually, same};
///
/// let mut n = 0;
/// eventually(async || {
///     n += 1;
///     same(&serde_json::json!({"replicas": 3}), &serde_json::json!({"replicas": n}))
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
/// With the last failure, when the time is over.
pub async fn eventually<E: Display>(mut check: impl AsyncFnMut() -> Result<(), E>) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let Err(failure) = check().await else { return };
        if tokio::time::Instant::now() >= deadline {
            panic!("after {} s: {failure}", PATIENCE.as_secs());
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Compares two trees; the error lists the fields that differ.
pub fn same(expected: &Value, actual: &Value) -> Result<(), String> {
    let changes = diff(expected, actual);
    if changes.is_empty() {
        return Ok(());
    }
    let line = |change: &skopos_object::FieldChange| {
        let show = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        format!(
            "{}: expected {}, is {}",
            change.path,
            show(&change.old),
            show(&change.new)
        )
    };
    Err(changes.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn same_names_the_fields_that_differ() {
        assert_eq!(same(&json!({"a": 1}), &json!({"a": 1})), Ok(()));
        let difference = same(&json!({"a": 1, "b": 2}), &json!({"a": 3})).unwrap_err();
        assert_eq!(difference.lines().count(), 2, "{difference}");
        assert!(difference.contains("expected 1, is 3"), "{difference}");
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "after 60 s: still waiting")]
    async fn eventually_says_what_was_missing() {
        eventually(async || Err::<(), _>("still waiting")).await;
    }
}
