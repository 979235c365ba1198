//! `string.format(list)`.

use crate::{
    eval::Ctx,
    eval_error::{Eval, EvalError},
    library::convert::text_of,
    value::Value,
};

const DEFAULT_PRECISION: usize = 6;
const MAX_PRECISION: usize = 1000;

/// Fills in a template such as `%s is %d`.
pub(super) fn format<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (Value::String(template), Value::List(list)) = (&args[0], &args[1]) else {
        return Err(EvalError::no_overload());
    };
    let mut out = String::new();
    let mut rest: &str = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err("unexpected end of string".into());
        }
        if next >= list.len() {
            return Err(format!("index {next} out of range").into());
        }
        let (clause, after) = clause(rest)?;
        let text = clause.apply(&list.get(next)?)?;
        ctx.reserve(text.len())?;
        out.push_str(&text);
        rest = after;
        next += 1;
    }
    out.push_str(rest);
    ctx.reserve(out.len())?;
    Ok(Value::text(out))
}

struct Clause {
    verb: char,
    precision: Option<usize>,
}

fn clause(text: &str) -> Eval<(Clause, &str)> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .ok_or("could not parse formatting clause: error while parsing precision: could not find end of precision specifier")?;
            let precision = rest[..end].parse::<usize>().map_err(|_| {
                let digits = &rest[..end];
                format!("could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits:?}: invalid syntax")
            })?;
            (Some(precision), &rest[end..])
        }
    };
    let verb = rest.chars().next().ok_or("unexpected end of string")?;
    if !"sdfebxXo".contains(verb) {
        let message = format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\"");
        return Err(message.into());
    }
    Ok((Clause { verb, precision }, &rest[verb.len_utf8()..]))
}

impl Clause {
    fn apply(&self, value: &Value<'_>) -> Eval<String> {
        let precision = self.precision.unwrap_or(DEFAULT_PRECISION);
        if precision > MAX_PRECISION {
            return Err(format!("precision {precision} is more than {MAX_PRECISION}").into());
        }
        match self.verb {
            's' => show(value, false),
            'd' => match value {
                Value::Int(_) | Value::Uint(_) => text_of(value),
                other => Err(refused("decimal clause can only be used on integers", other)),
            },
            'f' => {
                number(value, "fixed-point clause can only be used on doubles").map(|d| fixed(d, precision))
            }
            'e' => number(value, "scientific clause can only be used on doubles").map(scientific),
            'b' => match value {
                Value::Int(i) => Ok(signed(*i, |u| format!("{u:b}"))),
                Value::Uint(u) => Ok(format!("{u:b}")),
                Value::Bool(b) => Ok(u8::from(*b).to_string()),
                other => Err(refused(
                    "only integers and bools can be formatted as binary",
                    other,
                )),
            },
            'o' => match value {
                Value::Int(i) => Ok(signed(*i, |u| format!("{u:o}"))),
                Value::Uint(u) => Ok(format!("{u:o}")),
                other => Err(refused("octal clause can only be used on integers", other)),
            },
            verb => {
                let text = hex(value)?;
                Ok(if verb == 'X' {
                    text.to_ascii_uppercase()
                } else {
                    text
                })
            }
        }
    }
}

fn refused(what: &str, value: &Value<'_>) -> EvalError {
    format!(
        "error during formatting: {what}, was given {}",
        value.type_of().name()
    )
    .into()
}

fn signed(i: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if i < 0 { "-" } else { "" };
    format!("{sign}{}", digits(i.unsigned_abs()))
}

fn hex(value: &Value<'_>) -> Eval<String> {
    let bytes = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
    Ok(match value {
        Value::Int(i) => signed(*i, |u| format!("{u:x}")),
        Value::Uint(u) => format!("{u:x}"),
        Value::String(s) => bytes(s.as_bytes()),
        Value::Bytes(b) => bytes(b),
        other => {
            let what = "only integers, byte buffers, and strings can be formatted as hex";
            return Err(refused(what, other));
        }
    })
}

fn number(value: &Value<'_>, what: &str) -> Eval<f64> {
    match value {
        Value::Double(d) => Ok(*d),
        Value::String(s) if ["NaN", "Infinity", "-Infinity"].contains(&&**s) => {
            s.parse().map_err(|_| refused(what, value))
        }
        other => Err(refused(what, other)),
    }
}

fn special(d: f64) -> Option<&'static str> {
    match d {
        d if d.is_nan() => Some("NaN"),
        d if d == f64::INFINITY => Some("\u{221e}"),
        d if d == f64::NEG_INFINITY => Some("-\u{221e}"),
        _ => None,
    }
}

/// In groups of three digits, as cel-go's locale has it.
fn fixed(d: f64, precision: usize) -> String {
    if let Some(special) = special(d) {
        return special.to_owned();
    }
    let plain = format!("{d:.precision$}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", &*plain), |rest| ("-", rest));
    let (whole, fraction) = match digits.find('.') {
        Some(point) => digits.split_at(point),
        None => (digits, ""),
    };
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// The precision is not heeded: cel-go's locale does not either.
fn scientific(d: f64) -> String {
    if let Some(special) = special(d) {
        return special.to_owned();
    }
    let plain = format!("{d:.DEFAULT_PRECISION$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { "\u{207b}" } else { "" };
    let raised = |c: char| match c {
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        c => char::from_u32(0x2070 + c as u32 - '0' as u32).unwrap_or(c),
    };
    let power: String = format!("{:02}", exponent.abs()).chars().map(raised).collect();
    format!("{digits}\u{d7}10{sign}{power}")
}

/// `%s`, and what stands inside of lists and maps.
fn show(value: &Value<'_>, nested: bool) -> Eval<String> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::List(list) => {
            let items = list.iter().map(|item| show(&item?, true));
            format!("[{}]", items.collect::<Eval<Vec<_>>>()?.join(", "))
        }
        Value::Map(map) => {
            let mut pairs = Vec::new();
            for key in map.keys() {
                let value = map.find(&key)?.unwrap_or(Value::Null);
                pairs.push((show(&key, true)?, show(&value, true)?));
            }
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            let entries: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::String(s) if nested => format!("{:?}", &**s),
        Value::Bytes(_) if nested => format!("b{:?}", text_of(value)?),
        Value::Double(d) if nested => match d.is_finite() {
            true => format!("{d:.DEFAULT_PRECISION$}"),
            false => format!("{:?}", crate::library::convert::go_float(*d)),
        },
        Value::Timestamp(_) if nested => format!("timestamp({:?})", text_of(value)?),
        Value::Duration(_) if nested => format!("duration({:?})", text_of(value)?),
        Value::Type(t) if nested => format!("type({})", t.name()),
        Value::Optional(_) | Value::Opaque(_) => {
            let what = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
            return Err(refused(what, value));
        }
        other => text_of(other)?,
    })
}
