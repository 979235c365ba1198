//! How changes and holes are shown.

use serde_json::{Value, json};
use skopos_api::Event;
use skopos_control::{ChangeView, FieldDiff, HoleView, Observation, WriterView};
use skopos_object::yaml;

use super::Format;
use crate::diff_view::{created, deleted, updated};
use crate::failure::Failure;
use crate::output::{Table, without_managed_fields};
use crate::terminal::{self, ADDED, CHANGED, DELETED, FAINT, STRONG};

/// The longest summary of the fields that changed.
const MAX_SUMMARY_CHARS: usize = 100;

/// Prints changes as they come, with the holes where they belong.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    is_diff: bool,
    /// Those that were not printed yet, the newest first.
    holes: Vec<HoleView>,
    n_printed: usize,
    is_headed: bool,
}

/// Something to print.
enum Line {
    Change(Box<ChangeView>),
    Hole(HoleView),
}

impl Printer {
    pub(crate) fn new(format: Format, is_diff: bool, mut holes: Vec<HoleView>) -> Self {
        holes.sort_by_key(|hole| std::cmp::Reverse(hole.seq));
        Self {
            format,
            is_diff,
            holes,
            n_printed: 0,
            is_headed: false,
        }
    }

    pub(crate) fn print(&mut self, changes: Vec<ChangeView>) -> Result<(), Failure> {
        let mut lines = Vec::with_capacity(changes.len());
        for change in changes {
            while let Some(hole) = self.holes.pop_if(|hole| hole.seq <= change.seq) {
                lines.push(Line::Hole(hole));
            }
            lines.push(Line::Change(Box::new(change)));
        }
        self.write(&lines)
    }

    /// Prints the holes that are left, and says how much was printed.
    pub(crate) fn end(mut self) -> Result<usize, Failure> {
        let mut rest = std::mem::take(&mut self.holes);
        rest.reverse();
        let lines: Vec<Line> = rest.into_iter().map(Line::Hole).collect();
        self.write(&lines)?;
        Ok(self.n_printed)
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        self.n_printed += lines.len();
        let text = match (self.format, self.is_diff) {
            (Format::Json, _) => lines.iter().map(|line| format!("{}\n", value(line))).collect(),
            (Format::Yaml, _) => lines
                .iter()
                .map(|line| format!("---\n{}", yaml::encode(&value(line))))
                .collect(),
            (Format::Text, true) => lines.iter().map(block).collect(),
            (Format::Text, false) => self.table(lines),
        };
        Ok(terminal::write(text.as_bytes())?)
    }

    fn table(&mut self, lines: &[Line]) -> String {
        let headings = ["WHEN", "CHANGE", "OP", "OBJECT", "BY", "WHAT"];
        let table = Table {
            headings: headings.map(str::to_owned).to_vec(),
            rows: lines.iter().map(row).collect(),
        };
        let is_first = !std::mem::replace(&mut self.is_headed, true);
        table.render(is_first)
    }
}

fn value(line: &Line) -> Value {
    match line {
        Line::Hole(hole) => json!({"hole": hole}),
        Line::Change(change) => {
            let mut value = json!(change);
            for state in ["before", "after"] {
                if let Some(object) = value.get_mut(state) {
                    *object = without_managed_fields(object.take());
                }
            }
            value
        }
    }
}

fn row(line: &Line) -> Vec<String> {
    match line {
        Line::Hole(hole) => vec![
            format!("{:.0}", hole.from),
            "-".to_owned(),
            "hole".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            missing(hole),
        ],
        Line::Change(change) => vec![
            format!("{:.0}", change.time),
            change.seq.to_string(),
            op(change).1.to_owned(),
            key(change),
            by(change).unwrap_or_else(|| "-".to_owned()),
            summary(change),
        ],
    }
}

/// What a hole means.
fn missing(hole: &HoleView) -> String {
    format!("until {:.0} changes may be missing ({})", hole.to, hole.reason)
}

fn key(change: &ChangeView) -> String {
    match change.namespace.is_empty() {
        true => change.name.clone(),
        false => format!("{}/{}", change.namespace, change.name),
    }
}

/// Who wrote, if that is known; a subresource with a slash, such as `manager/status`.
fn by(change: &ChangeView) -> Option<String> {
    let name = |writer: &WriterView| match writer.subresource.as_str() {
        "" => writer.manager.clone(),
        subresource => format!("{}/{subresource}", writer.manager),
    };
    let names: Vec<_> = change.by.iter().map(name).collect();
    (!names.is_empty()).then(|| names.join(","))
}

fn op(change: &ChangeView) -> (anstyle::Style, &'static str) {
    match (change.observed, change.op) {
        (Observation::First, _) => (FAINT, "existing"),
        (_, Event::Created) => (ADDED, "created"),
        (_, Event::Updated) => (CHANGED, "updated"),
        (_, Event::Deleted) => (DELETED, "deleted"),
    }
}

/// What changed in short, and when if it was only found later.
fn summary(change: &ChangeView) -> String {
    let fields = change.diff.as_deref().unwrap_or_default();
    let mut text = match (change.op, fields) {
        (Event::Updated, []) => "only bookkeeping fields".to_owned(),
        (_, fields) => short(fields),
    };
    if let Some(not_before) = change.not_before {
        text.push_str(&format!(" (found later: it happened after {not_before:.0})"));
    }
    text.trim().to_owned()
}

fn short(fields: &[FieldDiff]) -> String {
    let mut text = String::new();
    for (n, field) in fields.iter().enumerate() {
        let one = match (&field.old, &field.new) {
            (Some(old), Some(new)) => format!("{}: {} -> {}", field.path, plain(old), plain(new)),
            (None, _) => format!("+{}", field.path),
            (_, None) => format!("-{}", field.path),
        };
        if n > 0 && text.chars().count() + one.chars().count() > MAX_SUMMARY_CHARS {
            text.push_str(&format!(", and {} more", fields.len() - n));
            break;
        }
        if n > 0 {
            text.push_str(", ");
        }
        text.push_str(&one);
    }
    text
}

/// A value on one line, or only what it is if it is long.
fn plain(value: &Value) -> String {
    let text = value.to_string();
    match text.chars().count() {
        0..=40 => text,
        _ => "…".to_owned(),
    }
}

/// A change with its fields, as the watch command shows it.
fn block(line: &Line) -> String {
    let change = match line {
        Line::Hole(hole) => {
            let (from, name, why) = (hole.from, &hole.resource, missing(hole));
            return format!("{FAINT}{from:.0}{FAINT:#}  {DELETED}hole{DELETED:#}  {name}  {why}\n");
        }
        Line::Change(change) => change,
    };
    let fields = match (change.observed, &change.before, &change.after) {
        (Observation::First, _, _) | (_, None, None) => String::new(),
        (_, None, Some(after)) => created(after),
        (_, Some(before), Some(after)) => updated(before, after),
        (_, Some(before), None) => deleted(before),
    };
    let (style, op) = op(change);
    let how = match change.not_before {
        Some(after) => format!(", found later: it happened after {after:.0}"),
        None => String::new(),
    };
    let by = by(change)
        .map(|names| format!(", by {names}"))
        .unwrap_or_default();
    let (time, name, key) = (change.time, &change.resource, key(change));
    let (seq, version) = (change.seq, &change.resource_version);
    format!(
        "{FAINT}{time:.0}{FAINT:#}  {style}{op}{style:#}  {name} {STRONG}{key}{STRONG:#}  {FAINT}(change {seq}, version {version}{by}{how}){FAINT:#}\n{fields}"
    )
}
