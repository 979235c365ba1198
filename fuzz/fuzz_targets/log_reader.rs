//! Files of the store's log.

#![no_main]

#[path = "../bodies/log_reader.rs"]
mod log_reader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log_reader::run(data));
