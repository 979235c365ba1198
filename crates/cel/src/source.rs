//! The text of an expression, places in it, and what is wrong with it.

use std::fmt;

/// How many issues are told; more only say how many there were.
const MAX_ISSUES: usize = 100;
/// Lines longer than this are not quoted.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// A place in an expression, in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// One thing that is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Where; absent if it concerns the expression as a whole.
    pub location: Option<Location>,
    /// What, as cel-go words it.
    pub message: String,
}

/// Why an expression does not compile.
///
/// Displayed as cel-go does it: `ERROR: <input>:1:6: undefined field 'x'`, the line and a caret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    source: Box<str>,
    issues: Vec<Issue>,
    n_issues: usize,
    stage: Stage,
}

/// How far an expression came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It does not parse or does not pass the check.
    Check,
    /// It passes the check, but a constant in it cannot be used: kube-apiserver calls this a failed program
    /// instantiation.
    Program,
}

impl CompileError {
    pub(crate) fn program(source: &str, message: String) -> CompileError {
        CompileError {
            source: source.into(),
            issues: vec![Issue {
                location: None,
                message,
            }],
            n_issues: 1,
            stage: Stage::Program,
        }
    }

    /// How far the expression came.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The issues in the order of their places, at most a hundred.
    #[must_use]
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl std::error::Error for CompileError {}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Stage::Program, [issue]) = (self.stage, &self.issues[..]) {
            return f.write_str(&issue.message);
        }
        for (i, issue) in self.issues.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write_issue(f, &self.source, issue)?;
        }
        if self.n_issues > self.issues.len() {
            write!(
                f,
                "\n{} more errors were truncated",
                self.n_issues - self.issues.len()
            )?;
        }
        Ok(())
    }
}

fn write_issue(f: &mut fmt::Formatter<'_>, source: &str, issue: &Issue) -> fmt::Result {
    let Some(at) = issue.location else {
        return write!(f, "ERROR: <input>:-1:0: {}", issue.message);
    };
    write!(f, "ERROR: <input>:{}:{}: {}", at.line, at.column, issue.message)?;
    let Some(line) = source.split('\n').nth(at.line as usize - 1) else {
        return Ok(());
    };
    if line.len() > MAX_SNIPPET_BYTES {
        return Ok(());
    }
    let line = line.replace('\t', " ");
    write!(f, "\n | {line}\n | ")?;
    let mut chars = line.chars();
    for c in chars.by_ref().take(at.column as usize - 1) {
        f.write_str(if c.len_utf8() > 1 { "\u{ff0e}" } else { "." })?;
    }
    let wide = chars.next().is_some_and(|c| c.len_utf8() > 1);
    f.write_str(if wide { "\u{ff3e}" } else { "^" })
}

/// A list of issues in the making, with the text they are about.
#[derive(Debug)]
pub(crate) struct Issues<'s> {
    source: &'s str,
    issues: Vec<Issue>,
    n_issues: usize,
}

impl<'s> Issues<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Issues {
            source,
            issues: Vec::new(),
            n_issues: 0,
        }
    }

    /// Notes an issue at a code point offset.
    pub(crate) fn at(&mut self, offset: u32, message: impl Into<String>) {
        let location = locate(self.source, offset);
        self.push(Some(location), message.into());
    }

    /// Notes an issue of the whole expression.
    pub(crate) fn whole(&mut self, message: impl Into<String>) {
        self.push(None, message.into());
    }

    fn push(&mut self, location: Option<Location>, message: String) {
        self.n_issues += 1;
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(Issue { location, message });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n_issues == 0
    }

    pub(crate) fn into_result(mut self) -> Result<(), CompileError> {
        if self.is_empty() {
            return Ok(());
        }
        self.issues.sort_by_key(|issue| issue.location);
        Err(CompileError {
            source: self.source.into(),
            issues: self.issues,
            n_issues: self.n_issues,
            stage: Stage::Check,
        })
    }
}

/// The text between two code point offsets.
pub(crate) fn slice(source: &str, (start, end): (u32, u32)) -> &str {
    let byte = |offset: u32| {
        let at = source.char_indices().nth(offset as usize);
        at.map_or(source.len(), |(at, _)| at)
    };
    &source[byte(start)..byte(end)]
}

pub(crate) fn locate(source: &str, offset: u32) -> Location {
    let (mut line, mut column) = (1, 1);
    for c in source.chars().take(offset as usize) {
        if c == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    Location { line, column }
}
