//! The log reader: any bytes as a whole file, and as the records of a frame whose checksums are right.

use skopos_store::read_log;

pub(crate) fn run(data: &[u8]) {
    check(data);
    let mut file = with_sum(&[&b"SKOPLOG\n"[..], &1u32.to_le_bytes(), &2u64.to_le_bytes()].concat());
    let len = u32::try_from(data.len()).expect("inputs are short");
    let header = [
        &b"SKF1"[..],
        &len.to_le_bytes(),
        &2u64.to_le_bytes(),
        &crc32c(data).to_le_bytes(),
    ];
    file.extend(with_sum(&header.concat()));
    file.extend_from_slice(data);
    check(&file);
}

/// What is called sound is sound when read alone.
fn check(file: &[u8]) {
    let summary = read_log(file);
    let sound = usize::try_from(summary.sound_bytes).expect("within the input");
    assert!(sound <= file.len());
    if sound > 0 {
        let again = read_log(&file[..sound]);
        assert_eq!((again.records, again.damage), (summary.records, None));
    }
}

fn with_sum(header: &[u8]) -> Vec<u8> {
    [header, &crc32c(header).to_le_bytes()].concat()
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}
