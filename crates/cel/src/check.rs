//! Gives every node its type, or says why it has none.

use crate::{
    ast::{Entry, Expr, Fold, FoldKind, Item, Kind, Literal},
    env::Env,
    functions::{Overload, instantiate, overloads},
    parser::Parsed,
    source::{CompileError, Issues},
    types::{Type, signature},
    unify::{Bindings, most_general},
    validate,
};

/// The outcome of checking.
#[derive(Debug)]
pub(crate) struct Checked {
    /// By the id of the node, nothing unknown left.
    pub(crate) types: Vec<Type>,
}

/// Checks the whole expression and the literals in it.
pub(crate) fn check(env: &Env, source: &str, parsed: &Parsed) -> Result<Checked, CompileError> {
    let mut checker = Checker {
        env,
        issues: Issues::new(source),
        types: vec![Type::Error; parsed.n_exprs as usize],
        bindings: Bindings::default(),
        scopes: Vec::new(),
    };
    checker.expr(&parsed.root);
    let Checker {
        issues,
        mut types,
        bindings,
        ..
    } = checker;
    issues.into_result()?;
    for t in &mut types {
        *t = bindings.settle(t);
    }
    let checked = Checked { types };
    validate::literals(source, &parsed.root, &checked)?;
    Ok(checked)
}

/// The types that are also values by their names.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "type" => Type::TypeOf(None),
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    })
}

struct Checker<'e, 's> {
    env: &'e Env,
    issues: Issues<'s>,
    types: Vec<Type>,
    bindings: Bindings,
    /// The variables of macros, innermost last.
    scopes: Vec<(Box<str>, Type)>,
}

impl Checker<'_, '_> {
    fn expr(&mut self, e: &Expr) -> Type {
        let t = match &e.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => self.ident(e.at, name),
            Kind::Select { operand, field } => self.select(e, operand, field),
            Kind::Has { operand, field } => {
                self.field(e.at, operand, field, false);
                Type::Bool
            }
            Kind::OptSelect { operand, field } => {
                let t = self.field(e.at, operand, field, true);
                self.bindings.resolve(&t)
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(e.at, function, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, values } => {
                for value in values {
                    self.expr(value);
                }
                self.undeclared(e.at, name)
            }
            Kind::Fold(fold) => self.fold(e.at, fold),
        };
        self.types[e.id as usize] = t.clone();
        t
    }

