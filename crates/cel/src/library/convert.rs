//! Conversions between types, and how values are shown.

use std::sync::Arc;

use crate::{
    eval::Ctx,
    eval_error::{Eval, EvalError},
    library::Builtin,
    opaque::{Inner, Opaque},
    time,
    types::Type,
    value::Value,
};

pub(crate) fn builtin(name: &str) -> Option<Builtin> {
    Some(match name {
        "bool" => |ctx, args| made(ctx, to_bool(&args[0])),
        "bytes" => |ctx, args| made(ctx, to_bytes(&args[0])),
        "double" => |ctx, args| made(ctx, to_double(&args[0])),
        "duration" => |ctx, args| made(ctx, to_duration(&args[0])),
        "dyn" => |_, args| Ok(args[0].clone()),
        "int" => |ctx, args| made(ctx, to_int(&args[0])),
        "string" => |ctx, args| made(ctx, to_string(&args[0])),
        "timestamp" => |ctx, args| made(ctx, to_timestamp(&args[0])),
        "uint" => |ctx, args| made(ctx, to_uint(&args[0])),
        "type" => |_, args| Ok(Value::Type(args[0].type_of())),
        "-_" => negate,
        "size" => size,
        _ => return None,
    })
}

/// The conversion of a name, for constants.
pub(crate) fn conversion(name: &str) -> Option<Conversion> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "dyn" => |value| Ok(value.clone()),
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "uint" => to_uint,
        "type" => |value| Ok(Value::Type(value.type_of())),
        _ => return None,
    })
}

pub(crate) type Conversion = for<'a> fn(&Value<'a>) -> Eval<Value<'a>>;

/// Accounts for what a conversion made.
fn made<'a>(ctx: &mut Ctx<'a, '_>, converted: Eval<Value<'a>>) -> Eval<Value<'a>> {
    let converted = converted?;
    match &converted {
        Value::String(s) => ctx.reserve(s.len())?,
        Value::Bytes(bytes) => ctx.reserve(bytes.len())?,
        _ => {}
    }
    Ok(converted)
}

fn failed(value: &Value<'_>, to: &Type) -> EvalError {
    format!(
        "type conversion error from '{}' to '{}'",
        value.type_of().name(),
        to.name()
    )
    .into()
}

fn to_bool<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(s) => match &**s {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed(value, &Type::Bool)),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_bytes<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        Value::String(s) => Ok(Value::Bytes(s.as_bytes().into())),
        _ => Err(EvalError::no_overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "what the conversion means")]
fn to_double<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(i) => Ok(Value::Double(*i as f64)),
        Value::Uint(u) => Ok(Value::Double(*u as f64)),
        Value::String(s) => match parse_double(s) {
            Some(d) => Ok(Value::Double(d)),
            None => Err(failed(value, &Type::Double)),
        },
        _ => Err(EvalError::no_overload()),
    }
}

/// A number as Go reads it: infinities by name, but no overflow to one.
fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_named = ["inf", "infinity", "nan"].contains(&unsigned.to_ascii_lowercase().as_str());
    if is_named {
        return text.to_ascii_lowercase().parse().ok();
    }
    let text = &without_underscores(text);
    let is_number = |b: u8| b.is_ascii_digit() || b".eE+-".contains(&b);
    if !text.bytes().all(is_number) {
        return None;
    }
    text.parse::<f64>().ok().filter(|d| d.is_finite())
}

/// Go allows underscores between digits.
fn without_underscores(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let kept = |(at, c): (usize, char)| {
        let separates = c == '_' && digit(at.checked_sub(1)) && digit(Some(at + 1));
        (!separates).then_some(c)
    };
    text.char_indices().filter_map(kept).collect()
}

