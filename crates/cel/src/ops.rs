//! The operators on values.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    decl::Identity,
    eval::Ctx,
    eval_error::{Eval, EvalError},
    library::show,
    plan::Operator,
    time,
    types::Type,
    value::{Entries, Items, Key, List, Map, MapShape, Value},
};

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";

/// Whether values of a type can stand before the operator at all.
pub(crate) fn takes(operator: Operator, t: &Type) -> bool {
    use Type::{Bool, Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    match operator {
        Operator::Equal | Operator::NotEqual | Operator::In => true,
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            matches!(
                t,
                Bool | Int | Uint | Double | String | Bytes | Duration | Timestamp
            )
        }
        Operator::Add => matches!(
            t,
            Int | Uint | Double | String | Bytes | Duration | Timestamp | List(_)
        ),
        Operator::Subtract => matches!(t, Int | Uint | Double | Duration | Timestamp),
        Operator::Multiply | Operator::Divide => matches!(t, Int | Uint | Double),
        Operator::Modulo => matches!(t, Int | Uint),
    }
}

/// The name of a value's type in cel-go's source, which some messages show.
pub(crate) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::List(_) | Value::Map(_) | Value::Opaque(_) => "ref.Val",
    }
}

// ----- equality

/// `==`. Values of different types are unequal; only library types and declared data refuse to compare.
pub(crate) fn equal<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<bool> {
    Ok(match (left, right) {
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare_numbers(left, right) == Some(Ordering::Equal),
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::List(a), Value::List(b)) => return equal_lists(a, b),
        (Value::Map(a), Value::Map(b)) => return equal_maps(a, b),
        (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => return equal(a, b),
            (a, b) => a.is_none() && b.is_none(),
        },
        (Value::Opaque(a), Value::Opaque(b)) => return a.equals(b),
        (Value::Opaque(_), _) => return Err(EvalError::no_overload()),
        (Value::List(List { decl: Some(_), .. }), _) => return Err(EvalError::no_overload()),
        (Value::Map(map), _) if !matches!(map.shape, MapShape::Dyn) => return Err(EvalError::no_overload()),
        _ => false,
    })
}

fn equal_lists<'a>(a: &List<'a>, b: &List<'a>) -> Eval<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.decl.map(|decl| &decl.identity) {
        Some(Identity::Set) => {
            let set = keys(a.iter())?;
            Ok(keys(b.iter())?.iter().all(|key| set.contains(key)))
        }
        Some(Identity::Map(names)) => {
            let by_key = keyed(a, names)?;
            for (key, item) in keyed(b, names)? {
                match by_key.get(&key) {
                    Some(found) if equal(found, &item)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        Some(Identity::Atomic) | None => {
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

fn keys<'a>(items: impl Iterator<Item = Eval<Value<'a>>>) -> Eval<std::collections::BTreeSet<Key<'a>>> {
    items
        .map(|item| Key::of(&item?).ok_or_else(EvalError::no_overload))
        .collect()
}

type Keyed<'a> = BTreeMap<Vec<Option<Key<'a>>>, Value<'a>>;

/// The items of a list of objects by their key fields.
fn keyed<'a>(list: &List<'a>, names: &[Box<str>]) -> Eval<Keyed<'a>> {
    let mut keyed = BTreeMap::new();
    for item in list.iter() {
        let item = item?;
        keyed.insert(item_key(&item, names)?, item);
    }
    Ok(keyed)
}

fn item_key<'a>(item: &Value<'a>, names: &[Box<str>]) -> Eval<Vec<Option<Key<'a>>>> {
    let Value::Map(map) = item else {
        return Err(EvalError::no_overload());
    };
    let field = |name: &str| {
        let escaped = crate::escape::escape(name);
        let value = map.find_str(escaped.as_deref().unwrap_or(name))?;
        Ok(value.as_ref().and_then(Key::of))
    };
    names.iter().map(|name| field(name)).collect()
}

