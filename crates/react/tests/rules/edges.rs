//! Transitions and times, through restarts.

use fastrand::Rng;
use serde_json::{Value, json};
use skopos_react::rule::{CompiledRule, EdgeState, Evaluation, Subject};

use crate::{at, change, when};

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

/// What is kept between two changes, as it is on disk.
fn kept(found: &Evaluation) -> Option<EdgeState> {
    let bytes = found.edge.as_ref().map(EdgeState::to_bytes)?;
    EdgeState::from_bytes(&bytes)
}

/// The outcomes of a history of states, one second each.
fn fired(rule: &CompiledRule, phases: &[&str]) -> Vec<bool> {
    let mut edge = None;
    let mut before: Option<Value> = None;
    let mut outcomes = Vec::new();
    for (second, name) in phases.iter().enumerate() {
        let after = phase(name);
        let entry = change(i64::try_from(second).unwrap(), before.as_ref(), Some(&after));
        let found = rule.evaluate(&Subject::new(&entry), edge.as_ref());
        outcomes.push(found.matched);
        edge = kept(&found);
        before = Some(after);
    }
    outcomes
}

#[test]
fn became_fires_on_the_transition_and_not_again() {
    let rule = when("became(object.status.phase == 'Failed')");
    let history = ["Running", "Failed", "Failed", "Running", "Failed"];
    assert_eq!(fired(&rule, &history), [false, true, false, false, true]);
    assert_eq!(fired(&rule, &["Failed", "Failed"]), [true, false]);
}

#[test]
fn a_transition_that_no_change_shows_is_still_one() {
    // The rule saw Running last; while it stood still the object failed, and the next change it sees is of something else.
    let rule = when("became(object.status.phase == 'Failed')");
    let (running, failed) = (phase("Running"), phase("Failed"));
    let first = rule.evaluate(&Subject::new(&change(0, None, Some(&running))), None);
    let mut labelled = failed.clone();
    labelled["metadata"] = json!({"labels": {"a": "b"}});
    let entry = change(5, Some(&failed), Some(&labelled));
    assert!(
        rule.evaluate(&Subject::new(&entry), kept(&first).as_ref())
            .matched
    );
    // With nothing kept, the state before is all there is to go by.
    assert!(!rule.evaluate(&Subject::new(&entry), None).matched);
}

#[test]
fn what_is_only_observed_does_not_fire_later() {
    let rule = when("became(object.status.phase == 'Failed')");
    let failed = phase("Failed");
    let seen = rule.observe(&Subject::new(&change(0, None, Some(&failed))), None);
    assert!(!seen.matched);
    let mut labelled = failed.clone();
    labelled["metadata"] = json!({"labels": {"a": "b"}});
    let next = change(1, Some(&failed), Some(&labelled));
    assert!(!rule.evaluate(&Subject::new(&next), kept(&seen).as_ref()).matched);
}

#[test]
fn changes_that_do_not_count_still_move_the_edge() {
    let spec = json!({"watch": {"group": "example.com", "kind": "Widget", "events": ["updated"]},
        "fields": {"include": ["spec"]}, "when": "became(object.status.phase == 'Failed')"});
    let rule = crate::rule(&spec.to_string());
    let (running, failed) = (phase("Running"), phase("Failed"));
    let first = rule.evaluate(&Subject::new(&change(0, Some(&running), Some(&failed))), None);
    assert!(!first.matched, "only the status changed");
    let mut grown = failed.clone();
    grown["spec"] = json!({"n": 1});
    let next = rule.evaluate(
        &Subject::new(&change(1, Some(&failed), Some(&grown))),
        kept(&first).as_ref(),
    );
    assert!(!next.matched, "it failed before");
}

#[test]
fn deletions_forget() {
    let rule = when("became(object.status.phase == 'Failed')");
    let running = phase("Running");
    let found = rule.evaluate(&Subject::new(&change(1, Some(&running), None)), None);
    assert_eq!((found.edge, found.wake_at), (None, None));
}

/// For random histories, cut anywhere by restarts, `became` fires exactly on the transitions.
#[test]
fn became_fires_exactly_on_transitions_whatever_happens_between() {
    let rule = when("became(object.status.phase == 'a') || became(object.status.phase in ['b', 'c'])");
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let n_states = rng.usize(1..30);
        let phases: Vec<&str> = (0..n_states)
            .map(|_| ["a", "b", "c", "d"][rng.usize(0..4)])
            .collect();
        let (mut edge, mut before): (Option<EdgeState>, Option<Value>) = (None, None);
        let (mut was_a, mut was_bc) = (false, false);
        for (second, name) in phases.iter().enumerate() {
            let after = phase(name);
            let entry = change(i64::try_from(second).unwrap(), before.as_ref(), Some(&after));
            let found = rule.evaluate(&Subject::new(&entry), edge.as_ref());
            let (is_a, is_bc) = (*name == "a", matches!(*name, "b" | "c"));
            let expect = (is_a && !was_a) || (is_bc && !was_bc);
            assert_eq!(found.matched, expect, "seed {seed} at {second} of {phases:?}");
            assert_eq!(
                rule.evaluate(&Subject::new(&entry), edge.as_ref()),
                found,
                "the same again"
            );
            (was_a, was_bc) = (is_a, is_bc);
            // A crash before the state was kept: the same change is looked at once more, with what was kept before.
            if rng.u8(0..4) > 0 || second + 1 == n_states {
                edge = kept(&found);
            } else {
                let again = rule.evaluate(&Subject::new(&entry), edge.as_ref());
                assert_eq!(again.matched, expect, "seed {seed} after a restart");
                edge = kept(&again);
            }
            before = Some(after);
        }
    }
}

