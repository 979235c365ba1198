//! Field selectors.

use std::{fmt, str::FromStr};

use super::SelectorError;

/// How a requirement relates a field to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `path=value` or `path==value`
    Equals,
    /// `path!=value`
    NotEquals,
}

/// One requirement of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// The field, such as `metadata.name`.
    pub path: String,
    /// How field and value are related.
    pub op: FieldOperator,
    /// The value, without escapes.
    pub value: String,
}

/// Selects objects by the values of some of their fields: all requirements must hold.
///
/// ```
/// use skopos_object::FieldSelector;
///
/// let selector = FieldSelector::parse("metadata.name=a,status.phase!=Failed")?;
/// assert_eq!(selector.exact("metadata.name"), Some("a"));
/// # Ok::<(), skopos_object::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects what meets all `requirements`.
    pub fn new(requirements: Vec<FieldRequirement>) -> Self {
        Self { requirements }
    }

    /// Parses the text form, as in the query parameter `fieldSelector`. Empty text selects everything.
    ///
    /// In values `\`, `,` and `=` are written with a backslash before them.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((path, op, value)) = split_term(term) else {
                return Err(SelectorError(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            let value = unescape(value)?;
            // A requirement without field and value restricts nothing.
            if !(path.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement {
                    path: path.to_owned(),
                    op,
                    value,
                });
            }
        }
        Ok(Self { requirements })
    }

    /// The requirements in the order of their text.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that `path` must have, if the selector asks for exactly one.
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|r| r.op == FieldOperator::Equals && r.path == path)
            .map(|r| r.value.as_str())
    }

    /// Whether an object is selected whose fields `field` looks up. A field that is not there counts
    /// as empty.
    pub fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.requirements.iter().all(|r| {
            let equal = field(&r.path).unwrap_or_default() == r.value;
            equal == (r.op == FieldOperator::Equals)
        })
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let at = term
        .bytes()
        .enumerate()
        .position(|(i, byte)| byte == b'=' || (byte == b'!' && term.as_bytes().get(i + 1) == Some(&b'=')))?;
    let (path, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((path, FieldOperator::NotEquals, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((path, FieldOperator::Equals, value))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            // The API server prints the character as a number.
            ',' | '=' => {
                let code = u32::from(c);
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {code}"
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let op = if requirement.op == FieldOperator::Equals {
                "="
            } else {
                "!="
            };
            write!(f, "{}{op}{}", requirement.path, escape(&requirement.value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_in_canonical_form() {
        for (text, expect) in [
            ("", ""),
            ("x=a,y=b", "x=a,y=b"),
            ("y=b,x=a", "x=a,y=b"),
            ("x==a", "x=a"),
            ("x!=a", "x!=a"),
            ("x=", "x="),
            (",,x=a,", "x=a"),
            (r"x=a\,b\=c\\d", r"x=a\,b\=c\\d"),
            ("=", ""),
            ("x.y/z=ä", "x.y/z=ä"),
        ] {
            assert_eq!(
                FieldSelector::parse(text).unwrap().to_string(),
                expect,
                "{text:?}"
            );
        }
    }

    #[test]
    fn explains_what_it_cannot_parse() {
        for (text, expect) in [
            ("x", "invalid selector: 'x'; can't understand 'x'"),
            ("a=b,x!y", "invalid selector: 'a=b,x!y'; can't understand 'x!y'"),
            (
                "x=a=b",
                "invalid field selector: unescaped character in value: 61",
            ),
            (r"x=\a", r"invalid field selector: invalid escape sequence: \a"),
            (r"x=a\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), expect);
        }
    }

    #[test]
    fn matches_fields_and_treats_absent_ones_as_empty() {
        let field = |path: &str| (path == "x").then(|| "a".to_owned());
        for (selector, expect) in [
            ("", true),
            ("x=a", true),
            ("x!=a", false),
            ("y=", true),
            ("y!=b", true),
            ("x=a,y=b", false),
        ] {
            assert_eq!(
                FieldSelector::parse(selector).unwrap().matches(field),
                expect,
                "{selector}"
            );
        }
    }

    #[test]
    fn knows_the_one_value_it_asks_for() {
        let selector = FieldSelector::parse("a!=1,metadata.name=x").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("x"));
        assert_eq!(selector.exact("a"), None);
    }
}
