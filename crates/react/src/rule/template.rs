//! Templates: text or YAML in which `${…}` holds expressions.

use serde_json::{Map, Value as Json};
use skopos_cel::{EvalError, EvalErrorKind, Location, Program, Value};

use super::{
    condition::{Answers, Calls, activation, change_if_used, plain_call},
    names::Environments,
    problem::{Problem, problems},
    subject::Subject,
};

/// A compiled template.
#[derive(Debug)]
pub(crate) enum Template {
    /// A string: the result is a text.
    Text(Vec<Piece>),
    /// Anything else: the result is JSON.
    Tree(Node),
}

/// A value of a template.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Json),
    /// A string that is one `${…}`: it keeps the type.
    Value(Expression),
    Text(Vec<Piece>),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// A part of a text.
#[derive(Debug)]
pub(crate) enum Piece {
    Literal(String),
    Expression(Expression),
}

#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
    calls: Calls,
}

/// What a template gives.
#[derive(Debug, PartialEq)]
pub(crate) enum Rendered {
    Text(String),
    Json(Json),
}

impl Template {
    pub(crate) fn compile(
        field: &str,
        template: &Json,
        environments: &Environments,
    ) -> Result<Self, Vec<Problem>> {
        let mut compiler = Compiler {
            environments,
            problems: Vec::new(),
        };
        let compiled = match template {
            Json::String(text) => Self::Text(compiler.text(field, text)),
            other => Self::Tree(compiler.node(field, other)),
        };
        match compiler.problems.is_empty() {
            true => Ok(compiled),
            false => Err(compiler.problems),
        }
    }

    /// Fills in a change.
    ///
    /// # Errors
    /// What an expression could not do. A field that is not there is no error: it is empty, or null.
    pub(crate) fn render(&self, subject: &Subject<'_>) -> Result<Rendered, String> {
        match self {
            Self::Text(pieces) => text(pieces, subject).map(Rendered::Text),
            Self::Tree(node) => json(node, subject).map(Rendered::Json),
        }
    }
}

fn json(node: &Node, subject: &Subject<'_>) -> Result<Json, String> {
    Ok(match node {
        Node::Constant(value) => value.clone(),
        Node::Value(expression) => expression.json(subject)?,
        Node::Text(pieces) => text(pieces, subject)?.into(),
        Node::List(items) => {
            let items = items.iter().map(|item| json(item, subject));
            items.collect::<Result<Vec<_>, _>>()?.into()
        }
        Node::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, node)| Ok((name.clone(), json(node, subject)?)));
            Json::Object(fields.collect::<Result<Map<_, _>, String>>()?)
        }
    })
}

fn text(pieces: &[Piece], subject: &Subject<'_>) -> Result<String, String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Expression(expression) => {
                text.push_str(&expression.text(subject)?);
            }
        }
    }
    Ok(text)
}