fn equal_maps<'a>(a: &Map<'a>, b: &Map<'a>) -> Eval<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    // Fields that the schema does not declare are compared as they are.
    if let (Entries::Json(x), Entries::Json(y), MapShape::Object(object)) = (&a.entries, &b.entries, a.shape)
    {
        let declared = |name: &str| object.fields().iter().any(|field| &*field.name == name);
        let differs = |(name, value): &(&String, &serde_json::Value)| {
            !declared(name) && y.get(*name).is_some_and(|other| other != *value)
        };
        if x.iter().any(|entry| differs(&entry)) {
            return Ok(false);
        }
    }
    for key in a.keys() {
        match (a.find(&key)?, b.find(&key)?) {
            (Some(a), Some(b)) if equal(&a, &b)? => {}
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// `in`.
pub(crate) fn contains<'a>(item: &Value<'a>, within: &Value<'a>) -> Eval<bool> {
    match within {
        Value::Map(map) => Ok(map.find(item)?.is_some()),
        Value::List(list) => {
            let mut failed = None;
            for candidate in list.iter() {
                match equal(&candidate?, item) {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            failed.map_or(Ok(false), Err)
        }
        _ => Err(EvalError::no_overload()),
    }
}

// ----- order

/// The order of two values, where they have one.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Eval<Ordering> {
    Ok(match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => (**a).cmp(&**b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => return compare_numbers(left, right).ok_or_else(|| "NaN values cannot be ordered".into()),
        _ => return Err(EvalError::no_overload()),
    })
}

/// A comparison operator.
pub(crate) fn ordered<'a>(
    left: &Value<'a>,
    right: &Value<'a>,
    holds: impl Fn(Ordering) -> bool,
) -> Eval<Value<'a>> {
    compare(left, right).map(|ordering| Value::Bool(holds(ordering)))
}

fn compare_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => compare_double(*a, whole(b)?),
        (a, Value::Double(b)) => compare_double(*b, whole(a)?).map(Ordering::reverse),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn whole(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(i) => Some((*i).into()),
        Value::Uint(u) => Some((*u).into()),
        _ => None,
    }
}

fn compare_double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    if a.abs() >= 1e20 {
        return Some(if a > 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        });
    }
    #[expect(clippy::cast_possible_truncation, reason = "in range by the check above")]
    let floor = a.floor() as i128;
    let has_fraction = a.fract() != 0.0;
    Some(floor.cmp(&b).then(match has_fraction {
        true => Ordering::Greater,
        false => Ordering::Equal,
    }))
}

// ----- arithmetic

