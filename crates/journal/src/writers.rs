//! Who wrote an object, as far as its managed fields tell.
//!
//! A server notes for each field manager when it last wrote. Two states of an object tell who wrote in between: those
//! whose note is new. Nobody is named who might only have written earlier; a change that merely takes fields away, or
//! the second one of a manager within a second, leaves no new note, and nobody is named at all.

use jiff::Timestamp;
use serde::Deserialize;
use skopos_object::{ManagedFields, Object};

use crate::bytes::{In, Malformed, Out};

/// More are not kept of an object; servers keep fewer.
const MAX_WRITERS: usize = 64;
/// Longer names are not kept; servers refuse them.
const MAX_NAME: usize = 256;

/// A field manager that took part in a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// Its name, such as `kubectl-edit`.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
}

/// Everybody who wrote an object, and who of them took part in its last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writers(Vec<Note>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    writer: Writer,
    at: Timestamp,
    took_part: bool,
}

/// An entry of `metadata.managedFields`, without the fields.
#[derive(Deserialize)]
struct Managed {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    time: String,
}

impl Writers {
    /// Parts an object from its managed fields. What is malformed there tells nothing.
    pub(crate) fn take_from(object: Object) -> (Object, Self) {
        let Some(text) = object.raw(&["metadata", "managedFields"]) else {
            return (object, Self::default());
        };
        let managed: Vec<Managed> = serde_json::from_slice(text).unwrap_or_default();
        let notes = managed.into_iter().filter_map(Managed::note).take(MAX_WRITERS);
        let writers = Self(notes.collect());
        match Object::parse_owned(object.bytes(), ManagedFields::Drop) {
            Ok(object) => (object, writers),
            Err(_) => (object, writers),
        }
    }

    /// All of them took part: the object is new.
    pub(crate) fn all_new(mut self) -> Self {
        self.0.iter_mut().for_each(|note| note.took_part = true);
        self
    }

    /// Those took part whose note is not among those of the state before. If nobody wrote that, or it is not known
    /// who, it is not known now either.
    pub(crate) fn new_since(mut self, before: &Self) -> Self {
        for note in &mut self.0 {
            let is_old = |old: &Note| old.writer == note.writer && old.at == note.at;
            note.took_part = !before.0.is_empty() && !before.0.iter().any(is_old);
        }
        self
    }

    /// Who took part in the last change.
    pub(crate) fn took_part(&self) -> Vec<Writer> {
        let notes = self.0.iter().filter(|note| note.took_part);
        notes.map(|note| note.writer.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn write(&self, out: &mut Out<'_>) {
        out.number(self.0.len() as u64);
        for Note {
            writer,
            at,
            took_part,
        } in &self.0
        {
            out.text(&writer.manager);
            out.text(&writer.operation);
            out.text(&writer.subresource);
            out.time(*at);
            out.byte((*took_part).into());
        }
    }

    pub(crate) fn read(input: &mut In<'_>) -> Result<Self, Malformed> {
        let n = input.size()?;
        if n > MAX_WRITERS {
            return Err(Malformed("number of writers"));
        }
        let mut notes = Vec::with_capacity(n);
        for _ in 0..n {
            let writer = Writer {
                manager: input.text()?.to_owned(),
                operation: input.text()?.to_owned(),
                subresource: input.text()?.to_owned(),
            };
            notes.push(Note {
                writer,
                at: input.time()?,
                took_part: input.byte()? != 0,
            });
        }
        Ok(Self(notes))
    }
}

impl Managed {
    fn note(self) -> Option<Note> {
        let names = [&self.manager, &self.operation, &self.subresource];
        let is_short = names.iter().all(|name| name.len() <= MAX_NAME);
        let at = self.time.parse().ok()?;
        (is_short && !self.manager.is_empty()).then_some(Note {
            writer: Writer {
                manager: self.manager,
                operation: self.operation,
                subresource: self.subresource,
            },
            at,
            took_part: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(managed: &Value) -> (Object, Writers) {
        let value = json!({"metadata": {"name": "a", "managedFields": managed}, "spec": {}});
        Writers::take_from(Object::from_value(&value).unwrap())
    }

    fn note(manager: &str, second: u32) -> Value {
        let time = format!("2026-11-16T08:00:{second:02}Z");
        json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:spec": {}}})
    }

    #[track_caller]
    fn check(before: &Value, after: &Value, expect: &[&str]) {
        let writers = object(after).1.new_since(&object(before).1);
        let names: Vec<_> = writers
            .took_part()
            .into_iter()
            .map(|writer| writer.manager)
            .collect();
        assert_eq!(names, expect);
    }

    #[test]
    fn who_has_a_new_note_took_part() {
        check(&json!([note("a", 1)]), &json!([note("a", 2)]), &["a"]);
        check(
            &json!([note("a", 1)]),
            &json!([note("a", 1), note("b", 1)]),
            &["b"],
        );
        let before = json!([note("a", 1), note("b", 1), note("c", 1)]);
        check(
            &before,
            &json!([note("a", 3), note("b", 1), note("c", 2)]),
            &["a", "c"],
        );
    }

    #[test]
    fn nobody_is_named_who_may_only_have_written_earlier() {
        check(&json!([note("a", 1)]), &json!([note("a", 1)]), &[]);
        check(&json!([]), &json!([note("a", 1)]), &[]);
        check(&json!([note("a", 1), note("b", 2)]), &json!([note("a", 1)]), &[]);
    }

    #[test]
    fn managed_fields_are_left_out_of_the_object() {
        let (object, writers) = object(&json!([note("a", 1)]));
        assert_eq!(object.to_value(), json!({"metadata": {"name": "a"}, "spec": {}}));
        assert_eq!(writers.0.len(), 1);
    }

    #[test]
    fn malformed_managed_fields_tell_nothing() {
        let long = "x".repeat(MAX_NAME + 1);
        for managed in [
            json!("a"),
            json!([7]),
            json!([{"manager": "a"}]),
            json!([note(&long, 1)]),
            json!([note("", 1)]),
        ] {
            let (object, writers) = object(&managed);
            assert!(writers.is_empty(), "{writers:?}");
            assert_eq!(object.raw(&["metadata", "managedFields"]), None);
        }
        let many: Vec<_> = (0..1_000).map(|n| note(&n.to_string(), 1)).collect();
        assert_eq!(object(&many.into()).1.0.len(), MAX_WRITERS);
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let writers = object(&json!([note("a", 1), note("b", 2)])).1.all_new();
        let mut buffer = Vec::new();
        writers.write(&mut Out(&mut buffer));
        assert_eq!(Writers::read(&mut In(&buffer)), Ok(writers));
        for end in 0..buffer.len() {
            assert!(Writers::read(&mut In(&buffer[..end])).is_err(), "{end}");
        }
    }
}
