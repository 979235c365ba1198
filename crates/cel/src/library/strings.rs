//! Functions on strings, and patterns.

use regex::Regex;

use crate::{
    eval::Ctx,
    eval_error::{Eval, EvalError},
    library::{Builtin, printf},
    regexes,
    value::Value,
};

pub(super) fn builtin(name: &str) -> Option<Builtin> {
    Some(match name {
        "charAt" => char_at,
        "contains" => |_, args| two(args, |s, t| s.contains(t)),
        "endsWith" => |_, args| two(args, |s, t| s.ends_with(t)),
        "startsWith" => |_, args| two(args, |s, t| s.starts_with(t)),
        "lowerAscii" => |_, args| map(args, str::to_ascii_lowercase),
        "upperAscii" => |_, args| map(args, str::to_ascii_uppercase),
        "trim" => |_, args| map(args, |s| s.trim_matches(is_go_space).to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "strings.quote" => quote,
        "format" => printf::format,
        "matches" => matches,
        "find" => |ctx, args| {
            let regex = pattern(ctx, args)?;
            Ok(find(&regex, text(&args[0])?))
        },
        "findAll" => |ctx, args| {
            let regex = pattern(ctx, args)?;
            find_all(ctx, &regex, text(&args[0])?, args.get(2))
        },
        _ => return None,
    })
}

pub(crate) fn text<'v>(value: &'v Value<'_>) -> Eval<&'v str> {
    value.as_str().ok_or_else(EvalError::no_overload)
}

pub(crate) fn int(value: &Value<'_>) -> Eval<i64> {
    match value {
        Value::Int(i) => Ok(*i),
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn count<'a>(n: usize) -> Value<'a> {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn two<'a>(args: &[Value<'a>], holds: impl Fn(&str, &str) -> bool) -> Eval<Value<'a>> {
    Ok(Value::Bool(holds(text(&args[0])?, text(&args[1])?)))
}

fn map<'a>(args: &[Value<'a>], change: impl Fn(&str) -> String) -> Eval<Value<'a>> {
    Ok(Value::text(change(text(&args[0])?)))
}

fn is_go_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range(index: i64) -> EvalError {
    format!("index out of range: {index}").into()
}

fn char_at<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (s, index) = (text(&args[0])?, int(&args[1])?);
    let at = usize::try_from(index).map_err(|_| out_of_range(index))?;
    match s.chars().nth(at) {
        Some(c) => Ok(Value::text(c.to_string())),
        None if at == s.chars().count() => Ok(Value::text("")),
        None => Err(out_of_range(index)),
    }
}

/// `indexOf` of strings.
pub(super) fn index_of<'a>(args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (s, sub) = (text(&args[0])?, text(&args[1])?);
    let offset = args.get(2).map_or(Ok(0), int)?;
    if sub.is_empty() {
        return Ok(Value::Int(offset));
    }
    let from = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let Some((start, _)) = s.char_indices().nth(from) else {
        return Ok(Value::Int(-1));
    };
    Ok(match s[start..].find(sub) {
        Some(at) => count(from + s[start..start + at].chars().count()),
        None => Value::Int(-1),
    })
}

/// `lastIndexOf` of strings.
pub(super) fn last_index_of<'a>(args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (s, sub) = (text(&args[0])?, text(&args[1])?);
    let n = s.chars().count();
    let offset = match args.get(2) {
        Some(offset) => int(offset)?,
        None if sub.is_empty() => return Ok(count(n)),
        None if s.len() < sub.len() => return Ok(Value::Int(-1)),
        None => i64::try_from(n).unwrap_or(i64::MAX) - 1,
    };
    if sub.is_empty() {
        return Ok(Value::Int(offset));
    }
    let last = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if last >= n {
        return Ok(Value::Int(-1));
    }
    // Matches may begin at `last` at the latest.
    let n_sub = sub.chars().count();
    let end = s.char_indices().nth(last + n_sub).map_or(s.len(), |(at, _)| at);
    Ok(match s[..end].rfind(sub) {
        Some(at) => count(s[..at].chars().count()),
        None => Value::Int(-1),
    })
}

