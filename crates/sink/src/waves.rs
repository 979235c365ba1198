//! Which events may be under way at the same time.

use std::collections::HashSet;

use crate::Event;

/// Cuts events into parts, in their order, none of which has two events of one lane.
///
/// A server that takes the third message of a group but not the second would leave them in the wrong order, were
/// they of the same object.
pub(crate) fn waves(events: &[Event]) -> impl Iterator<Item = &[Event]> {
    let mut rest = events;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut lanes = HashSet::new();
        let len = rest
            .iter()
            .take_while(|event| lanes.insert(event.lane.as_str()))
            .count();
        let (wave, after) = rest.split_at(len);
        rest = after;
        Some(wave)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn check(lanes: &str, expect: &[&str]) {
        let events: Vec<_> = lanes
            .chars()
            .map(|lane| Event {
                id: String::new(),
                what: skopos_api::Event::Created,
                source: String::new(),
                subject: String::new(),
                rule: String::new(),
                time: String::new(),
                lane: lane.to_string(),
                content_type: "text/plain",
                data: Bytes::new(),
                traceparent: None,
                account: None,
            })
            .collect();
        let cut: Vec<String> = waves(&events)
            .map(|wave| wave.iter().map(|event| event.lane.as_str()).collect())
            .collect();
        assert_eq!(cut, expect, "{lanes}");
    }

    #[test]
    fn no_wave_has_a_lane_twice() {
        check("", &[]);
        check("abc", &["abc"]);
        check("abab", &["ab", "ab"]);
        check("aab", &["a", "ab"]);
    }
}
