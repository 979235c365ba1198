//! Reads an expression into a syntax tree: CEL's grammar by precedence climbing.
//!
//! cel-go generates its parser with ANTLR, which goes on after a syntax error; this one stops at the first.

use std::borrow::Cow;

use crate::{
    ast::{Entry, Expr, Item, Kind, Literal, MAX_DEPTH, Name},
    lexer::{Lexeme, Token, tokens},
    source::{CompileError, Issues},
    unescape,
};

/// The longest expression that is accepted, in code points.
const MAX_CODE_POINTS: usize = 100_000;

const EXPRESSION_START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Names that are no variables.
pub(crate) const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    pub(crate) n_exprs: u32,
    /// From where to where each stands in the text, in code points, by the id. Right for operands, arguments and
    /// elements; the parts of a chain of selections have only their place.
    pub(crate) spans: Vec<(u32, u32)>,
}

/// Parses and expands macros.
pub(crate) fn parse(source: &str) -> Result<Parsed, CompileError> {
    let mut issues = Issues::new(source);
    let size = source.chars().count();
    if size > MAX_CODE_POINTS {
        issues.whole(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"
        ));
    }
    let mut parser = Parser {
        tokens: match issues.is_empty() {
            true => tokens(source, &mut issues),
            false => Vec::new(),
        },
        next: 0,
        n_exprs: 0,
        spans: Vec::new(),
        depth: 0,
        issues,
    };
    let root = match parser.issues.is_empty() || !parser.tokens.is_empty() {
        true => parser.whole(),
        false => Err(Failed),
    };
    let (n_exprs, spans) = (parser.n_exprs, parser.spans);
    parser.issues.into_result()?;
    let root = root.unwrap_or_else(|Failed| unreachable!("a failure is noted as an issue"));
    Ok(Parsed { root, n_exprs, spans })
}

/// Parsing stopped, the issue is noted.
#[derive(Debug)]
pub(crate) struct Failed;

pub(crate) type Parse<T> = Result<T, Failed>;

pub(crate) struct Parser<'s> {
    tokens: Vec<Lexeme<'s>>,
    next: usize,
    n_exprs: u32,
    spans: Vec<(u32, u32)>,
    depth: u16,
    issues: Issues<'s>,
}

impl<'s> Parser<'s> {
    fn whole(&mut self) -> Parse<Expr> {
        let root = self.expr()?;
        let after = self.peek();
        if after.token != Token::End {
            return Err(self.syntax(
                after.at,
                format!("extraneous input '{}' expecting <EOF>", after.text),
            ));
        }
        Ok(root)
    }

    // ----- nodes and tokens

    pub(crate) fn node(&mut self, at: u32, kind: Kind) -> Parse<Expr> {
        let depth = kind.depth_below() + 1;
        if depth > MAX_DEPTH {
            self.issues.whole("max recursion depth exceeded");
            return Err(Failed);
        }
        let id = self.n_exprs;
        self.n_exprs += 1;
        self.spans.push((at, at));
        Ok(Expr { id, at, depth, kind })
    }

    /// Notes that an expression began with a token and ends with the one read last.
    fn note_span(&mut self, first: usize, expr: &Expr) {
        let last = self.tokens[self.next - 1];
        let length = u32::try_from(last.text.chars().count()).unwrap_or(u32::MAX);
        self.spans[expr.id as usize] = (self.tokens[first].at, last.at.saturating_add(length));
    }

    fn too_deep(&mut self) -> Failed {
        self.issues
            .whole(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        Failed
    }

    pub(crate) fn fail(&mut self, at: u32, message: impl Into<String>) -> Failed {
        self.issues.at(at, message);
        Failed
    }

    fn syntax(&mut self, at: u32, message: impl std::fmt::Display) -> Failed {
        self.fail(at, format!("Syntax error: {message}"))
    }

    fn peek(&self) -> Lexeme<'s> {
        self.tokens[self.next]
    }

