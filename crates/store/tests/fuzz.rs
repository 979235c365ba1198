//! Runs the fuzz target of the log reader briefly; see fuzz/README.md.

#[path = "../../../fuzz/brief.rs"]
mod brief;
#[path = "../../../fuzz/bodies/log_reader.rs"]
mod log_reader;

#[test]
fn log_reader_takes_any_bytes() {
    brief::run("log_reader", log_reader::run);
}

/// Guards the seeds: after a change of the format they would all be refused at the first byte.
#[test]
fn the_seeds_are_read() {
    let log = include_bytes!("../../../fuzz/corpus/log_reader/three_writes");
    let summary = skopos_store::read_log(log);
    assert_eq!((summary.records, summary.damage), (3, None));
}
