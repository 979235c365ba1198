//! What calls cost at run time, in cel-go's units.

use crate::{
    opaque::{Inner, Opaque},
    plan::Operator,
    value::Value,
};

/// How the cost of a call follows from its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallCost {
    One,
    /// A tenth of the first argument's size, so many times.
    Size(u64),
    /// The whole tree of the first argument.
    Traversal,
    /// The sizes of the first two, multiplied.
    Product,
    /// A pattern over a string.
    Pattern,
    /// A fifth of the result's size.
    Result,
    /// A format over a string.
    Format,
    /// Addresses compared, the second perhaps parsed.
    Contains,
    /// Networks compared, the second perhaps parsed.
    ContainsNet,
    /// A list as long as the result.
    Made,
    /// Every item compared with every other.
    Square,
    /// Every item of one list compared with every one of another, so many times.
    Sets(u64),
}

impl CallCost {
    pub(crate) fn of(name: &str) -> CallCost {
        match name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => CallCost::Traversal,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
            | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith"
            | "bytes" | "strings.quote" | "format" => CallCost::Size(1),
            "replace" | "split" | "ip.isCanonical" => CallCost::Size(2),
            "join" => CallCost::Result,
            "matches" | "find" | "findAll" => CallCost::Pattern,
            "contains" => CallCost::Product,
            "validate" => CallCost::Format,
            "containsIP" => CallCost::Contains,
            "containsCIDR" => CallCost::ContainsNet,
            "reverse" | "slice" | "flatten" | "lists.range" => CallCost::Made,
            "distinct" | "sort" => CallCost::Square,
            "sets.contains" | "sets.intersects" => CallCost::Sets(1),
            "sets.equivalent" => CallCost::Sets(2),
            _ => CallCost::One,
        }
    }

    /// What is due before the call.
    pub(crate) fn before(self, args: &[Value<'_>]) -> u64 {
        let first = || args.first().map_or(1, size);
        let second = || args.get(1).map_or(1, size);
        match self {
            CallCost::One => 1,
            CallCost::Size(times) => tenth(first() * times),
            CallCost::Traversal => args.first().map_or(1, traversal),
            CallCost::Product => tenth(first()) * tenth(second()),
            CallCost::Pattern => tenth(first() + 1) * second().div_ceil(4),
            CallCost::Result => 0,
            CallCost::Made => 11,
            CallCost::Square => 11 + 2 * first() * first(),
            CallCost::Sets(times) => 1 + times * first() * second(),
            CallCost::ContainsNet => CallCost::Contains.before(args) + tenth(first()) + 1,
            CallCost::Format => {
                let pattern = match args.first() {
                    Some(Value::Opaque(Opaque(Inner::Format(format)))) => format.pattern_len as u64,
                    _ => 1,
                };
                tenth(second() + 1) * pattern.div_ceil(4)
            }
            CallCost::Contains => {
                let parsed = matches!(args.get(1), Some(Value::String(_)));
                tenth(first() * 2) + if parsed { tenth(second()) } else { 0 }
            }
        }
    }

    /// What is due for the result.
    pub(crate) fn after(self, result: &Value<'_>) -> u64 {
        match self {
            CallCost::Result => tenth(size(result) * 2),
            CallCost::Made => size(result),
            _ => 0,
        }
    }
}

/// The cost of a pattern over a string, by their lengths.
pub(crate) fn regex_cost(text: usize, pattern: usize) -> u64 {
    tenth(text as u64 + 1) * (pattern as u64).div_ceil(4)
}

/// The cost of a binary operator.
pub(crate) fn operator_cost(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> u64 {
    match operator {
        Operator::Equal | Operator::NotEqual => match left {
            Value::Opaque(_) => 1,
            _ => tenth(size(left).min(size(right))),
        },
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => match left {
            Value::String(_) | Value::Bytes(_) => tenth(size(left).min(size(right))),
            _ => 1,
        },
        Operator::Add => match left {
            Value::String(_) | Value::Bytes(_) => tenth(size(left) + size(right)),
            _ => 1,
        },
        Operator::In => match right {
            Value::List(list) => list.len() as u64,
            _ => 1,
        },
        _ => 1,
    }
}

fn tenth(n: u64) -> u64 {
    n.div_ceil(10)
}

fn size(value: &Value<'_>) -> u64 {
    let size = match value {
        Value::String(s) => s.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Optional(Some(value)) => return size(value),
        Value::Opaque(Opaque(Inner::Ip(ip))) => {
            if ip.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Opaque(Opaque(Inner::Cidr(cidr))) => usize::from(cidr.bits).div_ceil(8),
        _ => 1,
    };
    size as u64
}

/// The cost of walking a whole value.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(s) => s.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.iter().map(|item| item.as_ref().map_or(1, traversal)).sum(),
        Value::Map(map) => {
            let entry = |key: &Value<'_>| traversal(key) + 1;
            map.keys().iter().map(entry).sum()
        }
        _ => 1,
    }
}
