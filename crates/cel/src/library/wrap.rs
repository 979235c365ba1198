//! Functions of quantities, versions, URLs and optionals.

use std::cmp::Ordering;

use crate::{
    eval_error::{Eval, EvalError},
    library::{
        Builtin,
        convert::{shared, show},
        quantity::Quantity,
        semver::Semver,
        strings::{int, text},
        url::Url,
    },
    opaque::{Inner, Opaque},
    value::Value,
};

pub(super) fn builtin(name: &str) -> Option<Builtin> {
    quantities(name)
        .or_else(|| versions(name))
        .or_else(|| urls(name))
        .or_else(|| optionals(name))
}

fn quantities(name: &str) -> Option<Builtin> {
    Some(match name {
        "quantity" => |_, args| {
            let parsed = Quantity::parse(text(&args[0])?)?;
            Ok(shared(parsed, Inner::Quantity))
        },
        "isQuantity" => |_, args| Ok(Value::Bool(Quantity::parse(text(&args[0])?).is_ok())),
        "sign" => |_, args| {
            Ok(Value::Int(
                i64::try_from(quantity(&args[0])?.nanos.signum()).unwrap_or(0),
            ))
        },
        "asInteger" => |_, args| {
            let integer = quantity(&args[0])?.as_int();
            integer
                .map(Value::Int)
                .ok_or("cannot convert value to integer".into())
        },
        "isInteger" => |_, args| Ok(Value::Bool(quantity(&args[0])?.as_int().is_some())),
        "asApproximateFloat" => |_, args| Ok(Value::Double(quantity(&args[0])?.as_float())),
        "add" => |_, args| combine(args, Quantity::plus),
        "sub" => |_, args| combine(args, Quantity::minus),
        "isGreaterThan" => |_, args| Ok(Value::Bool(order(args)?.is_gt())),
        "isLessThan" => |_, args| Ok(Value::Bool(order(args)?.is_lt())),
        "compareTo" => |_, args| Ok(Value::Int(order(args)? as i64)),
        _ => return None,
    })
}

fn quantity<'v>(value: &'v Value<'_>) -> Eval<&'v Quantity> {
    match value {
        Value::Opaque(Opaque(Inner::Quantity(quantity))) => Ok(quantity),
        _ => Err(EvalError::no_overload()),
    }
}

fn combine<'a>(args: &[Value<'a>], by: fn(&Quantity, &Quantity) -> Quantity) -> Eval<Value<'a>> {
    let left = quantity(&args[0])?;
    let sum = match &args[1] {
        Value::Int(right) => by(left, &Quantity::from_int(*right)),
        right => by(left, quantity(right)?),
    };
    Ok(shared(sum, Inner::Quantity))
}

/// Quantities and versions have an order.
fn order(args: &[Value<'_>]) -> Eval<Ordering> {
    match (&args[0], &args[1]) {
        (Value::Opaque(Opaque(Inner::Semver(a))), Value::Opaque(Opaque(Inner::Semver(b)))) => {
            Ok(a.compare(b))
        }
        (a, b) => Ok(quantity(a)?.compare(quantity(b)?)),
    }
}

fn versions(name: &str) -> Option<Builtin> {
    Some(match name {
        "semver" => |_, args| Ok(shared(version(args)?, Inner::Semver)),
        "isSemver" => |_, args| {
            text(&args[0])?;
            Ok(Value::Bool(version(args).is_ok()))
        },
        "major" => |_, args| number(&args[0], 0),
        "minor" => |_, args| number(&args[0], 1),
        "patch" => |_, args| number(&args[0], 2),
        _ => return None,
    })
}

fn version(args: &[Value<'_>]) -> Eval<Semver> {
    let text = text(&args[0])?;
    let parsed = match args.get(1) {
        Some(Value::Bool(true)) => Semver::parse_tolerant(text),
        _ => Semver::parse(text),
    };
    parsed.map_err(EvalError::from)
}

fn number<'a>(value: &Value<'a>, place: usize) -> Eval<Value<'a>> {
    match value {
        Value::Opaque(Opaque(Inner::Semver(version))) => Ok(Value::Int(version.numbers[place].cast_signed())),
        _ => Err(EvalError::no_overload()),
    }
}

fn urls(name: &str) -> Option<Builtin> {
    Some(match name {
        "url" => |_, args| {
            let parsed = Url::parse(text(&args[0])?)
                .map_err(|error| format!("URL parse error during conversion from string: {error}"))?;
            Ok(shared(parsed, Inner::Url))
        },
        "isURL" => |_, args| Ok(Value::Bool(Url::parse(text(&args[0])?).is_ok())),
        "getScheme" => |_, args| Ok(Value::text(url(&args[0])?.scheme.as_str())),
        "getHost" => |_, args| Ok(Value::text(url(&args[0])?.host.as_str())),
        "getHostname" => |_, args| Ok(Value::text(url(&args[0])?.hostname())),
        "getPort" => |_, args| Ok(Value::text(url(&args[0])?.port())),
        "getEscapedPath" => |_, args| Ok(Value::text(url(&args[0])?.escaped_path())),
        "getQuery" => |_, args| Ok(url(&args[0])?.query()),
        _ => return None,
    })
}

fn url<'v>(value: &'v Value<'_>) -> Eval<&'v Url> {
    match value {
        Value::Opaque(Opaque(Inner::Url(url))) => Ok(url),
        _ => Err(EvalError::no_overload()),
    }
}

fn optionals(name: &str) -> Option<Builtin> {
    Some(match name {
        "optional.of" => |_, args| Ok(Value::some(args[0].clone())),
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "optional.ofNonZeroValue" => |_, args| match is_zero(&args[0]) {
            true => Ok(Value::Optional(None)),
            false => Ok(Value::some(args[0].clone())),
        },
        "hasValue" => |_, args| match &args[0] {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            _ => Err(EvalError::no_overload()),
        },
        "value" => |_, args| match &args[0] {
            Value::Optional(Some(value)) => Ok((**value).clone()),
            Value::Optional(None) => Err("optional.none() dereference".into()),
            _ => Err(EvalError::no_overload()),
        },
        "optional.unwrap" | "unwrapOpt" => |_, args| {
            let Value::List(list) = &args[0] else {
                return Err(EvalError::no_overload());
            };
            let mut items = Vec::new();
            for item in list.iter() {
                match item? {
                    Value::Optional(value) => items.extend(value.map(|v| (*v).clone())),
                    other => return Err(format!("value {} is not optional", show(&other)).into()),
                }
            }
            Ok(Value::list(items))
        },
        _ => return None,
    })
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(_) => int(value) == Ok(0),
        Value::Uint(u) => *u == 0,
        Value::Double(d) => *d == 0.0,
        Value::String(s) => s.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        // The zero of Go's time is the year 1.
        Value::Timestamp(t) => t.as_second() == -62_135_596_800 && t.subsec_nanosecond() == 0,
        Value::Type(_) | Value::Optional(_) | Value::Opaque(_) => false,
    }
}
