//! One requirement of a label selector.

use std::fmt;

use super::SelectorError;
use crate::{FieldError, FieldErrors, FieldPath, validation};

/// How a requirement relates a label to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`: also true of objects without the label.
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`: also true of objects without the label.
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// One requirement of a [`LabelSelector`](super::LabelSelector).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

impl LabelRequirement {
    /// Makes a requirement after checking key, values and their number.
    pub fn new(
        key: impl Into<String>,
        operator: LabelOperator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        let requirement = Self {
            key: key.into(),
            operator,
            values,
        };
        let errors = requirement.check();
        if errors.is_empty() {
            Ok(requirement)
        } else {
            Err(SelectorError(FieldErrors(&errors).to_string()))
        }
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let root = FieldPath::root();
        let complaints = validation::label_key(&self.key);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(
                &root.child("key"),
                self.key.as_str(),
                complaints.join("; "),
            ));
        }
        let path = root.child("values");
        if let Some(complaint) = self.wrong_count() {
            // Go prints a list that was never made as null.
            let values = if self.values.is_empty() {
                serde_json::Value::Null
            } else {
                self.values.clone().into()
            };
            errors.push(FieldError::invalid(&path, values, complaint));
        }
        for (i, value) in self.values.iter().enumerate() {
            if self.is_numeric() && value.parse::<i64>().is_err() {
                let complaint = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&path.index(i), value.as_str(), complaint));
            }
        }
        for (i, value) in self.values.iter().enumerate() {
            let complaints = validation::label_value(value);
            if !complaints.is_empty() {
                let path = path.index(i).key(&self.key);
                errors.push(FieldError::invalid(&path, value.as_str(), complaints.join("; ")));
            }
        }
        errors
    }

    fn wrong_count(&self) -> Option<&'static str> {
        use LabelOperator as Op;
        match (self.operator, self.values.len()) {
            (Op::In | Op::NotIn, 0) => Some("for 'in', 'notin' operators, values set can't be empty"),
            (Op::In | Op::NotIn, _) => None,
            (Op::Exists | Op::DoesNotExist, 0) => None,
            (Op::Exists | Op::DoesNotExist, _) => {
                Some("values set must be empty for exists and does not exist")
            }
            (_, 1) => None,
            (Op::GreaterThan | Op::LessThan, _) => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => Some("exact-match compatibility requires one single value"),
        }
    }

    fn is_numeric(&self) -> bool {
        matches!(
            self.operator,
            LabelOperator::GreaterThan | LabelOperator::LessThan
        )
    }

    /// The label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How label and values are related.
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// The values.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether an object with this value of the label, or without the label, meets the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                value.is_some_and(listed)
            }
            LabelOperator::NotIn | LabelOperator::NotEquals => !value.is_some_and(listed),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
            LabelOperator::GreaterThan => self.numbers(value).is_some_and(|(label, bound)| label > bound),
            LabelOperator::LessThan => self.numbers(value).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn numbers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values.clone();
        values.sort();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::DoubleEquals => write!(f, "{key}=={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
