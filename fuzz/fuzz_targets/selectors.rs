//! Label and field selectors.

#![no_main]

#[path = "../bodies/selectors.rs"]
mod selectors;

libfuzzer_sys::fuzz_target!(|data: &[u8]| selectors::run(data));
