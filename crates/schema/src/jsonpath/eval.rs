//! Follows the steps of a path through a value.

use std::cmp::Ordering;

use serde_json::Value;

use super::{End, Filter, Operator, Slice, Step};

/// More results than a column can use; a recursive descent must not copy a big object many times.
const MAX_RESULTS: usize = 10_000;

/// Follows `steps` from `values`. `None` means that a step does not fit, which makes the whole path fail.
pub(super) fn steps<'v>(steps: &'v [Step], values: Vec<&'v Value>) -> Option<Vec<&'v Value>> {
    let mut current = values;
    for step in steps {
        current = follow(step, &current)?;
        if current.len() > MAX_RESULTS {
            return None;
        }
    }
    Some(current)
}

fn follow<'v>(step: &'v Step, values: &[&'v Value]) -> Option<Vec<&'v Value>> {
    let mut out = Vec::new();
    match step {
        Step::Field(name) => {
            out.extend(
                values
                    .iter()
                    .filter_map(|value| value.as_object()?.get(name.as_ref())),
            );
        }
        Step::Literal(literal) => out.extend(values.iter().map(|_| literal)),
        Step::Slice(slice) => {
            for value in values.iter().filter(|value| !value.is_null()) {
                take(*slice, value.as_array()?, &mut out)?;
            }
        }
        Step::Wildcard => values.iter().for_each(|value| out.extend(children(value))),
        Step::Recursive => values.iter().for_each(|value| descend(value, 0, &mut out)),
        Step::Union(branches) => {
            for branch in branches {
                out.extend(steps(branch, values.to_vec())?);
            }
        }
        Step::Filter(filter) => {
            for value in values {
                for item in value.as_array()? {
                    if passes(filter, item)? {
                        out.push(item);
                    }
                }
            }
        }
    }
    Some(out)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, depth: usize, out: &mut Vec<&'v Value>) {
    let children = children(value);
    if children.is_empty() || depth > 256 || out.len() > MAX_RESULTS {
        return;
    }
    out.push(value);
    for child in children {
        descend(child, depth + 1, out);
    }
}

fn take<'v>(slice: Slice, items: &'v [Value], out: &mut Vec<&'v Value>) -> Option<()> {
    let length = i64::try_from(items.len()).ok()?;
    let wrap = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let start = wrap(slice.start.unwrap_or(0));
    let end = match slice.end {
        End::Open => length,
        End::Single => start.saturating_add(1),
        End::At(end) => wrap(end),
    };
    if start == end {
        return Some(());
    }
    if start < 0 || start >= length || end < 0 || end > length || start > end {
        return None;
    }
    let step = usize::try_from(slice.step.unwrap_or(1))
        .ok()
        .filter(|step| *step > 0)?;
    let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
    out.extend(items.get(range)?.iter().step_by(step));
    Some(())
}

fn passes(filter: &Filter, item: &Value) -> Option<bool> {
    let left = steps(&filter.left, vec![item]);
    if filter.operator == Operator::Exists {
        return Some(left.is_some_and(|found| !found.is_empty()));
    }
    let left = left?;
    let right = steps(&filter.right, vec![item])?;
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => compare(filter.operator, left, right),
        _ => None,
    }
}

/// Compares two scalars of one kind. Different kinds cannot be compared, as in Go.
fn compare(operator: Operator, left: &Value, right: &Value) -> Option<bool> {
    let ordering = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
            _ => return None,
        },
        (Value::Bool(left), Value::Bool(right)) => {
            let equal = left == right;
            return match operator {
                Operator::Equal => Some(equal),
                Operator::NotEqual => Some(!equal),
                _ => None,
            };
        }
        _ => return None,
    };
    Some(match operator {
        Operator::Equal => ordering == Ordering::Equal,
        Operator::NotEqual => ordering != Ordering::Equal,
        Operator::Less => ordering == Ordering::Less,
        Operator::LessOrEqual => ordering != Ordering::Greater,
        Operator::Greater => ordering == Ordering::Greater,
        Operator::GreaterOrEqual => ordering != Ordering::Less,
        Operator::Exists | Operator::Unknown => return None,
    })
}
