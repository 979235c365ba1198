//! Notices a rule that reacts to its own writes.
//!
//! A rule that writes objects (through a sink of the kind `kubernetes`) and watches what it writes can go on for ever.
//! Two signs are looked for, both cheap:
//!
//! - *Own writes*: the change was made by the rule itself, which is known by the annotation that sinks leave
//!   ([`rule_annotation`]). A few such matches are fine, because a rule may converge: writing the same again changes
//!   nothing and ends it. Objects that the rule makes of objects it made are counted together.
//! - *Hammering*: one object matches very often within a minute. This also finds loops through other rules and other
//!   controllers, which mark nothing.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use skopos_journal::{Entry, Observed};
use skopos_object::Object;
use skopos_sink::rule_annotation;

/// The time over which matches of an object are counted.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// So many own writes of one object in a window are no loop yet.
const MAX_OWN_WRITES: usize = 5;
/// So many own writes of all objects together in a window are no loop yet.
const MAX_OWN_IN_ALL: usize = 120;
/// So many matches of one object in a window are no loop yet.
const MAX_MATCHES: usize = 60;
/// So many objects are looked at; beyond, those that matched longest ago are forgotten.
const MAX_OBJECTS: usize = 4096;

/// Watches the matches of one rule that writes objects. What it keeps is bounded.
#[derive(Clone, Debug, Default)]
pub struct LoopGuard {
    own: VecDeque<Timestamp>,
    objects: HashMap<String, Matches>,
}

#[derive(Clone, Debug, Default)]
struct Matches {
    all: VecDeque<Timestamp>,
    own: VecDeque<Timestamp>,
}

impl LoopGuard {
    /// Takes note of a match; returns why it looks like a loop, if it does. The rule is then to be suspended.
    pub fn note(&mut self, rule: &str, entry: &Entry) -> Option<String> {
        self.make_room();
        let is_own = is_own_write(rule, entry);
        let n_own_in_all = match is_own {
            true => count(&mut self.own, entry.at, MAX_OWN_IN_ALL),
            false => 0,
        };
        let matches = self.objects.entry(entry.uid.clone()).or_default();
        let n_all = count(&mut matches.all, entry.at, MAX_MATCHES);
        let n_own = match is_own {
            true => count(&mut matches.own, entry.at, MAX_OWN_WRITES),
            false => 0,
        };
        let key = &entry.key;
        if n_own > MAX_OWN_WRITES {
            return Some(format!(
                "the rule reacts to its own writes: {n_own} of {key} within a minute; exclude them by `fields`, a selector or `when`"
            ));
        }
        if n_own_in_all > MAX_OWN_IN_ALL {
            return Some(format!(
                "the rule reacts to objects that it wrote itself: {n_own_in_all} times within a minute, {key} last; exclude them by a selector or `when`"
            ));
        }
        (n_all > MAX_MATCHES).then(|| {
            format!("{key} matched {n_all} times within a minute: something writes to it each time; narrow the rule by `fields` or `became()`")
        })
    }

    fn make_room(&mut self) {
        if self.objects.len() < MAX_OBJECTS {
            return;
        }
        let mut last: Vec<Timestamp> = self
            .objects
            .values()
            .filter_map(|m| m.all.back().copied())
            .collect();
        last.sort_unstable();
        let middle = last.get(last.len() / 2).copied().unwrap_or(Timestamp::MAX);
        self.objects
            .retain(|_, matches| matches.all.back().is_some_and(|at| *at > middle));
    }
}

/// Counts one more in the window. More than `most` and one are not remembered.
fn count(times: &mut VecDeque<Timestamp>, now: Timestamp, most: usize) -> usize {
    let is_old = |at: &Timestamp| at.saturating_add(WINDOW).is_ok_and(|end| end <= now);
    while times.front().is_some_and(is_old) || times.len() > most {
        times.pop_front();
    }
    times.push_back(now);
    times.len()
}

/// Whether the rule made this change: its mark is new or another one. Others leave it as it is.
fn is_own_write(rule: &str, entry: &Entry) -> bool {
    let annotation = rule_annotation(rule);
    let mark =
        |object: Option<&Object>| object.and_then(|one| one.get(&["metadata", "annotations", &annotation]));
    let after = mark(entry.after.as_ref());
    let is_change = entry.observed != Observed::First;
    is_change && after.is_some() && after != mark(entry.before.as_ref())
}