impl Expression {
    /// The value with its type; null if a field it asks for is not there.
    fn json(&self, subject: &Subject<'_>) -> Result<Json, String> {
        let read: fn(Value<'_>) -> Result<Json, EvalError> = |value| value.to_json();
        self.eval(subject, read)
    }

    /// The value as it stands in a text; nothing if a field it asks for is not there.
    fn text(&self, subject: &Subject<'_>) -> Result<String, String> {
        let read: fn(Value<'_>) -> Result<String, EvalError> = |value| value.to_text();
        self.eval(subject, read)
    }

    fn eval<T: Default>(
        &self,
        subject: &Subject<'_>,
        read: fn(Value<'_>) -> Result<T, EvalError>,
    ) -> Result<T, String> {
        let host = Answers {
            calls: &self.calls,
            subject,
            states: None,
            main: None,
        };
        let change = change_if_used(&self.program, subject);
        let vars = activation(&self.program, subject, change.as_ref(), &host);
        match self.program.eval(&vars).and_then(read) {
            Ok(value) => Ok(value),
            Err(error) if error.kind() == EvalErrorKind::Missing => Ok(T::default()),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Compiler<'e> {
    environments: &'e Environments,
    problems: Vec<Problem>,
}

impl Compiler<'_> {
    fn node(&mut self, field: &str, value: &Json) -> Node {
        match value {
            Json::String(text) => self.string(field, text),
            Json::Array(items) => {
                let items = items.iter().enumerate();
                Node::List(
                    items
                        .map(|(index, item)| self.node(&format!("{field}[{index}]"), item))
                        .collect(),
                )
            }
            Json::Object(fields) => {
                let fields = fields.iter();
                Node::Object(
                    fields
                        .map(|(name, value)| self.field(field, name, value))
                        .collect(),
                )
            }
            other => Node::Constant(other.clone()),
        }
    }

    fn field(&mut self, parent: &str, name: &str, value: &Json) -> (String, Node) {
        let field = format!("{parent}.{name}");
        if name.contains("${") {
            let message = "${…} stands in a name";
            self.problems
                .push(Problem::new(&field, message, "it can only stand in values"));
        }
        (name.to_owned(), self.node(&field, value))
    }

    fn string(&mut self, field: &str, text: &str) -> Node {
        let mut pieces = self.text(field, text);
        match (pieces.len(), pieces.pop()) {
            (0, _) => Node::Constant(Json::from(String::new())),
            (1, Some(Piece::Expression(expression))) => Node::Value(expression),
            (1, Some(Piece::Literal(literal))) => Node::Constant(literal.into()),
            (_, last) => {
                pieces.extend(last);
                Node::Text(pieces)
            }
        }
    }

    fn text(&mut self, field: &str, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let start = at + found;
            if text[at..start].ends_with('$') {
                // `$${` is `${`.
                literal.push_str(&text[at..start - 1]);
                literal.push_str("${");
                at = start + 2;
                continue;
            }
            literal.push_str(&text[at..start]);
            let inside = start + 2;
            let Some(length) = end_of_expression(&text[inside..]) else {
                let mut problem = Problem::new(
                    field,
                    "${ is not closed",
                    "write } at the end, or $${ for the text itself",
                );
                problem.location = Some(Location { line: 1, column: 1 });
                self.problems.push(problem.within(text, location(text, start)));
                return pieces;
            };
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            let compiled = self.expression(field, text, inside, &text[inside..inside + length]);
            pieces.extend(compiled.map(Piece::Expression));
            at = inside + length + 1;
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        pieces
    }

    fn expression(&mut self, field: &str, text: &str, start: usize, source: &str) -> Option<Expression> {
        let compiled = self.compile(field, source);
        let start = location(text, start);
        match compiled {
            Ok(expression) => Some(expression),
            Err(found) => {
                let moved = found.into_iter().map(|problem| problem.within(text, start));
                self.problems.extend(moved);
                None
            }
        }
    }

    fn compile(&self, field: &str, source: &str) -> Result<Expression, Vec<Problem>> {
        let env = &self.environments.template;
        let program = env.compile(source).map_err(|error| {
            let mut found = problems(field, source, &error);
            for problem in &mut found {
                let names = ["became", "heldFor", "now"];
                if names.iter().any(|name| problem.message.contains(&format!("'{name}'"))) {
                    problem.help = "became(), heldFor() and now belong into `when`; the time of the change is change.time".to_owned();
                }
            }
            found
        })?;
        let calls = program.call_sites().iter();
        let calls = calls.map(|site| plain_call(field, site, self.environments));
        let calls = calls.collect::<Result<Calls, _>>()?;
        Ok(Expression { program, calls })
    }
}

/// Where an expression ends: at the closing brace that is neither in a string nor closes one of its own.
fn end_of_expression(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => {
                at = end_of_string(bytes, at, quote)?;
                continue;
            }
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position after a string literal, also one in three quotes or a raw one.
fn end_of_string(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let is_triple = bytes.get(start..start + 3) == Some(&[quote; 3]);
    let is_raw = start > 0 && matches!(bytes[start - 1], b'r' | b'R');
    let width = if is_triple { 3 } else { 1 };
    let mut at = start + width;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if !is_raw => at += 2,
            _ if bytes[at..].starts_with(&[quote; 3][..width]) => return Some(at + width),
            _ => at += 1,
        }
    }
    None
}

/// The place of a byte in a text.
fn location(text: &str, at: usize) -> Location {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    Location {
        line: u32::try_from(before.matches('\n').count())
            .unwrap_or(u32::MAX)
            .saturating_add(1),
        column: count(&before[line_start..]).saturating_add(1),
    }
}