/// `+`.
pub(crate) fn add<'a>(ctx: &mut Ctx<'a, '_>, left: Value<'a>, right: Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int).ok_or(INT_OVERFLOW.into()),
        (Value::Uint(a), Value::Uint(b)) => a.checked_add(b).map(Value::Uint).ok_or(UINT_OVERFLOW.into()),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            ctx.reserve(a.len() + b.len())?;
            Ok(Value::text([&*a, &*b].concat()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            ctx.reserve(a.len() + b.len())?;
            Ok(Value::Bytes([&*a, &*b].concat().into()))
        }
        (Value::Duration(a), Value::Duration(b)) => time::add(a, b).map(Value::Duration),
        (Value::Timestamp(t), Value::Duration(d)) | (Value::Duration(d), Value::Timestamp(t)) => {
            time::shift(t, d.into())
        }
        (Value::List(a), Value::List(b)) => {
            ctx.reserve((a.len() + b.len()) * size_of::<Value<'_>>())?;
            add_lists(&a, &b)
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// Sets are united and keyed lists are merged, as their schema says.
fn add_lists<'a>(a: &List<'a>, b: &List<'a>) -> Eval<Value<'a>> {
    let mut items = a.to_vec()?;
    match a.decl.map(|decl| &decl.identity) {
        Some(Identity::Set) => {
            let mut known = keys(a.iter())?;
            for item in b.iter() {
                let item = item?;
                let key = Key::of(&item).ok_or_else(EvalError::no_overload)?;
                if known.insert(key) {
                    items.push(item);
                }
            }
        }
        Some(Identity::Map(names)) => {
            let mut places = BTreeMap::new();
            for (i, item) in items.iter().enumerate() {
                places.insert(item_key(item, names)?, i);
            }
            for item in b.iter() {
                let item = item?;
                match places.get(&item_key(&item, names)?) {
                    Some(place) => items[*place] = item,
                    None => items.push(item),
                }
            }
        }
        Some(Identity::Atomic) | None => {
            for item in b.iter() {
                items.push(item?);
            }
        }
    }
    Ok(Value::List(List {
        items: Items::Made(Arc::new(items)),
        decl: a.decl,
    }))
}

/// `-`.
pub(crate) fn subtract<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int).ok_or(INT_OVERFLOW.into()),
        (Value::Uint(a), Value::Uint(b)) => a.checked_sub(*b).map(Value::Uint).ok_or(UINT_OVERFLOW.into()),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => time::subtract(*a, *b).map(Value::Duration),
        (Value::Timestamp(t), Value::Duration(d)) => time::shift(*t, -i128::from(*d)),
        (Value::Timestamp(a), Value::Timestamp(b)) => time::between(*a, *b).map(Value::Duration),
        _ => Err(EvalError::no_overload()),
    }
}

/// `*`.
pub(crate) fn multiply<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_mul(*b).map(Value::Int).ok_or(INT_OVERFLOW.into()),
        (Value::Uint(a), Value::Uint(b)) => a.checked_mul(*b).map(Value::Uint).ok_or(UINT_OVERFLOW.into()),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(EvalError::no_overload()),
    }
}

/// `/`.
pub(crate) fn divide<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err("division by zero".into()),
        (Value::Int(a), Value::Int(b)) => a.checked_div(*b).map(Value::Int).ok_or(INT_OVERFLOW.into()),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a / b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(EvalError::no_overload()),
    }
}

/// `%`.
pub(crate) fn modulo<'a>(left: &Value<'a>, right: &Value<'a>) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err("modulus by zero".into()),
        (Value::Int(a), Value::Int(b)) => a.checked_rem(*b).map(Value::Int).ok_or(INT_OVERFLOW.into()),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a % b)),
        _ => Err(EvalError::no_overload()),
    }
}

// ----- indexing

/// `operand[index]`.
pub(crate) fn index<'a>(operand: &Value<'a>, index: &Value<'a>) -> Eval<Value<'a>> {
    find(operand, index)?.ok_or_else(|| match operand {
        Value::List(_) => EvalError::missing(format!("index out of bounds: {}", show(index))),
        _ => EvalError::missing(format!("no such key: {}", show(index))),
    })
}

/// What an index leads to, if anything.
pub(crate) fn find<'a>(operand: &Value<'a>, index: &Value<'a>) -> Eval<Option<Value<'a>>> {
    match operand {
        Value::Map(map) => map.find(index),
        Value::List(list) => {
            let at = match index {
                Value::Int(i) => i128::from(*i),
                Value::Uint(u) => i128::from(*u),
                #[expect(clippy::cast_possible_truncation, reason = "only whole numbers")]
                Value::Double(d) if d.fract() == 0.0 && d.abs() < 1e18 => *d as i128,
                Value::Double(_) => {
                    return Err(format!("unsupported index value {} in list", show(index)).into());
                }
                other => {
                    return Err(
                        format!("unsupported index type '{}' in list", other.type_of().name()).into(),
                    );
                }
            };
            match usize::try_from(at) {
                Ok(at) if at < list.len() => list.get(at).map(Some),
                _ => Ok(None),
            }
        }
        Value::Null | Value::Bool(_) => Err(EvalError::missing(format!("no such key: {}", show(index)))),
        _ => Ok(None),
    }
}
