//! Rules that react to themselves.

use serde_json::json;
use skopos_react::rule::{LoopGuard, RULE_ANNOTATION};

use crate::change;

#[test]
fn reactions_to_own_writes_are_noticed() {
    let mut guard = LoopGuard::default();
    let own = json!({"metadata": {"annotations": {RULE_ANNOTATION: "ops/test"}}});
    let notes: Vec<Option<String>> = (0..20)
        .map(|second| guard.note("ops/test", &change(second, None, Some(&own))))
        .collect();
    let first = notes.iter().position(Option::is_some).unwrap();
    assert_eq!(first, 10);
    assert!(
        notes[first]
            .as_ref()
            .unwrap()
            .contains("reacts to its own writes")
    );
    let mut guard = LoopGuard::default();
    assert!((0..20).all(|second| {
        guard
            .note("ops/other", &change(second, None, Some(&own)))
            .is_none()
    }));
    let mut guard = LoopGuard::default();
    assert!((0..100).all(|minute| {
        guard
            .note("ops/test", &change(minute * 60, None, Some(&own)))
            .is_none()
    }));
}

#[test]
fn an_object_that_matches_without_end_is_noticed() {
    let mut guard = LoopGuard::default();
    let object = json!({});
    let found = (0..100).find_map(|second| guard.note("ops/test", &change(second / 3, None, Some(&object))));
    assert!(found.unwrap().contains("matched 61 times within a minute"));
}

#[test]
fn what_is_kept_is_bounded() {
    let mut guard = LoopGuard::default();
    for n in 0..20_000 {
        let object = json!({"metadata": {"uid": format!("u{n}")}});
        assert_eq!(guard.note("ops/test", &change(n, None, Some(&object))), None);
    }
    assert!(format!("{guard:?}").len() < 2_000_000);
}
