//! Bounds of numbers, computed in the types that Go would use.

use serde_json::{Number, Value};

use super::fault::Fault;
use super::{Run, Types};
use crate::format::FormatKind;
use crate::gofmt::float;
use crate::path::At;
use crate::structural::{Checks, Limits, Structural, Type};

/// The numeric type that a schema pins, with its format.
#[derive(Clone, Copy)]
struct Numeric {
    kind: Option<Type>,
    format: Option<FormatKind>,
}

impl Numeric {
    fn of(schema: &Structural, types: Types) -> Self {
        let ambiguous = schema.int_or_string && types == Types::Served;
        let kind = schema
            .declared
            .filter(|kind| !ambiguous && matches!(kind, Type::Integer | Type::Number));
        let format = schema
            .checks
            .as_ref()
            .and_then(|checks| checks.format.as_ref())
            .map(|format| format.kind);
        Numeric {
            kind,
            format: format.filter(|_| kind.is_some()),
        }
    }

    /// Whether a number can be held by this type. Constraints must fit as well as values.
    fn holds(self, number: f64, exact: Option<i64>) -> bool {
        match self.kind {
            Some(Type::Integer) => match exact.or_else(|| as_i64(number)) {
                None => false,
                Some(value) => self.format != Some(FormatKind::Int32) || i32::try_from(value).is_ok(),
            },
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the overflow to infinity is the question"
            )]
            _ => self.format != Some(FormatKind::Float) || (number as f32).is_finite(),
        }
    }

    fn complaint(self, what: &str, path: &str) -> String {
        let kind = self.kind.map_or("", Type::as_str);
        let format = match self.format {
            Some(FormatKind::Int32) => " with format int32",
            Some(FormatKind::Int64) => " with format int64",
            Some(FormatKind::Float) => " with format float",
            Some(FormatKind::Double) => " with format double",
            Some(FormatKind::Text(_)) | None => " (default format)",
        };
        format!("{what} value must be of type {kind}{format} in {path}")
    }
}

impl Run {
    pub(super) fn number(
        &mut self,
        schema: &Structural,
        checks: Option<&Checks>,
        at: &At<'_>,
        number: &Number,
    ) {
        let numeric = Numeric::of(schema, self.types);
        let exact = number.as_i64();
        let Some(value) = number.as_f64() else { return };
        if !numeric.holds(value, exact) {
            self.faults
                .push(|| Fault::whole(numeric.complaint("Checked", &at.dotted())));
        }
        let Some(limits) = checks.and_then(|checks| checks.limits.as_deref()) else {
            return;
        };
        self.multiple_of(limits, numeric, at, value, exact);
        self.minimum(limits, numeric, at, value, exact);
        self.maximum(limits, numeric, at, value, exact);
    }

    /// Complains about a constraint that its own type cannot hold. Returns whether it can.
    fn constraint_holds(&mut self, numeric: Numeric, what: &str, constraint: f64, at: &At<'_>) -> bool {
        let holds = numeric.holds(constraint, None);
        if !holds {
            self.faults
                .push(|| Fault::whole(numeric.complaint(what, &at.dotted())));
        }
        holds
    }

    fn multiple_of(
        &mut self,
        limits: &Limits,
        numeric: Numeric,
        at: &At<'_>,
        value: f64,
        exact: Option<i64>,
    ) {
        let Some(factor) = limits.multiple_of else { return };
        let native = self.constraint_holds(numeric, "MultipleOf", factor, at);
        let (positive, multiple, shown) = match exact.filter(|_| native) {
            Some(value) => {
                let factor = truncate(factor);
                (factor > 0, factor > 0 && value % factor == 0, Value::from(factor))
            }
            None => {
                let quotient = if factor < 1.0 {
                    1.0 / factor * value
                } else {
                    value / factor
                };
                (factor > 0.0, is_json_integer(quotient), Value::from(factor))
            }
        };
        if positive && multiple {
            return;
        }
        let words = shown
            .as_i64()
            .map_or_else(|| float(factor), |factor| factor.to_string());
        if !positive {
            let message =
                |path: &str| format!("factor MultipleOf declared for {path} must be positive: {words}");
            self.faults.push(|| Fault::invalid_as(at, shown.clone(), message));
        } else {
            let bad = number_value(value, exact.filter(|_| native));
            self.faults
                .push(|| Fault::invalid(at, bad, &format!("should be a multiple of {words}")));
        }
    }

    fn minimum(&mut self, limits: &Limits, numeric: Numeric, at: &At<'_>, value: f64, exact: Option<i64>) {
        let Some(minimum) = limits.minimum else {
            return;
        };
        let native = self.constraint_holds(numeric, "Minimum boundary", minimum, at);
        let exact = exact.filter(|_| native);
        let exclusive = limits.exclusive_minimum;
        let below = match exact {
            Some(value) => value < truncate(minimum) || exclusive && value == truncate(minimum),
            None => value < minimum || exclusive && value <= minimum,
        };
        if below {
            let words = if exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            self.out_of_bounds(at, number_value(value, exact), words, minimum);
        }
    }

    fn maximum(&mut self, limits: &Limits, numeric: Numeric, at: &At<'_>, value: f64, exact: Option<i64>) {
        let Some(maximum) = limits.maximum else {
            return;
        };
        let native = self.constraint_holds(numeric, "Maximum boundary", maximum, at);
        let exact = exact.filter(|_| native);
        let exclusive = limits.exclusive_maximum;
        let above = match exact {
            Some(value) => value > truncate(maximum) || exclusive && value == truncate(maximum),
            None => value > maximum || exclusive && value >= maximum,
        };
        if above {
            let words = if exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            self.out_of_bounds(at, number_value(value, exact), words, maximum);
        }
    }

    /// Complains about a number. An integer is compared with an integer, so its bound is shown as one.
    fn out_of_bounds(&mut self, at: &At<'_>, value: Value, words: &str, bound: f64) {
        self.faults.push(|| {
            let bound = if value.is_i64() {
                truncate(bound).to_string()
            } else {
                float(bound)
            };
            Fault::invalid(at, value, &format!("should be {words} {bound}"))
        });
    }
}

fn number_value(value: f64, exact: Option<i64>) -> Value {
    exact.map_or_else(|| Value::from(value), Value::from)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "constraints lose their fraction on integers, as in Go"
)]
fn truncate(number: f64) -> i64 {
    number as i64
}

/// The number as an integer, if it is one without loss.
fn as_i64(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let integral = number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number);
    integral.then(|| truncate(number))
}

/// Whether a float is an integer that JSON readers everywhere agree on, allowing for rounding errors.
pub(super) fn is_json_integer(number: f64) -> bool {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !(-SAFE..=SAFE).contains(&number) {
        return false;
    }
    let whole = number.trunc();
    if number == whole {
        return true;
    }
    if number < 0.0 || whole == 0.0 {
        return false;
    }
    (number - whole).abs() / (number + whole) < EPSILON
}

/// Equality of a value with a member of an enumeration. Numbers are compared in the member's type.
pub(super) fn equal_when_converted(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        // Null is never a member, even of an enumeration that lists it.
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (None, Some(allowed)) => value.as_f64().map(truncate) == Some(allowed),
            (_, None) => value.as_f64() == allowed.as_f64(),
        },
        _ => value == allowed,
    }
}
