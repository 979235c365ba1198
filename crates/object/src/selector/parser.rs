//! The grammar of label selectors, by recursive descent.

use std::collections::BTreeSet;

use super::{
    SelectorError,
    lexer::{Item, Token, scan},
    requirement::{LabelOperator, LabelRequirement},
};
use crate::{FieldError, FieldPath, validation};

pub(super) fn parse(selector: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser {
        items: scan(selector),
        at: 0,
    };
    parser.selector().map_err(SelectorError)
}

struct Parser<'a> {
    items: Vec<Item<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek_value() {
                Token::Identifier | Token::Not => {}
                Token::End => return Ok(requirements),
                _ => {
                    let found = self.peek().text;
                    return Err(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self
                .requirement()
                .map_err(|error| format!("unable to parse requirement: {error}"))?;
            requirements.push(requirement);
            let (token, text) = self.take_value();
            match token {
                Token::End => return Ok(requirements),
                Token::Comma if matches!(self.peek_value(), Token::Identifier | Token::Not) => {}
                Token::Comma => {
                    let found = self.peek().text;
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
                _ => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let (key, unary) = self.key_and_unary()?;
        if let Some(operator) = unary {
            return LabelRequirement::new(key, operator, Vec::new()).map_err(|error| error.0);
        }
        let operator = self.operator()?;
        let values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.value_set()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        LabelRequirement::new(key, operator, values.into_iter().collect()).map_err(|error| error.0)
    }

    /// Reads the key, and which unary operator the requirement has, if it has one.
    fn key_and_unary(&mut self) -> Result<(&'a str, Option<LabelOperator>), String> {
        let (mut token, mut text) = self.take_value();
        let negated = token == Token::Not;
        if negated {
            (token, text) = self.take_value();
        }
        if token != Token::Identifier {
            return Err(format!("found '{text}', expected: identifier"));
        }
        let errors = validation::label_key(text);
        if !errors.is_empty() {
            let root = FieldPath::root();
            return Err(FieldError::invalid(&root, text, errors.join("; ")).to_string());
        }
        let last = matches!(self.peek_value(), Token::End | Token::Comma);
        let unary = match (negated, last) {
            (true, _) => Some(LabelOperator::DoesNotExist),
            (false, true) => Some(LabelOperator::Exists),
            (false, false) => None,
        };
        Ok((text, unary))
    }

    fn operator(&mut self) -> Result<LabelOperator, String> {
        let item = self.take();
        Ok(match item.token {
            Token::In => LabelOperator::In,
            Token::Equals => LabelOperator::Equals,
            Token::DoubleEquals => LabelOperator::DoubleEquals,
            Token::Greater => LabelOperator::GreaterThan,
            Token::Less => LabelOperator::LessThan,
            Token::NotIn => LabelOperator::NotIn,
            Token::NotEquals => LabelOperator::NotEquals,
            _ => {
                let found = item.text;
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        })
    }

    fn value_set(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.take_value();
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let first = self.peek().text;
        match self.peek_value() {
            Token::Identifier | Token::Comma => {
                let values = self.values()?;
                // The API server reports the text of the first value here, not of what it found.
                match self.take_value() {
                    (Token::Close, _) => Ok(values),
                    _ => Err(format!("found '{first}', expected: ')'")),
                }
            }
            Token::Close => {
                self.take();
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{first}', expected: ',', ')' or identifier")),
        }
    }

    /// Reads values, any of which may be empty, up to the closing parenthesis.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            let (token, text) = self.take_value();
            let next = self.peek_value();
            match token {
                Token::Identifier => {
                    values.insert(text.to_owned());
                    match next {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        _ => return Err(format!("found '{}', expected: ',' or ')'", self.peek().text)),
                    }
                }
                Token::Comma => {
                    if values.is_empty() || matches!(next, Token::Close | Token::Comma) {
                        values.insert(String::new());
                    }
                    if next == Token::Close {
                        return Ok(values);
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek_value(), Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.take_value() {
            (Token::Identifier, text) => Ok(text.to_owned()),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn peek(&self) -> Item<'a> {
        // The last item is End and is never stepped over.
        self.items[self.at.min(self.items.len() - 1)]
    }

    /// The next token where a value may stand: there `in` and `notin` are plain words.
    fn peek_value(&self) -> Token {
        match self.peek().token {
            Token::In | Token::NotIn => Token::Identifier,
            token => token,
        }
    }

    fn take(&mut self) -> Item<'a> {
        let item = self.peek();
        self.at += 1;
        item
    }

    fn take_value(&mut self) -> (Token, &'a str) {
        let token = self.peek_value();
        (token, self.take().text)
    }
}