    fn undeclared(&mut self, at: u32, name: &str) -> Type {
        self.issues
            .at(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, at: u32, expected: &Type, found: &Type) {
        self.issues
            .at(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        let global = name.strip_prefix('.');
        let local = self.scopes.iter().rev().find(|(var, _)| &**var == name);
        if let Some((_, t)) = local.filter(|_| global.is_none()) {
            return Some(t.clone());
        }
        let name = global.unwrap_or(name);
        if let Some((_, variable)) = self.env.variable(name) {
            return Some(variable.as_type());
        }
        let named = type_named(name)?;
        Some(Type::TypeOf(match name {
            "type" => Some(Type::TypeOf(None).into()),
            _ => Some(named.into()),
        }))
    }

    fn ident(&mut self, at: u32, name: &str) -> Type {
        match self.lookup(name) {
            Some(t) => t,
            None => self.undeclared(at, name),
        }
    }

    fn select(&mut self, e: &Expr, operand: &Expr, field: &str) -> Type {
        if let Some(t) = e.qualified_name().and_then(|name| self.lookup(&name)) {
            return t;
        }
        let t = self.field(e.at, operand, field, false);
        self.bindings.resolve(&t)
    }

    fn field(&mut self, at: u32, operand: &Expr, field: &str, optional: bool) -> Type {
        let operand = self.expr(operand);
        let operand = self.bindings.resolve(&operand);
        let (target, is_optional) = match &operand {
            Type::Optional(value) => ((**value).clone(), true),
            _ => (operand, false),
        };
        let result = match &target {
            Type::Map(types) => types.1.clone(),
            Type::Object(object) => match object.field(field) {
                Some(field) => field.decl.as_type(),
                None => {
                    self.issues.at(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Var(_) => {
                self.bindings.assign(&[Type::Dyn], &[target]);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.issues.at(at, message);
                Type::Dyn
            }
        };
        match is_optional || optional {
            true => Type::optional(result),
            false => result,
        }
    }

    fn call(&mut self, at: u32, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        let mut types: Vec<Type> = args.iter().map(|arg| self.expr(arg)).collect();
        if matches!(function, "_&&_" | "_||_") {
            return self.logical(args, &types);
        }
        let Some(target) = target else {
            return self.resolve(at, function, &types, false);
        };
        if let Some(name) = target.qualified_name() {
            let name = format!("{name}.{function}");
            if self.overloads(&name).is_some() {
                return self.resolve(at, &name, &types, false);
            }
        }
        let target = self.expr(target);
        types.insert(0, target);
        self.resolve(at, function, &types, true)
    }

    fn logical(&mut self, args: &[Expr], types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (arg, t) in args.iter().zip(types) {
            if !self.bindings.assign(std::slice::from_ref(t), &[Type::Bool]) {
                self.mismatch(arg.at, &Type::Bool, t);
                result = Type::Error;
            }
        }
        result
    }

    fn overloads(&self, name: &str) -> Option<Vec<Overload>> {
        let name = name.strip_prefix('.').unwrap_or(name);
        match overloads(name) {
            Some(standard) => Some(standard.to_vec()),
            None => self.env.function(name).map(|host| host.overload.to_vec()),
        }
    }

    /// Finds the overloads that take the arguments: the result is theirs if they agree, else `dyn`.
    fn resolve(&mut self, at: u32, function: &str, args: &[Type], is_member: bool) -> Type {
        let Some(overloads) = self.overloads(function) else {
            return self.undeclared(at, function);
        };
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|o| o.is_member == is_member) {
            let params: Vec<_> = overload
                .params
                .iter()
                .map(|name| (*name, self.bindings.fresh()))
                .collect();
            let expected: Vec<Type> = overload.args.iter().map(|t| instantiate(t, &params)).collect();
            if !self.bindings.assign(args, &expected) {
                continue;
            }
            let found = self.bindings.resolve(&instantiate(&overload.result, &params));
            result = Some(match result {
                None => found,
                Some(Type::Dyn) => Type::Dyn,
                Some(known) if found.is_exactly(&known) => known,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        let args: Vec<Type> = args.iter().map(|t| self.bindings.settle(t)).collect();
        let function = function.strip_prefix('.').unwrap_or(function);
        let signature = signature(&args, is_member);
        let message = format!("found no matching overload for '{function}' applied to '{signature}'");
        self.issues.at(at, message);
        Type::Error
    }

    // ----- aggregates

    /// The type of an element that may be given as an optional.
    fn element(&mut self, e: &Expr, optional: bool) -> Type {
        let t = self.expr(e);
        if !optional {
            return t;
        }
        match t {
            Type::Optional(value) => (*value).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                self.mismatch(e.at, &Type::optional(other.clone()), &other);
                other
            }
        }
    }

    /// Elements of several types are told by the validation of literals, which knows where they are allowed.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else {
            return current;
        };
        if self
            .bindings
            .assign(std::slice::from_ref(&previous), std::slice::from_ref(&current))
        {
            return most_general(&previous, &current);
        }
        Type::Dyn
    }

    fn list(&mut self, items: &[Item]) -> Type {
        let mut joined = None;
        for item in items {
            let t = self.element(&item.value, item.optional);
            joined = Some(self.join(joined, t));
        }
        let item = joined.unwrap_or_else(|| self.bindings.fresh());
        self.bounded(&Type::list(item))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.expr(&entry.key);
            keys = Some(self.join(keys, key));
            let value = self.element(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        let value = values.unwrap_or_else(|| self.bindings.fresh());
        self.bounded(&Type::map(key, value))
    }

    /// Types share their parts: this keeps one from growing beyond what can be walked.
    fn bounded(&self, t: &Type) -> Type {
        self.bindings.resolve(t)
    }

    // ----- macros

    fn fold(&mut self, at: u32, fold: &Fold) -> Type {
        if matches!(fold.kind, FoldKind::OptMap | FoldKind::OptFlatMap) {
            return self.opt_map(at, fold);
        }
        let range = self.expr(&fold.range);
        let range = self.bindings.resolve(&range);
        let (var, var2) = self.iteration(fold, &range);
        let n_outer = self.scopes.len();
        self.scopes.push((fold.var.clone(), var.clone()));
        if let Some(name) = &fold.var2 {
            self.scopes.push((name.clone(), var2));
        }
        let result = self.fold_result(at, fold, &range, &var);
        self.scopes.truncate(n_outer);
        result
    }

    /// The types of the variables when iterating over a range.
    fn iteration(&mut self, fold: &Fold, range: &Type) -> (Type, Type) {
        let two = fold.var2.is_some();
        match range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(types) => (types.0.clone(), types.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assign(&[Type::Dyn], std::slice::from_ref(range));
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issues.at(fold.range.at, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn fold_result(&mut self, at: u32, fold: &Fold, range: &Type, var: &Type) -> Type {
        match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                let body = self.expr(&fold.body);
                self.logical(std::slice::from_ref(&fold.body), &[body])
            }
            FoldKind::ExistsOne => {
                let body = self.expr(&fold.body);
                self.resolve(at, "_?_:_", &[body, Type::Int, Type::Int], false);
                Type::Bool
            }
            FoldKind::Filter => {
                let accumulator = self.bindings.fresh();
                let body = self.expr(&fold.body);
                let list = self.resolve(
                    at,
                    "_+_",
                    &[Type::list(accumulator), Type::list(var.clone())],
                    false,
                );
                self.resolve(at, "_?_:_", &[body, list.clone(), list], false)
            }
            FoldKind::List => {
                let accumulator = self.bindings.fresh();
                let filter = fold.filter.as_ref().map(|filter| self.expr(filter));
                let body = self.expr(&fold.body);
                let list = self.resolve(at, "_+_", &[Type::list(accumulator), Type::list(body)], false);
                match filter {
                    Some(filter) => self.resolve(at, "_?_:_", &[filter, list.clone(), list], false),
                    None => list,
                }
            }
            FoldKind::TransformMap | FoldKind::TransformMapEntry => self.transform_map(at, fold, var),
            FoldKind::SortBy => {
                let body = self.expr(&fold.body);
                let keys = self.bindings.resolve(&Type::list(body));
                self.resolve(at, "@sortByAssociatedKeys", &[range.clone(), keys], true)
            }
            FoldKind::OptMap | FoldKind::OptFlatMap => unreachable!("handled by the caller"),
        }
    }

    fn transform_map(&mut self, at: u32, fold: &Fold, var: &Type) -> Type {
        let (key, value) = (self.bindings.fresh(), self.bindings.fresh());
        let accumulator = Type::map(key, value);
        let filter = fold.filter.as_ref().map(|filter| self.expr(filter));
        let body = self.expr(&fold.body);
        let args = match fold.kind {
            FoldKind::TransformMap => vec![accumulator, var.clone(), body],
            _ => vec![accumulator, body],
        };
        let map = self.resolve(at, "cel.@mapInsert", &args, false);
        match filter {
            Some(filter) => self.resolve(at, "_?_:_", &[filter, map.clone(), map], false),
            None => map,
        }
    }

    fn opt_map(&mut self, at: u32, fold: &Fold) -> Type {
        let range = self.expr(&fold.range);
        self.resolve(at, "hasValue", std::slice::from_ref(&range), true);
        let value = match self.bindings.resolve(&range) {
            Type::Optional(value) => (*value).clone(),
            other if other.is_dyn_or_error() => Type::Dyn,
            _ => self.resolve(at, "value", &[range], true),
        };
        self.scopes.push((fold.var.clone(), value));
        let body = self.expr(&fold.body);
        self.scopes.pop();
        let body = self.bindings.resolve(&body);
        let then = match fold.kind {
            FoldKind::OptMap => Type::optional(body),
            _ => body,
        };
        let none = Type::optional(self.bindings.fresh());
        let t = self.resolve(at, "_?_:_", &[Type::Bool, then, none], false);
        self.bounded(&t)
    }
}

pub(crate) fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
