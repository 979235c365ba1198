//! The declared functions: a table read once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::types::{OPAQUE, Type};

/// One way to call a function.
#[derive(Debug, Clone)]
pub(crate) struct Overload {
    /// Whether the first argument stands before the name.
    pub(crate) is_member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// The type parameters, each once, in the order of their appearance.
    pub(crate) params: Vec<&'static str>,
}

/// All overloads of a function of the libraries, in the order in which they are tried.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static TABLE: OnceLock<HashMap<&'static str, Vec<Overload>>> = OnceLock::new();
    TABLE.get_or_init(read_table).get(name).map(Vec::as_slice)
}

fn read_table() -> HashMap<&'static str, Vec<Overload>> {
    let mut table: HashMap<&str, Vec<Overload>> = HashMap::new();
    for line in include_str!("functions.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let (name, overload) =
            read_line(line).expect("the table is well formed: every line is read by a test");
        table.entry(name).or_default().push(overload);
    }
    table
}

fn read_line(line: &'static str) -> Option<(&'static str, Overload)> {
    let (name, signature) = line.split_once(' ')?;
    let (args, result) = signature.split_once(" -> ")?;
    let is_member = args.starts_with('.');
    let args = args
        .trim_start_matches('.')
        .strip_prefix('(')?
        .strip_suffix(')')?;
    let mut args = split(args).map(read_type).collect::<Option<Vec<_>>>()?;
    let result = read_type(result)?;
    let mut params = Vec::new();
    for t in args.iter_mut().chain([&mut result.clone()]) {
        collect_params(t, &mut params);
    }
    let overload = Overload {
        is_member,
        args,
        result,
        params,
    };
    Some((name, overload))
}

/// Splits at the commas that stand outside of parentheses.
fn split(list: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    let is_separator = move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    list.split(is_separator)
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

fn read_type(text: &'static str) -> Option<Type> {
    if let Some((name, rest)) = text.split_once('(') {
        let mut inner = split(rest.strip_suffix(')')?).map(read_type);
        let first = inner.next()??;
        return Some(match name {
            "list" => Type::list(first),
            "map" => Type::map(first, inner.next()??),
            "optional" => Type::optional(first),
            "type" => Type::TypeOf(Some(Arc::new(first))),
            _ => return None,
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        name if name.len() == 1 => Type::Param(name),
        name => Type::Opaque(OPAQUE.iter().find(|(short, _)| *short == name)?.1),
    })
}

fn collect_params(t: &Type, params: &mut Vec<&'static str>) {
    match t {
        Type::Param(name) if !params.contains(name) => params.push(name),
        Type::List(t) | Type::Optional(t) | Type::TypeOf(Some(t)) => collect_params(t, params),
        Type::Map(types) => {
            collect_params(&types.0, params);
            collect_params(&types.1, params);
        }
        _ => {}
    }
}

/// A type with its parameters replaced.
pub(crate) fn instantiate(t: &Type, params: &[(&'static str, Type)]) -> Type {
    match t {
        Type::Param(name) => {
            let found = params.iter().find(|(param, _)| param == name);
            found.map_or(Type::Dyn, |(_, t)| t.clone())
        }
        Type::List(t) => Type::list(instantiate(t, params)),
        Type::Optional(t) => Type::optional(instantiate(t, params)),
        Type::TypeOf(Some(t)) => Type::TypeOf(Some(Arc::new(instantiate(t, params)))),
        Type::Map(types) => Type::map(instantiate(&types.0, params), instantiate(&types.1, params)),
        other => other.clone(),
    }
}
