//! Rules that react to themselves.

use serde_json::{Value, json};
use skopos_react::rule::LoopGuard;
use skopos_sink::rule_annotation;

use crate::change;

/// What a rule wrote, the n-th time.
fn written(n: i64) -> Value {
    json!({"metadata": {"annotations": {rule_annotation("ops/test"): n.to_string()}}})
}

#[test]
fn reactions_to_own_writes_are_noticed() {
    let mut guard = LoopGuard::default();
    let own = |n: i64| change(n, Some(&written(n - 1)), Some(&written(n)));
    let notes: Vec<Option<String>> = (1..20).map(|n| guard.note("ops/test", &own(n))).collect();
    let first = notes.iter().position(Option::is_some).unwrap();
    assert_eq!(first, 5);
    let reason = notes[first].as_ref().unwrap();
    assert!(reason.contains("reacts to its own writes"), "{reason}");

    let mut guard = LoopGuard::default();
    assert!((1..20).all(|n| guard.note("ops/other", &own(n)).is_none()));
    let mut guard = LoopGuard::default();
    let once_a_minute = |n| change(n * 60, Some(&written(n - 1)), Some(&written(n)));
    assert!((1..100).all(|n| guard.note("ops/test", &once_a_minute(n)).is_none()));
}

#[test]
fn changes_that_others_make_to_a_written_object_are_not_own_writes() {
    let mut guard = LoopGuard::default();
    assert!((1..20).all(|n| {
        let entry = change(n, Some(&written(1)), Some(&written(1)));
        guard.note("ops/test", &entry).is_none()
    }));
}

#[test]
fn objects_made_of_objects_that_the_rule_made_are_noticed() {
    let mut guard = LoopGuard::default();
    let made = |n: i64| {
        let mut object = written(n);
        object["metadata"]["uid"] = json!(format!("u{n}"));
        change(n / 10, None, Some(&object))
    };
    let found = (0..1000).find_map(|n| guard.note("ops/test", &made(n)));
    let reason = found.unwrap();
    assert!(
        reason.contains("objects that it wrote itself: 121 times"),
        "{reason}"
    );
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
