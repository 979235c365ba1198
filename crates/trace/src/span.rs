//! A part of the trace of a change, from the tracing span that shows it to what is exported.

use std::fmt;

use jiff::Timestamp;
use skopos_journal::{SpanId, TraceId};
use tracing::field::{Field, Visit};

/// The longest text that is exported, in bytes. Names of objects are shorter; an error may be anything.
const MAX_TEXT: usize = 1024;
/// So many events of a span are exported; each has one.
const MAX_EVENTS: usize = 8;

/// A part of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) part: Part,
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) events: Vec<Event>,
    /// What went wrong, if something did.
    pub(crate) error: Option<String>,
}

/// What was done about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Capture,
    Match,
    Deliver,
    /// One that this version knows nothing of.
    Other(&'static str),
}

/// Something that happened in a span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) name: String,
    pub(crate) attributes: Vec<Attribute>,
}

/// A field of a span or an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribute {
    pub(crate) key: &'static str,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Truth(bool),
}

impl Span {
    /// Begins a span, if its fields have the ids of one.
    pub(crate) fn begin(name: &'static str, mut fields: Fields, now: Timestamp) -> Option<Self> {
        let trace = fields.take_text("trace_id")?.parse().ok()?;
        let id = fields.take_text("span_id")?.parse().ok()?;
        let parent = match fields.take_text("parent_span_id") {
            Some(text) => Some(text.parse().ok()?),
            None => None,
        };
        let part = Part::named(name);
        // The change was there before the span that shows how it was written down.
        let observed = fields.text("observed_at").and_then(|text| text.parse().ok());
        let started = match (part, observed) {
            (Part::Capture, Some(observed)) => now.min(observed),
            _ => now,
        };
        Some(Self {
            trace,
            id,
            parent,
            part,
            started,
            ended: now,
            attributes: fields.0,
            events: Vec::new(),
            error: None,
        })
    }

    /// Something happened in it.
    pub(crate) fn add(&mut self, mut fields: Fields, now: Timestamp) {
        if let Some(error) = fields.take_text("error") {
            self.error = Some(error);
        }
        if self.events.len() < MAX_EVENTS {
            self.events.push(Event {
                at: now,
                name: fields.take_text("message").unwrap_or_default(),
                attributes: fields.0,
            });
        }
    }

    /// Ends it; nothing if it has no outcome. Those are deliveries that had to wait for the ones before them in a batch and
    /// will be tried once more.
    pub(crate) fn end(mut self, now: Timestamp) -> Option<Self> {
        self.ended = now.max(self.started);
        (!self.events.is_empty()).then_some(self)
    }

    /// What is done, and with what: few enough for a list of all.
    pub(crate) fn name(&self) -> String {
        let (name, with) = match self.part {
            Part::Capture => ("capture", self.text("object.kind")),
            Part::Match => ("match", self.text("rule")),
            Part::Deliver => ("deliver", self.text("sink")),
            Part::Other(name) => (name, None),
        };
        match with {
            Some(with) => format!("{name} {with}"),
            None => name.into(),
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        text(&self.attributes, key)
    }
}

impl Part {
    fn named(name: &'static str) -> Self {
        match name {
            "capture" => Self::Capture,
            "match" => Self::Match,
            "deliver" => Self::Deliver,
            other => Self::Other(other),
        }
    }
}

/// The fields of a tracing span or event.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<Attribute>);

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.0.push(Attribute {
            key: field.name(),
            value,
        });
    }

    fn text(&self, key: &str) -> Option<&str> {
        text(&self.0, key)
    }

    fn take_text(&mut self, key: &str) -> Option<String> {
        let place = self.0.iter().position(|one| one.key == key)?;
        match self.0.remove(place).value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

fn text<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a str> {
    attributes.iter().find_map(|one| match &one.value {
        Value::Text(text) if one.key == key => Some(text.as_str()),
        _ => None,
    })
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, Value::Text(cut(format!("{value:?}"))));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(cut(value.to_owned())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.add(field, Value::Integer(value)),
            Err(_) => self.add(field, Value::Text(value.to_string())),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.add(field, Value::Number(value)),
            false => self.add(field, Value::Text(value.to_string())),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Truth(value));
    }
}

/// The beginning of a text, and that there is more.
fn cut(mut text: String) -> String {
    const MORE: &str = " …";
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT - MORE.len()));
        text.push_str(MORE);
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
impl Span {
    /// A delivery that failed.
    pub(crate) fn example() -> Self {
        let attribute = |key, value| Attribute { key, value };
        let at = |nanos| Timestamp::from_nanosecond(nanos).unwrap();
        Self {
            trace: "552f733fedd31ca20f010639b6cc560e".parse().unwrap(),
            id: "00f067aa0ba902b7".parse().unwrap(),
            parent: Some("00f067aa0ba902b6".parse().unwrap()),
            part: Part::Deliver,
            started: at(1_544_712_660_000_000_001),
            ended: at(1_544_712_661_000_000_000),
            attributes: vec![
                attribute("sink", Value::Text("ops/\"hook\"".into())),
                attribute("attempt", Value::Integer(2)),
                attribute("is_last", Value::Truth(true)),
            ],
            events: vec![Event {
                at: at(1_544_712_660_500_000_000),
                name: "not delivered".into(),
                attributes: vec![attribute("deliver_ms", Value::Number(1.5))],
            }],
            error: Some("busy".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(cut("short".into()), "short");
        for long in ["x".repeat(5_000), "ü".repeat(5_000), "€".repeat(5_000)] {
            let kept = cut(long.clone());
            assert!(
                kept.len() <= MAX_TEXT && kept.len() > MAX_TEXT - 8,
                "{}",
                kept.len()
            );
            assert!(long.starts_with(kept.trim_end_matches(" …")));
        }
    }
}
