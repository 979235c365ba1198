//! JSON patches and merge patches.

#![no_main]

#[path = "../bodies/patches.rs"]
mod patches;

libfuzzer_sys::fuzz_target!(|data: &[u8]| patches::run(data));
