//! What goes wrong, drawn at random.

use std::time::Duration;

use skopos_testkit::Fault;

use super::tempo::Tempo;

/// For one who lists and watches. `streams`: lists are read from the beginning of a watch.
pub(crate) fn read_fault(rng: &mut fastrand::Rng, tempo: Tempo, streams: bool) -> Fault {
    let after_bytes = [0, 1, 300, 1_000, 3_000][rng.usize(0..5)];
    let nth = rng.usize(0..6);
    match rng.u32(0..17) {
        0 => Fault::Refused,
        1 => Fault::LostAnswer,
        2 => Fault::gone(),
        3 => Fault::gone_in_stream(nth),
        4 => Fault::too_many_requests(tempo.retry_after(rng.u32(0..20))),
        5 => Fault::unavailable(tempo.retry_after(rng.u32(0..5))),
        6 => Fault::internal(),
        7 => Fault::version_too_large(),
        8 => Fault::Cut { after_bytes },
        9 => Fault::End { after_bytes },
        10 => Fault::Stall { after_bytes },
        11 => Fault::Slow(tempo.of(Duration::from_secs(rng.u64(1..200)))),
        12 => Fault::Malformed { nth },
        // In what a stream begins with, nobody can tell what is missing.
        13 if streams => Fault::Malformed { nth },
        13 => Fault::Garbled { nth },
        14 => Fault::DuplicateBookmarks,
        15 => Fault::LateBookmarks,
        _ => Fault::NoStreamingLists,
    }
}

/// For one who reads and writes single objects.
pub(crate) fn write_fault(rng: &mut fastrand::Rng, tempo: Tempo) -> Fault {
    let after_bytes = [0, 1, 100][rng.usize(0..3)];
    match rng.u32(0..9) {
        0 => Fault::Refused,
        1 => Fault::LostAnswer,
        2 => Fault::too_many_requests(tempo.retry_after(rng.u32(0..10))),
        3 => Fault::unavailable(tempo.retry_after(rng.u32(0..5))),
        4 => Fault::internal(),
        5 => Fault::conflict(),
        6 => Fault::Cut { after_bytes },
        7 => Fault::End { after_bytes },
        _ => Fault::Slow(tempo.of(Duration::from_secs(rng.u64(1..20)))),
    }
}
