//! Label selectors: the text form and the object form.

use std::{fmt, str::FromStr};

use serde_json::Value;

use super::{
    SelectorError, parser,
    requirement::{LabelOperator, LabelRequirement},
};
use crate::quote;

/// Selects objects by their labels: all requirements must hold.
///
/// ```
/// use skopos_object::LabelSelector;
///
/// let selector = LabelSelector::parse("app in (web,api), tier!=cache, !legacy")?;
/// let labels = std::collections::BTreeMap::from([("app", "web")]);
/// assert!(selector.matches(|key| labels.get(key).copied()));
/// assert_eq!(selector.to_string(), "app in (api,web),!legacy,tier!=cache");
/// # Ok::<(), skopos_object::SelectorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    // None selects nothing. Otherwise sorted by key.
    requirements: Option<Vec<LabelRequirement>>,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self {
            requirements: Some(Vec::new()),
        }
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Selects what meets all `requirements`.
    pub fn new(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Self {
            requirements: Some(requirements),
        }
    }

    /// Parses the text form, as in the query parameter `labelSelector`. Empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parser::parse(text).map(Self::new)
    }

    /// Reads the object form with `matchLabels` and `matchExpressions`. `null` selects nothing, an
    /// empty object everything.
    pub fn from_match(selector: &Value) -> Result<Self, SelectorError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(LabelRequirement::new(
                key.as_str(),
                LabelOperator::Equals,
                vec![value],
            )?);
        }
        for expression in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            requirements.push(from_expression(expression)?);
        }
        Ok(Self::new(requirements))
    }

    /// The requirements; empty also for a selector that selects nothing.
    pub fn requirements(&self) -> &[LabelRequirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether an object is selected whose labels `label` looks up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|requirements| requirements.iter().all(|r| r.matches(label(r.key()))))
    }

    /// Whether an object with this `metadata.labels` is selected. Anything but an object has no labels.
    pub fn matches_value(&self, labels: &Value) -> bool {
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

fn from_expression(expression: &Value) -> Result<LabelRequirement, SelectorError> {
    let text = |key| expression.get(key).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => LabelOperator::In,
        "NotIn" => LabelOperator::NotIn,
        "Exists" => LabelOperator::Exists,
        "DoesNotExist" => LabelOperator::DoesNotExist,
        other => {
            return Err(SelectorError(format!(
                "{} is not a valid label selector operator",
                quote(other)
            )));
        }
    };
    let values = expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let values = values
        .map(|value| value.as_str().unwrap_or_default().to_owned())
        .collect();
    LabelRequirement::new(text("key"), operator, values)
}

impl Default for LabelSelector {
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parses_and_prints_in_canonical_form() {
        for (text, expect) in [
            ("", ""),
            (" ", ""),
            ("x=a,y=b,z=c", "x=a,y=b,z=c"),
            ("x==a", "x==a"),
            ("x!=a,y=b", "x!=a,y=b"),
            ("x=", "x="),
            ("x= ,z= ", "x=,z="),
            ("x>1", "x>1"),
            ("x<7", "x<7"),
            ("!x", "!x"),
            ("z,a", "a,z"),
            ("x in (foo)", "x in (foo)"),
            ("x in (b,,a)", "x in (,a,b)"),
            ("x in ()", "x in ()"),
            ("x in (,)", "x in ()"),
            ("x notin (a, b ), y", "x notin (a,b),y"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("example.com/app=web", "example.com/app=web"),
            ("\tx\r\n=\na", "x=a"),
            ("x=a\0garbage(((", "x=a"),
        ] {
            assert_eq!(
                LabelSelector::parse(text).unwrap().to_string(),
                expect,
                "{text:?}"
            );
        }
    }

    #[test]
    fn explains_what_it_cannot_parse() {
        for (text, expect) in [
            (
                "x=a||y=b",
                "unable to parse requirement: values[0][x]: Invalid value: \"a||y\": ",
            ),
            ("x==a==b", "found '==', expected: ',' or 'end of string'"),
            ("!x=a", "found '=', expected: ',' or 'end of string'"),
            (
                "x<a",
                "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("x,,y", "found ',', expected: identifier after ','"),
            (",x", "found ',', expected: !, identifier, or 'end of string'"),
            ("x in a", "unable to parse requirement: found 'a' expected: '('"),
            (
                "x in (a",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "x in (a b)",
                "unable to parse requirement: found 'b', expected: ',' or ')'",
            ),
            (
                "x in (=)",
                "unable to parse requirement: found '=', expected: ',', ')' or identifier",
            ),
            (
                "x in (a,=)",
                "unable to parse requirement: found '=', expected: ',', or identifier",
            ),
            (
                "x y",
                "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "x=(",
                "unable to parse requirement: found '(', expected: identifier",
            ),
            (
                "!!x",
                "unable to parse requirement: found '!', expected: identifier",
            ),
            (
                "-x",
                "unable to parse requirement: <nil>: Invalid value: \"-x\": name part must consist of",
            ),
            (
                "x in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
        ] {
            let error = LabelSelector::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expect), "{text:?} gave {error}");
        }
    }

    fn check(selector: &str, labels: &Value, expect: bool) {
        let selector = LabelSelector::parse(selector).unwrap();
        assert_eq!(selector.matches_value(labels), expect, "{selector} on {labels}");
    }

    #[test]
    fn matches_labels() {
        let labels = &json!({"x": "a", "n": "5", "empty": ""});
        for yes in [
            "",
            "x",
            "!y",
            "x=a",
            "x==a",
            "x!=b",
            "y!=b",
            "x in (a,b)",
            "x notin (b)",
            "y notin (b)",
            "n>4",
            "n<6",
            "empty=",
            "empty in ()",
            "x=a,n>4",
        ] {
            check(yes, labels, true);
        }
        for no in [
            "y",
            "!x",
            "x=b",
            "y=",
            "x!=a",
            "x in (b)",
            "x notin (a)",
            "n>5",
            "n<5",
            "x>1",
            "y>1",
            "x=a,y",
        ] {
            check(no, labels, false);
        }
    }

    #[test]
    fn reads_the_object_form() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(
            LabelSelector::from_match(&selector).unwrap().to_string(),
            "app=web,!old,tier in (a,b)"
        );
        assert!(LabelSelector::from_match(&json!({})).unwrap().is_everything());
        assert!(!LabelSelector::from_match(&Value::Null).unwrap().matches(|_| None));
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let error = LabelSelector::from_match(&bad).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"Near\" is not a valid label selector operator"
        );
        let empty = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
        let error = LabelSelector::from_match(&empty).unwrap_err();
        assert_eq!(
            error.to_string(),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
        );
    }
}
