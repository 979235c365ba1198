//! What deleting an object comes to, decided before anything is written.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::{ObjectExt as _, prepare};
use super::holds_namespace;
use crate::options::{DeleteOptions, Propagation};
use crate::registry::Resource;
use crate::strategy::{self, Dependents};
use crate::{definition, write::rfc3339};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What deleting an object comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    Remove,
    Mark(Value),
    /// It goes at once, but not without having been marked: pods only.
    MarkAndRemove(Value),
    /// It is being deleted already, and this deletion changes nothing.
    Keep,
}

pub(super) fn plan(resource: &Resource, old: &Value, options: &DeleteOptions, now: Timestamp) -> Plan {
    let mut new = old.clone();
    let graceful = match grace(resource, old, options, now) {
        // Whatever else is asked for comes too late.
        Grace::Pending => return Plan::Keep,
        Grace::None => false,
        Grace::Until { time, seconds } => {
            set_deadline(resource, &mut new, time, seconds);
            true
        }
    };
    let finalizers = finalizers_of(resource, old, options);
    new.set_finalizers(&finalizers);
    let is_held = !finalizers.is_empty() || holds_namespace(resource, old);
    match (graceful, is_held) {
        (true, false) if grace_seconds(&new) == 0 => return Plan::MarkAndRemove(new),
        (true, _) => {}
        (false, false) => return Plan::Remove,
        (false, true) => mark(resource, &mut new, now),
    }
    if new == *old { Plan::Keep } else { Plan::Mark(new) }
}

/// Marks an object that has no grace but is held.
fn mark(resource: &Resource, object: &mut Value, now: Timestamp) {
    if !object.is_deleting() {
        prepare::mark_deleting(resource, object, now, 0);
        if resource.is("", "namespaces") {
            object["status"]["phase"] = Value::from("Terminating");
        }
        if definition::is_definition(resource) {
            definition::mark_terminating(object, now);
        }
        return;
    }
    if object.meta("deletionGracePeriodSeconds").is_some() {
        object.set_meta("deletionGracePeriodSeconds", 0);
    }
    if deletion_time(object).is_some_and(|time| time > now) {
        object.set_meta("deletionTimestamp", rfc3339(now));
    }
}

/// How an object is deleted as far as time is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grace {
    /// Its kind knows no grace, or what it had is over.
    None,
    /// It goes at a time that this deletion does not change.
    Pending,
    Until {
        time: Timestamp,
        seconds: i64,
    },
}

/// Only pods are deleted gracefully.
fn grace(resource: &Resource, object: &Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    if !resource.is("", "pods") {
        return Grace::None;
    }
    let asked = options.grace_period_seconds.map(at_least_zero);
    if object.is_deleting() {
        return shortened(object, asked, now);
    }
    let seconds = first_grace(object, asked);
    Grace::Until {
        time: after(now, seconds),
        seconds,
    }
}

fn first_grace(pod: &Value, asked: Option<i64>) -> i64 {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or("");
    let is_finished = ["Succeeded", "Failed"].contains(&text("/status/phase"));
    if text("/spec/nodeName").is_empty() || is_finished {
        return 0;
    }
    let usual = pod.pointer("/spec/terminationGracePeriodSeconds");
    asked.unwrap_or_else(|| at_least_zero(usual.and_then(Value::as_i64).unwrap_or(0)))
}

/// The time of a pod that is being deleted can only come nearer, and not before now.
fn shortened(pod: &Value, asked: Option<i64>, now: Timestamp) -> Grace {
    let before = grace_seconds(pod);
    if before == 0 {
        return Grace::None;
    }
    let Some(asked) = asked.filter(|asked| *asked < before) else {
        return Grace::Pending;
    };
    let time = deletion_time(pod).map_or(now, |time| after(time, asked - before));
    match time < now {
        // Somebody still has to end it: that takes a second, unless it is to be gone at once.
        true => Grace::Until {
            time: now,
            seconds: asked.min(1),
        },
        false => Grace::Until { time, seconds: asked },
    }
}

fn set_deadline(resource: &Resource, pod: &mut Value, time: Timestamp, seconds: i64) {
    match pod.is_deleting() {
        false => prepare::mark_deleting(resource, pod, time, seconds),
        true => {
            pod.set_meta("deletionTimestamp", rfc3339(time));
            pod.set_meta("deletionGracePeriodSeconds", seconds);
        }
    }
}

/// A negative time counts as one second.
fn at_least_zero(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(time)
}

pub(super) fn grace_seconds(object: &Value) -> i64 {
    let seconds = object.meta("deletionGracePeriodSeconds");
    at_least_zero(seconds.and_then(Value::as_i64).unwrap_or(0))
}

fn deletion_time(object: &Value) -> Option<Timestamp> {
    object.meta_str("deletionTimestamp").parse().ok()
}

/// The finalizers of an object that is deleted: what is to become of its dependents is one of them.
fn finalizers_of(resource: &Resource, old: &Value, options: &DeleteOptions) -> Vec<String> {
    let before: Vec<String> = old.finalizers().into_iter().map(str::to_owned).collect();
    let mut after: Vec<String> = before
        .iter()
        .filter(|f| *f != ORPHAN && *f != FOREGROUND)
        .cloned()
        .collect();
    match propagation(resource, &before, options) {
        Propagation::Background => {}
        Propagation::Foreground => after.push(FOREGROUND.to_owned()),
        Propagation::Orphan => after.push(ORPHAN.to_owned()),
    }
    // The same ones stay in their order.
    if after.len() == before.len() && after.iter().all(|f| before.contains(f)) {
        after = before;
    }
    let cleanup = definition::CLEANUP_FINALIZER;
    if definition::is_definition(resource) && !old.is_deleting() && !after.iter().any(|f| f == cleanup) {
        after.push(cleanup.to_owned());
    }
    after
}

/// What was asked for counts, then what the object wants, then what is usual for its kind.
fn propagation(resource: &Resource, finalizers: &[String], options: &DeleteOptions) -> Propagation {
    let usual = strategy::dependents(resource);
    if usual == Dependents::Ignored {
        return Propagation::Background;
    }
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    match (options.propagation, usual) {
        (Some(propagation), _) => propagation,
        (None, _) if has(ORPHAN) => Propagation::Orphan,
        (None, _) if has(FOREGROUND) => Propagation::Foreground,
        (None, Dependents::Kept) => Propagation::Orphan,
        (None, _) => Propagation::Background,
    }
}
