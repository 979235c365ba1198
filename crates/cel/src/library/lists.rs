//! Functions on lists and sets.

use crate::{
    eval::Ctx,
    eval_error::{Eval, EvalError},
    library::{Builtin, sort, strings},
    ops,
    value::{List, Value},
};

pub(super) fn builtin(name: &str) -> Option<Builtin> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |_, args| extreme("min", args, std::cmp::Ordering::Greater),
        "max" => |_, args| extreme("max", args, std::cmp::Ordering::Less),
        "indexOf" => |_, args| match &args[0] {
            Value::List(list) => position(list, &args[1], 0..list.len()),
            _ => strings::index_of(args),
        },
        "lastIndexOf" => |_, args| match &args[0] {
            Value::List(list) => position(list, &args[1], (0..list.len()).rev()),
            _ => strings::last_index_of(args),
        },
        "slice" => slice,
        "flatten" => flatten,
        "distinct" => distinct,
        "reverse" => |_, args| {
            let mut items = list(&args[0])?.to_vec()?;
            items.reverse();
            Ok(Value::list(items))
        },
        "sort" => |_, args| sort::sorted(&args[0]),
        "lists.range" => range,
        "first" => |_, args| {
            let list = list(&args[0])?;
            end(list, 0)
        },
        "last" => |_, args| {
            let list = list(&args[0])?;
            end(list, list.len().saturating_sub(1))
        },
        "sets.contains" => |_, args| includes(&args[0], &args[1]).map(Value::Bool),
        "sets.equivalent" => |_, args| {
            let both = includes(&args[0], &args[1])? && includes(&args[1], &args[0])?;
            Ok(Value::Bool(both))
        },
        "sets.intersects" => intersects,
        "@sortByAssociatedKeys" => |_, args| sort::by_keys(&args[0], list(&args[1])?.to_vec()?),
        _ => return None,
    })
}

fn list<'v, 'a>(value: &'v Value<'a>) -> Eval<&'v List<'a>> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(EvalError::no_overload()),
    }
}

fn is_sorted<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let mut previous: Option<Value<'a>> = None;
    for item in list(&args[0])?.iter() {
        let item = item?;
        if let Some(previous) = &previous
            && ops::compare(previous, &item).is_ok_and(std::cmp::Ordering::is_gt)
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let mut total: Option<Value<'a>> = None;
    for item in list(&args[0])?.iter() {
        let item = item?;
        total = Some(match total {
            Some(total) => ops::add(ctx, total, item)?,
            None => item,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(name: &str, args: &[Value<'a>], replace_if: std::cmp::Ordering) -> Eval<Value<'a>> {
    let mut best: Option<Value<'a>> = None;
    for item in list(&args[0])?.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if ops::compare(&best, &item) != Ok(replace_if) => best,
            _ => item,
        });
    }
    best.ok_or_else(|| format!("{name} called on empty list").into())
}

fn position<'a>(list: &List<'a>, item: &Value<'a>, places: impl Iterator<Item = usize>) -> Eval<Value<'a>> {
    for at in places {
        if ops::equal(&list.get(at)?, item) == Ok(true) {
            return Ok(strings::count(at));
        }
    }
    Ok(Value::Int(-1))
}

fn slice<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let list = list(&args[0])?;
    let (start, end) = (strings::int(&args[1])?, strings::int(&args[2])?);
    let len = list.len();
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(format!("cannot slice({start}, {end}), negative indexes not supported").into());
    };
    if start > end {
        let message =
            format!("cannot slice({start}, {end}), start index must be less than or equal to end index");
        return Err(message.into());
    }
    if to > len {
        return Err(format!("cannot slice({start}, {end}), list is length {len}").into());
    }
    let items: Eval<Vec<_>> = (from..to).map(|at| list.get(at)).collect();
    Ok(Value::list(items?))
}

fn flatten<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let depth = args.get(1).map_or(Ok(1), strings::int)?;
    let depth = u64::try_from(depth).map_err(|_| EvalError::from("level must be non-negative"))?;
    let mut items = Vec::new();
    flatten_into(ctx, list(&args[0])?, depth, &mut items)?;
    Ok(Value::list(items))
}

fn flatten_into<'a>(
    ctx: &mut Ctx<'a, '_>,
    list: &List<'a>,
    depth: u64,
    items: &mut Vec<Value<'a>>,
) -> Eval<()> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(ctx, &inner, depth - 1, items)?,
            item => {
                ctx.reserve(size_of::<Value<'_>>())?;
                items.push(item);
            }
        }
    }
    Ok(())
}

fn distinct<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let mut items: Vec<Value<'a>> = Vec::new();
    for item in list(&args[0])?.iter() {
        let item = item?;
        if !items.iter().any(|known| ops::equal(&item, known) == Ok(true)) {
            items.push(item);
        }
    }
    Ok(Value::list(items))
}

fn range<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let n = strings::int(&args[0])?.max(0);
    ctx.reserve(
        usize::try_from(n)
            .unwrap_or(usize::MAX)
            .saturating_mul(size_of::<Value<'_>>()),
    )?;
    Ok(Value::list((0..n).map(Value::Int).collect()))
}

fn end<'a>(list: &List<'a>, at: usize) -> Eval<Value<'a>> {
    match list.is_empty() {
        true => Ok(Value::Optional(None)),
        false => list.get(at).map(Value::some),
    }
}

/// Whether every item of `sub` is in `of`.
fn includes<'a>(of: &Value<'a>, sub: &Value<'a>) -> Eval<bool> {
    for item in list(sub)?.iter() {
        if !ops::contains(&item?, of)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    for item in list(&args[0])?.iter() {
        if ops::contains(&item?, &args[1])? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
