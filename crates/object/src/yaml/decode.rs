//! Building JSON values from YAML events, with bounds on depth and on what aliases add.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::{
    error::YamlError,
    scalar::{self, Plain},
};
use crate::{
    json::{Decoded, Duplicates, MAX_DEPTH, MAX_DUPLICATES},
    quote,
};

/// How many bytes anchors and their aliases may add to one text, so that a small text cannot grow
/// to fill the memory.
pub const MAX_ALIAS_BYTES: usize = 16 * 1024 * 1024;

/// Decodes the first document of a YAML text; nothing but blanks and comments is null.
///
/// ```
/// let decoded = skopos_object::yaml::decode(b"debug: on\nports: [80, 0x1F]\n")?;
/// assert_eq!(decoded.value, serde_json::json!({"debug": true, "ports": [80, 31]}));
/// # Ok::<(), skopos_object::yaml::YamlError>(())
/// ```
pub fn decode(bytes: &[u8]) -> Result<Decoded, YamlError> {
    let mut reader = Reader::new(to_text(bytes)?);
    Ok(reader
        .document()?
        .unwrap_or_else(|| finish(Value::Null, Builder::default())))
}

/// Decodes every document of a YAML text. Documents that are empty are left out.
pub fn documents(bytes: &[u8]) -> Result<Vec<Decoded>, YamlError> {
    let mut reader = Reader::new(to_text(bytes)?);
    let mut documents = Vec::new();
    while let Some(document) = reader.document()? {
        if !document.value.is_null() {
            documents.push(document);
        }
    }
    Ok(documents)
}

fn to_text(bytes: &[u8]) -> Result<&str, YamlError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        YamlError::new(line, "invalid UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn finish(value: Value, builder: Builder) -> Decoded {
    let lines = &builder.duplicate_lines;
    let yaml_complaint = format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "));
    let yaml_complaint = (!lines.is_empty()).then_some(yaml_complaint);
    Decoded {
        value,
        duplicates: builder.duplicates.into_paths(),
        yaml_complaint,
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text, options),
        }
    }

    /// Reads the next document, if there is one.
    fn document(&mut self) -> Result<Option<Decoded>, YamlError> {
        loop {
            match self.next()? {
                (Event::DocumentStart(..), _) => break,
                (Event::StreamEnd, _) => return Ok(None),
                _ => {}
            }
        }
        let mut builder = Builder::default();
        let (event, span) = self.next()?;
        let value = match event {
            Event::DocumentEnd => return Ok(Some(finish(Value::Null, builder))),
            event => builder.node(self, event, span, 0)?,
        };
        Ok(Some(finish(value, builder)))
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }
}

/// A key as written: the word that merges, or the string it stands for.
enum Key {
    Merge,
    Text(String),
}

#[derive(Default)]
struct Builder {
    anchors: HashMap<usize, Value>,
    alias_bytes: usize,
    duplicates: Duplicates,
    duplicate_lines: Vec<String>,
}

