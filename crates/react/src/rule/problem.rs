//! What is wrong with a rule, and what to do about it.

use std::fmt;

use skopos_api::Mistake;
use skopos_cel::{CompileError, Location};

/// One thing that is wrong with a rule. Displayed with the line and a caret below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which field of the rule, such as `spec.when` or `spec.do[0].template.text`.
    pub field: String,
    /// Where in the text of the field, if it is about a place.
    pub location: Option<Location>,
    /// What is wrong.
    pub message: String,
    /// The line that it is about; empty if it is about none.
    pub line: String,
    /// What to do; empty if the message says it.
    pub help: String,
}

impl Problem {
    /// A problem with a field as a whole.
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            location: None,
            message: message.into(),
            line: String::new(),
            help: help.into(),
        }
    }

    /// Moves the place to where it is in a larger text, in which the expression begins at `start`.
    pub(crate) fn within(mut self, text: &str, start: Location) -> Self {
        let Some(at) = self.location else {
            return self;
        };
        let at = shifted(at, start);
        self.line = line_of(text, at);
        self.location = Some(at);
        self
    }
}

impl From<Mistake> for Problem {
    fn from(mistake: Mistake) -> Self {
        Self::new(mistake.field, mistake.message, mistake.help)
    }
}

/// The problems of an expression that does not compile.
pub(crate) fn problems(field: &str, source: &str, error: &CompileError) -> Vec<Problem> {
    let issues = error.issues().iter();
    issues
        .map(|issue| Problem {
            field: field.to_owned(),
            location: issue.location,
            message: issue.message.clone(),
            line: issue.location.map_or_else(String::new, |at| line_of(source, at)),
            help: help(&issue.message),
        })
        .collect()
}

fn shifted(at: Location, start: Location) -> Location {
    Location {
        line: at.line + start.line - 1,
        column: match at.line {
            1 => at.column + start.column - 1,
            _ => at.column,
        },
    }
}

fn line_of(text: &str, at: Location) -> String {
    let line = text.split('\n').nth(at.line as usize - 1);
    line.unwrap_or_default().trim_end().to_owned()
}

/// What usually helps, by the beginning of the message.
fn help(message: &str) -> String {
    let known = [
        (
            "undeclared reference",
            "known are object, oldObject, change and now, and the functions changed(), became(), was() and heldFor(); text stands in quotes",
        ),
        (
            "undefined field",
            "the schema of the kind has no such field there: see `kubectl explain`, or use object[\"name\"] where anything goes",
        ),
        (
            "found no matching overload",
            "the types do not fit: convert one, as in int(x), string(x), duration(\"10m\") or timestamp(x)",
        ),
        ("Syntax error", "see docs/cel.md for what can be written"),
    ];
    let found = known.iter().find(|(start, _)| message.starts_with(start));
    found.map_or_else(String::new, |(_, help)| (*help).to_owned())
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        if let Some(at) = self.location {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        write!(f, ": {}", self.message)?;
        if let (Some(at), false) = (self.location, self.line.is_empty()) {
            let caret = " ".repeat(at.column as usize - 1);
            write!(f, "\n | {}\n | {caret}^", self.line.replace('\t', " "))?;
        }
        match self.help.is_empty() {
            true => Ok(()),
            false => write!(f, "\n = {}", self.help),
        }
    }
}
