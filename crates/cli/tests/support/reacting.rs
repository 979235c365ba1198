//! What tests do with a `skopos up` that reacts to applications.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{examples, run, run_with};

/// Installs the definition of applications.
pub(crate) fn install(dir: &Path) {
    let definition = examples().join("application-crd.yaml");
    run(dir, &["apply", "-f", definition.to_str().unwrap()]).ok();
}

/// Makes an application what it should be.
pub(crate) fn apply(dir: &Path, name: &str, replicas: u32) {
    let text = format!(
        "apiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {{name: {name}}}\nspec: {{image: nginx, replicas: {replicas}}}\n"
    );
    run_with(dir, &["apply", "-f", "-"], &text).ok();
}

/// Looks at the status until something is so.
#[track_caller]
pub(crate) fn until(dir: &Path, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let done = run(dir, &["top", "--once", "-o", "json"]);
        let status: Value = serde_json::from_str(&done.out).unwrap_or_default();
        if is_so(&status) {
            return status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "not {what}: {status}");
    }
}

/// What is there when a kind is first looked at is no change.
#[track_caller]
pub(crate) fn until_watching(dir: &Path) {
    until(dir, "watching", |status| {
        status["captures"][0]["phase"] == "watching"
    });
}
