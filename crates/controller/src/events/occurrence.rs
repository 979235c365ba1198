//! Something that happened to an object, and the Event it becomes.

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_object::Object;

use crate::leader::micro_time;

pub(super) const API_VERSION: &str = "events.k8s.io/v1";

/// The most that a note may take; API servers refuse more.
const MAX_NOTE_BYTES: usize = 1024;
/// The same for reasons, actions and names of reporters.
const MAX_WORD_BYTES: usize = 128;
/// What is kept of the object's name in the event's, so that there is room for what makes it unique.
const MAX_NAME_BYTES: usize = 200;

/// Whether somebody should look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// All is well.
    Normal,
    /// Somebody should look at it.
    Warning,
}

/// The object that an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid, so that it is not taken for a later object of the same name.
    pub uid: String,
}

impl From<&Object> for Regarding {
    fn from(object: &Object) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}

/// What makes two occurrences one series. The note does not: it often carries a number or a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) regarding: Regarding,
    pub(super) kind: EventKind,
    pub(super) reason: String,
    pub(super) action: String,
}

#[derive(Debug, Clone)]
pub(super) struct Occurrence {
    pub(super) key: Key,
    pub(super) note: String,
    pub(super) at: Timestamp,
}

/// Who reports.
#[derive(Debug, Clone)]
pub(super) struct Reporter {
    pub(super) controller: String,
    pub(super) instance: String,
}

impl Occurrence {
    pub(super) fn new(key: Key, note: &str, at: Timestamp) -> Self {
        let key = Key {
            reason: cut(&key.reason, MAX_WORD_BYTES).to_owned(),
            action: cut(&key.action, MAX_WORD_BYTES).to_owned(),
            ..key
        };
        let note = cut(note, MAX_NOTE_BYTES).to_owned();
        Self { key, note, at }
    }

    /// A name that no other event has.
    pub(super) fn event_name(&self, random: u32) -> String {
        let name = &self.key.regarding.name;
        // Some kinds allow names that events may not have.
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        let is_edge = |c: char| matches!(c, '-' | '.');
        let stem = cut(name, MAX_NAME_BYTES).trim_end_matches(is_edge);
        let stem = match !stem.is_empty() && stem.chars().all(is_allowed) && !stem.starts_with(is_edge) {
            true => stem,
            false => "event",
        };
        format!("{stem}.{:x}{random:08x}", self.at.as_microsecond())
    }

    pub(super) fn to_event(&self, name: &str, reporter: &Reporter) -> Value {
        let Key {
            regarding,
            kind,
            reason,
            action,
        } = &self.key;
        let mut object = json!({
            "apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name, "uid": regarding.uid,
        });
        if !regarding.namespace.is_empty() {
            object["namespace"] = json!(regarding.namespace);
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": "Event",
            "metadata": {"namespace": regarding.event_namespace(), "name": name},
            "eventTime": micro_time(self.at),
            "type": kind.as_str(),
            "reason": reason,
            "action": action,
            "note": self.note,
            "regarding": object,
            "reportingController": cut(&reporter.controller, MAX_WORD_BYTES),
            "reportingInstance": cut(&reporter.instance, MAX_WORD_BYTES),
        })
    }
}

impl Regarding {
    /// Events live beside their object; those of cluster-scoped ones in `default`.
    pub(super) fn event_namespace(&self) -> &str {
        match self.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The beginning of a text, not longer than so many bytes, with whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence(name: &str, namespace: &str, note: &str) -> Occurrence {
        let key = Key {
            regarding: Regarding {
                api_version: "example.com/v1".to_owned(),
                kind: "Widget".to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: "u1".to_owned(),
            },
            kind: EventKind::Normal,
            reason: "Created".to_owned(),
            action: "Create".to_owned(),
        };
        Occurrence::new(key, note, "2026-11-15T21:54:20Z".parse().unwrap())
    }

    #[test]
    fn cuts_a_note_between_characters() {
        let note = "€".repeat(400);
        let cut = occurrence("a", "", &note).note;
        assert_eq!((cut.len(), cut.chars().count()), (1023, 341));
    }

    #[test]
    fn puts_events_of_cluster_scoped_objects_into_the_default_namespace() {
        let reporter = Reporter {
            controller: "example.com/c".to_owned(),
            instance: "i".to_owned(),
        };
        let namespace = |namespace: &str| {
            let event = occurrence("a", namespace, "").to_event("a.1", &reporter);
            (
                event["metadata"]["namespace"].clone(),
                event["regarding"]["namespace"].clone(),
            )
        };
        assert_eq!(namespace(""), (json!("default"), Value::Null));
        assert_eq!(namespace("apps"), (json!("apps"), json!("apps")));
    }

    #[test]
    fn names_events_after_their_object_if_that_name_is_allowed() {
        let stem = |name: &str| {
            let event = occurrence(name, "", "").event_name(1);
            event.rsplit_once('.').map(|(stem, _)| stem.to_owned()).unwrap()
        };
        assert_eq!(stem("web-1.example"), "web-1.example");
        assert_eq!(stem("system:node"), "event");
        assert_eq!(stem(&"a".repeat(253)).len(), 200);
    }
}
