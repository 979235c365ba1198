//! Copying an object's text without its managed fields.

use std::ops::Range;

use crate::raw::{Members, range_of};

/// A copy of the text, which must be JSON, without `metadata.managedFields`.
pub(super) fn without_managed_fields(json: &[u8]) -> Vec<u8> {
    match managed_fields(json) {
        Some(range) => [&json[..range.start], &json[range.end..]].concat(),
        None => json.to_vec(),
    }
}

/// Where the member stands, with the one comma that must go with it.
fn managed_fields(json: &[u8]) -> Option<Range<usize>> {
    let metadata = range_of(json, &["metadata"])?;
    let mut previous_end = None;
    let mut members = Members::new(json, metadata.start);
    while let Some(member) = members.next() {
        if &json[member.key.clone()] != b"managedFields" {
            previous_end = Some(member.value.end);
            continue;
        }
        // Without the quotes; one byte before the key is the opening quote.
        let start = member.key.start - 1;
        return Some(match (previous_end, members.next()) {
            (_, Some(next)) => start..next.key.start - 1,
            (Some(previous_end), None) => previous_end..member.value.end,
            (None, None) => start..member.value.end,
        });
    }
    None
}
