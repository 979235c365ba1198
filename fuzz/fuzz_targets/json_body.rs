//! Request bodies in JSON and YAML.

#![no_main]

#[path = "../bodies/json_body.rs"]
mod json_body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| json_body::run(data));