fn replace<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (s, old, new) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let limit = args.get(3).map_or(Ok(-1), int)?;
    let found = match old.is_empty() {
        true => s.chars().count() + 1,
        false => s.matches(old).count(),
    };
    let n = usize::try_from(limit).map_or(found, |limit| limit.min(found));
    let growth = new.len().saturating_sub(old.len()).saturating_mul(n);
    ctx.reserve(s.len().saturating_add(growth))?;
    Ok(Value::text(s.replacen(old, new, n)))
}

fn split<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (s, separator) = (text(&args[0])?, text(&args[1])?);
    let limit = args.get(2).map_or(Ok(-1), int)?;
    ctx.reserve((s.len() + 1) * size_of::<Value<'_>>())?;
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let part = |text: &str| Value::text(text);
    Ok(Value::list(match separator.is_empty() {
        true => characters(s, limit).map(part).collect(),
        false => s.splitn(limit, separator).map(part).collect(),
    }))
}

/// The characters one by one; the last of `limit` parts is all the rest.
fn characters(s: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = s;
    let mut n = 0;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        n += 1;
        let len = if n == limit { rest.len() } else { first.len_utf8() };
        let (part, after) = rest.split_at(len);
        rest = after;
        Some(part)
    })
}

fn substring<'a>(_: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let (s, start) = (text(&args[0])?, int(&args[1])?);
    let end = args.get(2).map(int).transpose()?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(format!("invalid substring range. start: {start}, end: {end}").into());
    }
    let place = |index: i64| {
        let at = usize::try_from(index).map_err(|_| out_of_range(index))?;
        match s.char_indices().nth(at) {
            Some((byte, _)) => Ok(byte),
            None if at == s.chars().count() => Ok(s.len()),
            None => Err(out_of_range(index)),
        }
    };
    let from = place(start)?;
    let to = end.map_or(Ok(s.len()), place)?;
    Ok(Value::text(&s[from..to]))
}

fn join<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let Value::List(list) = &args[0] else {
        return Err(EvalError::no_overload());
    };
    let separator = args.get(1).map_or(Ok(""), text)?;
    let mut joined = String::new();
    for (i, item) in list.iter().enumerate() {
        let item = item?;
        let part = item
            .as_str()
            .ok_or_else(|| format!("join: invalid input: {}", crate::library::show(&item)))?;
        let between = if i > 0 { separator } else { "" };
        ctx.reserve(between.len() + part.len())?;
        joined.push_str(between);
        joined.push_str(part);
    }
    Ok(Value::text(joined))
}

fn quote<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let s = text(&args[0])?;
    ctx.reserve(s.len() * 2)?;
    let mut quoted = String::with_capacity(s.len() + 2);
    quoted.push('"');
    for c in s.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}

// ----- patterns that are not constant

/// What compiling a pattern costs beyond what cel-go counts: it can take a hundred times longer than matching.
const COMPILE_COST: u64 = 500;

fn pattern(ctx: &mut Ctx<'_, '_>, args: &[Value<'_>]) -> Eval<Regex> {
    ctx.charge(COMPILE_COST)?;
    let pattern = text(&args[1])?;
    regexes::compile(pattern).map_err(|message| format!("Illegal regex: {message}").into())
}

fn matches<'a>(ctx: &mut Ctx<'a, '_>, args: &[Value<'a>]) -> Eval<Value<'a>> {
    ctx.charge(COMPILE_COST)?;
    let s = text(&args[0])?;
    let regex = regexes::compile(text(&args[1])?).map_err(EvalError::from)?;
    Ok(Value::Bool(regex.is_match(s)))
}

/// The first match, or an empty string.
pub(crate) fn find<'a>(regex: &Regex, text: &str) -> Value<'a> {
    Value::text(regex.find(text).map_or("", |found| found.as_str()))
}

/// All matches, or as many as the limit says.
pub(crate) fn find_all<'a>(
    ctx: &mut Ctx<'a, '_>,
    regex: &Regex,
    text: &str,
    limit: Option<&Value<'a>>,
) -> Eval<Value<'a>> {
    let limit = limit.map_or(Ok(-1), int)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(limit) {
        ctx.reserve(part.len() + size_of::<Value<'_>>())?;
        found.push(Value::text(part.as_str()));
    }
    Ok(Value::list(found))
}