#[test]
fn held_for_fires_once_per_time_that_it_holds() {
    let rule = when("heldFor(object.status.phase == 'Pending', duration('10m'))");
    let pending = phase("Pending");
    let created = change(0, None, Some(&pending));
    let first = rule.evaluate(&Subject::new(&created), None);
    assert_eq!((first.matched, first.wake_at), (false, Some(at(600))));

    // A change that leaves the state as it is does not start the time anew.
    let mut labelled = pending.clone();
    labelled["metadata"] = json!({"labels": {"a": "b"}});
    let touched = change(300, Some(&pending), Some(&labelled));
    let second = rule.evaluate(&Subject::new(&touched), kept(&first).as_ref());
    assert_eq!((second.matched, second.wake_at), (false, Some(at(600))));

    let subject = Subject::new(&touched);
    let early = rule.evaluate_timer(&subject, kept(&second).as_ref(), at(599));
    assert_eq!((early.matched, early.wake_at), (false, Some(at(600))));
    let due = rule.evaluate_timer(&subject, kept(&second).as_ref(), at(600));
    assert_eq!((due.matched, due.wake_at), (true, None));
    let again = rule.evaluate_timer(&subject, kept(&due).as_ref(), at(700));
    assert_eq!((again.matched, again.wake_at), (false, None));
    let later = rule.evaluate(
        &Subject::new(&change(800, Some(&labelled), Some(&pending))),
        kept(&due).as_ref(),
    );
    assert!(!later.matched, "it was told for this time");

    // When it ends and begins again, the time begins anew.
    let running = phase("Running");
    let ended = rule.evaluate(
        &Subject::new(&change(900, Some(&pending), Some(&running))),
        kept(&later).as_ref(),
    );
    assert_eq!((ended.matched, ended.wake_at), (false, None));
    let anew = rule.evaluate(
        &Subject::new(&change(1000, Some(&running), Some(&pending))),
        kept(&ended).as_ref(),
    );
    assert_eq!(anew.wake_at, Some(at(1600)));
}

#[test]
fn the_time_may_come_from_the_object() {
    let rule = when("heldFor(object.status.phase == 'Pending', duration(object.spec.patience))");
    let found = rule.evaluate(
        &Subject::new(&change(
            0,
            None,
            Some(&json!({"spec": {"patience": "90s"}, "status": {"phase": "Pending"}})),
        )),
        None,
    );
    assert_eq!(found.wake_at, Some(at(90)));
    let found = rule.evaluate(&Subject::new(&change(0, None, Some(&phase("Pending")))), None);
    assert_eq!((found.wake_at, found.error), (None, None), "no patience is given");
}

#[test]
fn a_condition_beside_the_time_may_come_true_later() {
    let rule = when("heldFor(object.status.phase == 'Pending', duration('1m')) && object.spec.page");
    let of = |page: bool| json!({"spec": {"page": page}, "status": {"phase": "Pending"}});
    let first = rule.evaluate(&Subject::new(&change(0, None, Some(&of(false)))), None);
    let entry = change(0, None, Some(&of(false)));
    let due = rule.evaluate_timer(&Subject::new(&entry), kept(&first).as_ref(), at(60));
    assert_eq!((due.matched, due.wake_at), (false, None));
    let paged = rule.evaluate(
        &Subject::new(&change(90, Some(&of(false)), Some(&of(true)))),
        kept(&due).as_ref(),
    );
    assert!(paged.matched);
    let again = rule.evaluate(
        &Subject::new(&change(
            91,
            Some(&of(true)),
            Some(&json!({"spec": {"page": true, "x": 1}, "status": {"phase": "Pending"}})),
        )),
        kept(&paged).as_ref(),
    );
    assert!(!again.matched);
}

#[test]
fn a_change_that_does_not_count_does_not_hide_the_time() {
    let spec = json!({"watch": {"group": "example.com", "kind": "Widget", "events": ["created"]},
        "when": "heldFor(object.status.phase == 'Pending', duration('1m'))"});
    let rule = crate::rule(&spec.to_string());
    let pending = phase("Pending");
    let first = rule.evaluate(&Subject::new(&change(0, None, Some(&pending))), None);
    let mut labelled = pending.clone();
    labelled["metadata"] = json!({"labels": {"a": "b"}});
    let late = change(100, Some(&pending), Some(&labelled));
    let second = rule.evaluate(&Subject::new(&late), kept(&first).as_ref());
    assert_eq!(
        (second.matched, second.wake_at),
        (false, Some(at(60))),
        "to be asked at once"
    );
    assert!(
        rule.evaluate_timer(&Subject::new(&late), kept(&second).as_ref(), at(100))
            .matched
    );
}

#[test]
fn kept_states_of_other_makes_are_nothing() {
    assert_eq!(EdgeState::from_bytes(b"?"), None);
    let one = when("became(object.a)").fingerprint();
    assert_eq!(when("became(object.a)").fingerprint(), one);
    assert_ne!(when("became(object.b)").fingerprint(), one);
}