impl Builder {
    /// Builds the value that starts with `event`.
    fn node(
        &mut self,
        reader: &mut Reader<'_>,
        event: Event<'_>,
        span: Span,
        depth: usize,
    ) -> Result<Value, YamlError> {
        let line = span.start.line();
        let (value, anchor) = match event {
            Event::Alias(id) => return self.alias(id, line, depth),
            Event::Scalar(text, style, anchor, tag) => {
                (scalar_value(&text, style, tag.as_deref(), line)?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(reader, line, depth + 1)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(reader, line, depth + 1)?, anchor),
            _ => return Err(YamlError::new(line, "did not find expected node content")),
        };
        if anchor > 0 {
            self.spend(&value, line)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self, reader: &mut Reader<'_>, line: usize, depth: usize) -> Result<Value, YamlError> {
        check_depth(depth, line)?;
        let mut items = Vec::new();
        loop {
            let (event, span) = reader.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            let outer = self.duplicates.len();
            items.push(self.node(reader, event, span, depth)?);
            self.duplicates.under_index(outer, items.len() - 1);
        }
    }

    fn mapping(&mut self, reader: &mut Reader<'_>, line: usize, depth: usize) -> Result<Value, YamlError> {
        check_depth(depth, line)?;
        let mut map = Map::new();
        let mut merged = Vec::new();
        let first_duplicate = self.duplicates.len();
        loop {
            let (event, span) = reader.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key_line = span.start.line();
            let key = self.key(event, key_line)?;
            let (event, span) = reader.next()?;
            let outer = self.duplicates.len();
            let value = self.node(reader, event, span, depth)?;
            match key {
                Key::Merge => merged.push((value, key_line)),
                Key::Text(key) => {
                    self.duplicates.under_key(outer, &key);
                    if map.contains_key(&key) {
                        self.duplicates.note(first_duplicate, outer, &key);
                        self.note_line(key_line, &key);
                    }
                    map.insert(key, value);
                }
            }
        }
        for (value, line) in merged {
            merge(&mut map, value, line)?;
        }
        Ok(Value::Object(map))
    }

    fn key(&mut self, event: Event<'_>, line: usize) -> Result<Key, YamlError> {
        match event {
            Event::Scalar(text, ScalarStyle::Plain, 0, None) if text == "<<" => Ok(Key::Merge),
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar_value(&text, style, tag.as_deref(), line)?;
                if anchor > 0 {
                    self.spend(&value, line)?;
                    self.anchors.insert(anchor, value.clone());
                }
                key_text(value, line)
            }
            Event::Alias(id) => {
                let value = self.alias(id, line, 0)?;
                key_text(value, line)
            }
            _ => Err(YamlError::new(line, "invalid map key")),
        }
    }

    fn alias(&mut self, id: usize, line: usize, depth: usize) -> Result<Value, YamlError> {
        // An anchor that is still open would contain itself.
        let value = self
            .anchors
            .get(&id)
            .cloned()
            .ok_or_else(|| YamlError::new(line, "anchor value contains itself"))?;
        self.spend(&value, line)?;
        check_depth(depth + nesting(&value), line)?;
        Ok(value)
    }

    fn spend(&mut self, value: &Value, line: usize) -> Result<(), YamlError> {
        self.alias_bytes += weight(value);
        if self.alias_bytes > MAX_ALIAS_BYTES {
            return Err(YamlError::new(line, "document contains excessive aliasing"));
        }
        Ok(())
    }

    fn note_line(&mut self, line: usize, key: &str) {
        if self.duplicate_lines.len() < MAX_DUPLICATES {
            self.duplicate_lines
                .push(format!("line {line}: key {} already set in map", quote(key)));
        }
    }
}

fn check_depth(depth: usize, line: usize) -> Result<(), YamlError> {
    if depth > MAX_DEPTH {
        Err(YamlError::new(line, "exceeded max depth"))
    } else {
        Ok(())
    }
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Value, YamlError> {
    let plain = match tag.map(Tag::core_suffix) {
        None => style == ScalarStyle::Plain,
        Some(Some("str") | None) => false,
        Some(Some(_)) => true,
    };
    let meaning = if plain { scalar::resolve(text) } else { Plain::Text };
    meaning
        .into_value(text)
        .ok_or_else(|| YamlError::new(line, format!("unsupported value: {text}")))
}

fn key_text(value: Value, line: usize) -> Result<Key, YamlError> {
    match value {
        Value::String(text) => Ok(Key::Text(text)),
        Value::Bool(_) | Value::Number(_) => Ok(Key::Text(value.to_string())),
        _ => Err(YamlError::new(line, "unsupported map key")),
    }
}

/// Adds what `<<` brings: the keys of an object, or of each object of a list, that are not there yet.
fn merge(map: &mut Map<String, Value>, value: Value, line: usize) -> Result<(), YamlError> {
    match value {
        Value::Object(other) => {
            for (key, value) in other {
                map.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.into_iter().try_for_each(|item| merge(map, item, line))
        }
        _ => Err(YamlError::new(
            line,
            "map merge requires map or sequence of maps as the value",
        )),
    }
}

fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        _ => 0,
    };
    size_of::<Value>() + inside
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(nesting).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}