    fn advance(&mut self) -> Lexeme<'s> {
        let token = self.peek();
        if token.token != Token::End {
            self.next += 1;
        }
        token
    }

    fn at(&self, punct: &'static str) -> bool {
        self.peek().token == Token::Punct(punct)
    }

    fn eat(&mut self, punct: &'static str) -> bool {
        let found = self.at(punct);
        if found {
            self.next += 1;
        }
        found
    }

    fn expect(&mut self, punct: &'static str) -> Parse<()> {
        if self.eat(punct) {
            return Ok(());
        }
        let found = self.peek();
        Err(self.syntax(
            found.at,
            format!("mismatched input '{}' expecting '{punct}'", found.text),
        ))
    }

    fn call(&mut self, at: u32, function: &'static str, args: Vec<Expr>) -> Parse<Expr> {
        let kind = Kind::Call {
            function: Cow::Borrowed(function),
            target: None,
            args,
        };
        self.node(at, kind)
    }

    // ----- operators

    fn expr(&mut self) -> Parse<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let first = self.next;
        let condition = self.binary(0)?;
        let expr = match self.at("?") {
            true => {
                let at = self.advance().at;
                let then = self.binary(0)?;
                self.expect(":")?;
                let otherwise = self.expr()?;
                let expr = self.call(at, "_?_:_", vec![condition, then, otherwise])?;
                self.note_span(first, &expr);
                expr
            }
            false => condition,
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// Operators of at least the given precedence, all left associative.
    fn binary(&mut self, precedence: u8) -> Parse<Expr> {
        let first = self.next;
        let mut left = self.unary()?;
        self.note_span(first, &left);
        loop {
            let Some((found, function)) = operator(self.peek()) else {
                return Ok(left);
            };
            if found < precedence {
                return Ok(left);
            }
            let at = self.advance().at;
            let right = self.binary(found + 1)?;
            left = match function {
                "_&&_" | "_||_" => self.logical(at, function, left, right)?,
                _ => self.call(at, function, vec![left, right])?,
            };
            self.note_span(first, &left);
        }
    }

    /// A chain of one logical operator is one call, so that its length is not its depth. Parentheses may be
    /// flattened away too: `&&` and `||` are associative, errors included.
    fn logical(&mut self, at: u32, function: &'static str, left: Expr, right: Expr) -> Parse<Expr> {
        match left.kind {
            Kind::Call {
                function: ref of,
                target: None,
                ref args,
            } if of == function && args.len() >= 2 => {
                let Kind::Call { mut args, .. } = left.kind else {
                    unreachable!("matched above");
                };
                args.push(right);
                self.call(left.at, function, args)
            }
            _ => self.call(at, function, vec![left, right]),
        }
    }

    fn unary(&mut self) -> Parse<Expr> {
        let first = self.peek();
        let (sign, function) = match first.token {
            Token::Punct("!") => ("!", "!_"),
            Token::Punct("-") => ("-", "-_"),
            _ => return self.member(),
        };
        if sign == "-" && matches!(self.tokens[self.next + 1].token, Token::Int | Token::Double) {
            return self.member();
        }
        let mut n_signs = 0;
        while self.eat(sign) {
            n_signs += 1;
        }
        let operand = self.member()?;
        match n_signs % 2 {
            0 => Ok(operand),
            _ => self.call(first.at, function, vec![operand]),
        }
    }

    // ----- members

    fn member(&mut self) -> Parse<Expr> {
        let start = self.next;
        let mut expr = self.primary()?;
        loop {
            expr = if self.at(".") {
                self.select(expr)?
            } else if self.at("[") {
                self.index(expr)?
            } else if self.at("{") && self.is_name(&expr, start) {
                self.message(&expr)?
            } else {
                return Ok(expr);
            };
        }
    }

    /// Whether the tokens since `start` are nothing but a dotted name.
    fn is_name(&self, expr: &Expr, start: usize) -> bool {
        let is_part = |l: &Lexeme<'_>| matches!(l.token, Token::Ident | Token::Punct("."));
        expr.qualified_name().is_some() && self.tokens[start..self.next].iter().all(is_part)
    }

    fn select(&mut self, operand: Expr) -> Parse<Expr> {
        let dot = self.advance();
        let optional = self.eat("?");
        let name = self.advance();
        match name.token {
            Token::Ident => {}
            Token::EscapedIdent => return Err(self.fail(name.at, "unsupported syntax: '`'")),
            Token::True | Token::False | Token::Null => {
                let message = format!("mismatched input '{}' expecting IDENTIFIER", name.text);
                return Err(self.syntax(name.at, message));
            }
            _ => {
                let message = format!("no viable alternative at input '.{}'", name.text);
                return Err(self.syntax(name.at, message));
            }
        }
        let field: Box<str> = name.text.into();
        let operand = Box::new(operand);
        if optional {
            return self.node(dot.at, Kind::OptSelect { operand, field });
        }
        if !self.at("(") {
            return self.node(dot.at, Kind::Select { operand, field });
        }
        let open = self.advance();
        let args = self.arguments()?;
        self.expand_member(open.at, name.text, *operand, args)
    }

    fn index(&mut self, operand: Expr) -> Parse<Expr> {
        let at = self.advance().at;
        let function = if self.eat("?") { "_[?_]" } else { "_[_]" };
        let index = self.expr()?;
        self.expect("]")?;
        self.call(at, function, vec![operand, index])
    }

    fn message(&mut self, name: &Expr) -> Parse<Expr> {
        let at = self.advance().at;
        let name = name.qualified_name().unwrap_or_default();
        let mut values = Vec::new();
        while !self.at("}") {
            self.eat("?");
            let field = self.advance();
            if field.token != Token::Ident {
                let message = format!("mismatched input '{}' expecting IDENTIFIER", field.text);
                return Err(self.syntax(field.at, message));
            }
            self.expect(":")?;
            values.push(self.expr()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        let name = name.into();
        self.node(at, Kind::Struct { name, values })
    }

    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        if self.eat(")") {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(args)
    }

    // ----- primaries

    fn primary(&mut self) -> Parse<Expr> {
        let first = self.peek();
        match first.token {
            Token::Ident => self.name(""),
            Token::Punct(".") => {
                self.advance();
                match self.peek().token {
                    Token::Ident => self.name("."),
                    _ => {
                        let found = self.peek();
                        let message = format!("mismatched input '{}' expecting IDENTIFIER", found.text);
                        Err(self.syntax(found.at, message))
                    }
                }
            }
            Token::Punct("(") => {
                self.advance();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Punct("[") => self.list(),
            Token::Punct("{") => self.map(),
            _ => self.literal(),
        }
    }

    fn name(&mut self, prefix: &str) -> Parse<Expr> {
        let name = self.advance();
        if RESERVED.contains(&name.text) {
            return Err(self.fail(name.at, format!("reserved identifier: {}", name.text)));
        }
        let text = format!("{prefix}{}", name.text);
        if !self.at("(") {
            return self.node(name.at, Kind::Ident(text.into()));
        }
        let open = self.advance();
        let args = self.arguments()?;
        self.expand_global(open.at, text.into(), args)
    }

    fn list(&mut self) -> Parse<Expr> {
        let at = self.advance().at;
        let mut items = Vec::new();
        if self.at(",") {
            self.advance();
        }
        while !self.at("]") {
            let optional = self.eat("?");
            let value = self.expr()?;
            items.push(Item { optional, value });
            if !self.eat(",") {
                break;
            }
        }
        self.expect("]")?;
        self.node(at, Kind::List(items))
    }

    fn map(&mut self) -> Parse<Expr> {
        let at = self.advance().at;
        let mut entries = Vec::new();
        while !self.at("}") {
            let optional = self.eat("?");
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            entries.push(Entry { optional, key, value });
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        self.node(at, Kind::Map(entries))
    }

    fn literal(&mut self) -> Parse<Expr> {
        let first = self.advance();
        let negative = first.token == Token::Punct("-");
        let token = if negative { self.advance() } else { first };
        let sign = if negative { "-" } else { "" };
        let literal = match token.token {
            Token::Int => int(sign, token.text)
                .map(Literal::Int)
                .ok_or("invalid int literal"),
            Token::Uint => uint(token.text).map(Literal::Uint).ok_or("invalid uint literal"),
            Token::Double => double(sign, token.text)
                .map(Literal::Double)
                .ok_or("invalid double literal"),
            Token::String => unescape::string(token.text).map(|s| Literal::String(s.into())),
            Token::Bytes => unescape::bytes(&token.text[1..]).map(|b| Literal::Bytes(b.into())),
            Token::True => Ok(Literal::Bool(true)),
            Token::False => Ok(Literal::Bool(false)),
            Token::Null => Ok(Literal::Null),
            _ => {
                let message = format!("mismatched input '{}' expecting {EXPRESSION_START}", token.text);
                return Err(self.syntax(token.at, message));
            }
        };
        match literal {
            Ok(literal) => self.node(first.at, Kind::Literal(literal)),
            Err(message) => Err(self.fail(first.at, message)),
        }
    }

    pub(crate) fn plain_call(&mut self, at: u32, function: Name, args: Vec<Expr>) -> Parse<Expr> {
        let kind = Kind::Call {
            function,
            target: None,
            args,
        };
        self.node(at, kind)
    }
}

/// The precedence and function of a binary operator.
fn operator(token: Lexeme<'_>) -> Option<(u8, &'static str)> {
    let text = match token.token {
        Token::In => "in",
        Token::Punct(text) => text,
        _ => return None,
    };
    Some(match text {
        "||" => (0, "_||_"),
        "&&" => (1, "_&&_"),
        "<" => (2, "_<_"),
        "<=" => (2, "_<=_"),
        ">" => (2, "_>_"),
        ">=" => (2, "_>=_"),
        "==" => (2, "_==_"),
        "!=" => (2, "_!=_"),
        "in" => (2, "@in"),
        "+" => (3, "_+_"),
        "-" => (3, "_-_"),
        "*" => (4, "_*_"),
        "/" => (4, "_/_"),
        "%" => (4, "_%_"),
        _ => return None,
    })
}

fn int(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

fn uint(text: &str) -> Option<u64> {
    let digits = &text[..text.len() - 1];
    match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn double(sign: &str, text: &str) -> Option<f64> {
    let value: f64 = format!("{sign}{text}").parse().ok()?;
    value.is_finite().then_some(value)
}