fn to_duration<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::Int(nanos) => Ok(Value::Duration(*nanos)),
        Value::String(s) => match time::parse_duration(s) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => Err(failed(value, &Type::Duration)),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_timestamp<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => time::from_seconds(*seconds),
        Value::String(s) => time::parse_timestamp(s).map(Value::Timestamp),
        _ => Err(EvalError::no_overload()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "in range by the check before")]
fn to_int<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(u) => i64::try_from(*u)
            .map(Value::Int)
            .map_err(|_| "integer overflow".into()),
        Value::Double(d) => match *d > -9_223_372_036_854_775_808.0 && *d < 9_223_372_036_854_775_808.0 {
            true => Ok(Value::Int(*d as i64)),
            false => Err("integer overflow".into()),
        },
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(t) => Ok(Value::Int(t.as_nanosecond().div_euclid(1_000_000_000) as i64)),
        Value::String(s) => match s.parse() {
            Ok(i) => Ok(Value::Int(i)),
            Err(_) => Err(failed(value, &Type::Int)),
        },
        _ => Err(EvalError::no_overload()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in range by the check before"
)]
fn to_uint<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    let overflow = || EvalError::from("unsigned integer overflow");
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(i) => u64::try_from(*i).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(d) => match *d >= 0.0 && *d < 18_446_744_073_709_551_616.0 {
            true => Ok(Value::Uint(*d as u64)),
            false => Err(overflow()),
        },
        Value::String(s) if s.starts_with('+') => Err(failed(value, &Type::Uint)),
        Value::String(s) => match s.parse() {
            Ok(u) => Ok(Value::Uint(u)),
            Err(_) => Err(failed(value, &Type::Uint)),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_string<'a>(value: &Value<'a>) -> Eval<Value<'a>> {
    match value {
        Value::String(_) => Ok(value.clone()),
        Value::Null | Value::Type(_) => Err(EvalError::no_overload()),
        other => text_of(other).map(Value::text),
    }
}

/// What `string()` gives.
pub(crate) fn text_of(value: &Value<'_>) -> Eval<String> {
    Ok(match value {
        Value::String(s) => s.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => u.to_string(),
        Value::Double(d) => go_float(*d),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err("invalid UTF-8 in bytes, cannot convert to string".into()),
        },
        Value::Duration(nanos) => time::format_duration(*nanos),
        Value::Timestamp(t) => t.to_string(),
        Value::Type(t) => t.name().to_owned(),
        Value::Opaque(Opaque(Inner::Ip(ip))) => ip.to_string(),
        Value::Opaque(Opaque(Inner::Cidr(cidr))) => cidr.to_string(),
        _ => return Err(EvalError::no_overload()),
    })
}

/// A float as Go's `%g` writes it.
pub(crate) fn go_float(d: f64) -> String {
    if d.is_nan() {
        return "NaN".to_owned();
    }
    if d.is_infinite() {
        return if d > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{d:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return d.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn negate<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    match &args[0] {
        Value::Int(i) => i.checked_neg().map(Value::Int).ok_or("integer overflow".into()),
        Value::Double(d) => Ok(Value::Double(-d)),
        _ => Err(EvalError::no_overload()),
    }
}

fn size<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let size = match &args[0] {
        Value::String(s) => s.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// A value as messages show it.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::List(list) => {
            let items = list
                .iter()
                .map(|item| item.as_ref().map_or_else(ToString::to_string, show));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let entry = |key: &Value<'_>| {
                let value = map.find_str(key.as_str()?).ok()??;
                Some(format!("{}: {}", show(key), show(&value)))
            };
            let entries: Vec<String> = map.keys().iter().filter_map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", show(value)),
        other => text_of(other).unwrap_or_else(|_| other.type_of().name().to_owned()),
    }
}

pub(crate) fn opaque<'a>(inner: Inner) -> Value<'a> {
    Value::Opaque(Opaque(inner))
}

pub(crate) fn shared<'a, T>(value: T, wrap: impl Fn(Arc<T>) -> Inner) -> Value<'a> {
    opaque(wrap(Arc::new(value)))
}
