//! Walks a program.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::{
    ast::FoldKind,
    eval_error::{Eval, EvalError, EvalErrorKind},
    library::{self, sort},
    ops,
    plan::{Call, Fold, Node, Operator, RegexCall, RegexKind},
    program::{Activation, Program},
    value::{Key, Map, Str, Value},
};

/// One evaluation.
pub(crate) struct Ctx<'a, 'v> {
    program: &'a Program,
    vars: &'v Activation<'a>,
    /// The variables of macros.
    locals: Vec<Value<'a>>,
    cost: u64,
    cost_limit: u64,
    bytes_left: u64,
}

/// What the pieces of a list, a map and a selection cost.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const SELECT_COST: u64 = 1;
/// The longest constant list that is searched free of charge.
const FREE_LIST: usize = 32;

impl<'a, 'v> Ctx<'a, 'v> {
    pub(crate) fn new(
        program: &'a Program,
        vars: &'v Activation<'a>,
        cost_limit: u64,
        max_bytes: u64,
    ) -> Self {
        Ctx {
            program,
            vars,
            locals: Vec::new(),
            cost: 0,
            cost_limit,
            bytes_left: max_bytes,
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost; an error if that is more than allowed.
    pub(crate) fn charge(&mut self, cost: u64) -> Eval<()> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost > self.cost_limit {
            true => Err(EvalError::budget(
                "operation cancelled: actual cost limit exceeded",
            )),
            false => Ok(()),
        }
    }

    /// Takes memory for a value to be made; an error if that is more than allowed.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Eval<()> {
        match self.bytes_left.checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(EvalError::budget("operation cancelled: memory limit exceeded")),
        }
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Eval<Value<'a>> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Text(text) => Ok(Value::String(Str::Borrowed(text))),
            Node::Var(slot) => {
                self.charge(SELECT_COST)?;
                self.vars.get(*slot)
            }
            Node::Local(slot) => {
                self.charge(SELECT_COST)?;
                Ok(self.locals[*slot].clone())
            }
            Node::Relative(operand) => {
                let operand = self.eval(operand)?;
                self.charge(SELECT_COST)?;
                Ok(operand)
            }
            Node::Select(operand, field) => {
                let operand = self.eval(operand)?;
                self.charge(SELECT_COST)?;
                select(operand, field)
            }
            Node::Has(operand, field) => {
                let operand = self.eval(operand)?;
                has(&operand, field).map(Value::Bool)
            }
            Node::OptSelect(operand, field) => {
                let operand = self.eval(operand)?;
                self.charge(SELECT_COST)?;
                opt_select(operand, field)
            }
            Node::Index(pair) => self.index(&pair.0, &pair.1),
            Node::OptIndex(pair) => self.opt_index(&pair.0, &pair.1),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Not(operand) => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                match operand {
                    Value::Bool(b) => Ok(Value::Bool(!b)),
                    _ => Err(EvalError::no_overload()),
                }
            }
            Node::Condition(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.eval(then),
                    Value::Bool(false) => self.eval(otherwise),
                    _ => Err(EvalError::no_overload()),
                }
            }
            Node::Binary(operator, pair) => self.binary(*operator, &pair.0, &pair.1),
            Node::OrValue(pair) => match self.eval(&pair.0)? {
                Value::Optional(Some(value)) => Ok((*value).clone()),
                Value::Optional(None) => self.eval(&pair.1),
                other => Ok(other),
            },
            Node::OrOptional(pair) => match self.eval(&pair.0)? {
                Value::Optional(None) => self.eval(&pair.1),
                other => Ok(other),
            },
            Node::Regex(call) => self.regex(call),
            Node::Call(call) => self.call(call),
            Node::Host(site, args) => self.host(*site, args),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn index(&mut self, operand: &'a Node, index: &'a Node) -> Eval<Value<'a>> {
        let operand = self.eval(operand)?;
        let index = self.eval(index)?;
        self.charge(SELECT_COST)?;
        match operand {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => Ok(optional(ops::find(&value, &index)?)),
            operand => ops::index(&operand, &index),
        }
    }

    fn opt_index(&mut self, operand: &'a Node, index: &'a Node) -> Eval<Value<'a>> {
        let operand = self.eval(operand)?;
        let index = self.eval(index)?;
        self.charge(SELECT_COST)?;
        match operand {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => Ok(optional(ops::find(&value, &index)?)),
            operand => Ok(optional(ops::find(&operand, &index)?)),
        }
    }

    /// `&&` and `||`: a term that decides wins over errors on either side.
    fn logical(&mut self, terms: &'a [Node], decisive: bool) -> Eval<Value<'a>> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(b)) if b == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::no_overload())),
                Err(error) => failed = Some(absorb(failed, error)?),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn binary(&mut self, operator: Operator, left: &'a Node, right: &'a Node) -> Eval<Value<'a>> {
        let constant_list = operator == Operator::In
            && matches!(right, Node::Const(Value::List(list)) if list.len() <= FREE_LIST);
        // Both sides are evaluated before the error of the first counts, as cel-go does it.
        let left = self.eval(left);
        let right = match &left {
            Err(error) if error.kind() == EvalErrorKind::Budget => return left,
            _ => self.eval(right),
        };
        let (left, right) = match (left, right) {
            (Ok(left), Ok(right)) => (left, right),
            (Err(error), _) | (_, Err(error)) => {
                self.charge(1)?;
                return Err(error);
            }
        };
        // Membership in a constant list costs nothing for cel-go, which looks it up in a set.
        if !constant_list {
            self.charge(library::operator_cost(operator, &left, &right))?;
        }
        let left_type = left.type_of();
        match operator {
            Operator::Equal => ops::equal(&left, &right).map(Value::Bool),
            Operator::NotEqual => ops::equal(&left, &right).map(|equal| Value::Bool(!equal)),
            Operator::Less => ops::ordered(&left, &right, Ordering::is_lt),
            Operator::LessEqual => ops::ordered(&left, &right, Ordering::is_le),
            Operator::Greater => ops::ordered(&left, &right, Ordering::is_gt),
            Operator::GreaterEqual => ops::ordered(&left, &right, Ordering::is_ge),
            Operator::Add => ops::add(self, left, right),
            Operator::Subtract => ops::subtract(&left, &right),
            Operator::Multiply => ops::multiply(&left, &right),
            Operator::Divide => ops::divide(&left, &right),
            Operator::Modulo => ops::modulo(&left, &right),
            Operator::In => ops::contains(&left, &right).map(Value::Bool),
        }
        .map_err(
            |error| match error.is_no_overload() && !ops::takes(operator, &left_type) {
                true => format!("no such overload: {}", operator.name()).into(),
                false => error,
            },
        )
    }

    fn regex(&mut self, call: &'a RegexCall) -> Eval<Value<'a>> {
        let subject = self.eval(&call.subject)?;
        let Value::String(text) = &subject else {
            return Err(EvalError::no_overload());
        };
        let limit = call.limit.as_ref().map(|limit| self.eval(limit)).transpose()?;
        self.charge(match call.is_member {
            true => library::regex_cost(text.chars().count(), call.regex.as_str().len()),
            false => 1,
        })?;
        match call.kind {
            RegexKind::Matches => Ok(Value::Bool(call.regex.is_match(text))),
            RegexKind::Find => Ok(library::find(&call.regex, text)),
            RegexKind::FindAll => library::find_all(self, &call.regex, text, limit.as_ref()),
        }
    }

    fn call(&mut self, call: &'a Call) -> Eval<Value<'a>> {
        // No function of the libraries takes more.
        let mut buffer = [const { Value::Null }; 4];
        let n_args = call.args.len().min(buffer.len());
        for (slot, arg) in buffer.iter_mut().zip(&call.args) {
            *slot = self.eval(arg)?;
        }
        let args = &buffer[..n_args];
        self.charge(call.cost.before(args))?;
        let result = (call.function)(self, args).map_err(|error| named(error, &call.name, args))?;
        self.charge(call.cost.after(&result))?;
        Ok(result)
    }

    fn host(&mut self, site: usize, args: &'a [Node]) -> Eval<Value<'a>> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        self.charge(1)?;
        let site = &self.program.sites[site];
        match self.vars.host {
            Some(host) => host.call(site, &values),
            None => Err(format!("no such overload: {}", site.function).into()),
        }
    }

    fn list(&mut self, items: &'a [(bool, Node)]) -> Eval<Value<'a>> {
        self.charge(LIST_COST)?;
        let mut values = Vec::with_capacity(items.len());
        for (optional, item) in items {
            match (optional, self.eval(item)?) {
                (true, Value::Optional(value)) => values.extend(value.map(|v| (*v).clone())),
                (true, other) => {
                    let shown = library::show(&other);
                    let message =
                        format!("cannot initialize optional list element from non-optional value {shown}");
                    return Err(message.into());
                }
                (false, value) => values.push(value),
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [(bool, Node, Node)]) -> Eval<Value<'a>> {
        self.charge(MAP_COST)?;
        let mut map = BTreeMap::new();
        for (optional, key, value) in entries {
            let key = self.eval(key)?;
            let hash = Key::of(&key).ok_or("unsupported key type")?;
            match (optional, self.eval(value)?) {
                (true, Value::Optional(Some(value))) => {
                    map.insert(hash, (key, (*value).clone()));
                }
                (true, Value::Optional(None)) => {
                    map.remove(&hash);
                }
                (true, other) => {
                    let (key, shown) = (library::show(&key), library::show(&other));
                    let message =
                        format!("cannot initialize optional entry '{key}' from non-optional value {shown}");
                    return Err(message.into());
                }
                (false, value) => {
                    map.insert(hash, (key, value));
                }
            }
        }
        Ok(Value::map(map))
    }

    // ----- macros

    fn fold(&mut self, fold: &'a Fold) -> Eval<Value<'a>> {
        let before = self.cost;
        let range = self.eval(&fold.range)?;
        if matches!(fold.kind, FoldKind::OptMap | FoldKind::OptFlatMap) {
            let target = self.cost - before;
            return self.opt_map(fold, range, target);
        }
        let n_outer = self.locals.len();
        self.locals.resize(fold.slot + 2, Value::Null);
        let mut folder = Folder::new(fold.kind);
        let result = self
            .iterate(fold, &range, &mut folder)
            .and_then(|()| folder.finish(self, &range));
        self.locals.truncate(n_outer);
        result
    }

    /// `target` is what the optional cost: cel-go's expansion evaluates it twice.
    fn opt_map(&mut self, fold: &'a Fold, range: Value<'a>, target: u64) -> Eval<Value<'a>> {
        let value = match range {
            Value::Optional(Some(value)) => (*value).clone(),
            Value::Optional(None) => {
                self.charge(2)?;
                return Ok(Value::Optional(None));
            }
            _ => return Err(EvalError::no_overload()),
        };
        self.charge(2 + target + u64::from(fold.kind == FoldKind::OptMap))?;
        let n_outer = self.locals.len();
        self.locals.resize(fold.slot, Value::Null);
        self.locals.push(value);
        let result = self.eval(&fold.body);
        self.locals.truncate(n_outer);
        match fold.kind {
            FoldKind::OptMap => result.map(Value::some),
            _ => result,
        }
    }

    fn iterate(&mut self, fold: &'a Fold, range: &Value<'a>, folder: &mut Folder<'a>) -> Eval<()> {
        match range {
            Value::List(list) => {
                let n = list.len();
                for (i, item) in list.iter().enumerate() {
                    match fold.two_variables {
                        true => {
                            self.locals[fold.slot] = Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                            self.locals[fold.slot + 1] = item?;
                        }
                        false => self.locals[fold.slot] = item?,
                    }
                    if folder.step(self, fold)? {
                        return self.charge(if i + 1 < n { folder.pending } else { 0 });
                    }
                }
                Ok(())
            }
            Value::Map(map) => self.iterate_map(fold, map, folder),
            other => Err(format!("got '{}', expected iterable type", ops::go_type(other)).into()),
        }
    }

    fn iterate_map(&mut self, fold: &'a Fold, map: &Map<'a>, folder: &mut Folder<'a>) -> Eval<()> {
        let keys = map.keys();
        let n = keys.len();
        for (i, key) in keys.into_iter().enumerate() {
            if fold.two_variables {
                self.locals[fold.slot + 1] = map.find(&key)?.unwrap_or(Value::Null);
            }
            self.locals[fold.slot] = key;
            if folder.step(self, fold)? {
                return self.charge(if i + 1 < n { folder.pending } else { 0 });
            }
        }
        Ok(())
    }
}

/// Functions that check their arguments say which they are.
pub(crate) fn named(error: EvalError, function: &str, args: &[Value<'_>]) -> EvalError {
    if !error.is_no_overload() || matches!(function, "contains" | "startsWith" | "endsWith" | "-_") {
        return error;
    }
    if function == "size" {
        return format!("no such overload: {function}").into();
    }
    let types: Vec<String> = args.iter().map(|arg| arg.type_of().name().to_owned()).collect();
    format!("no such overload: {function}({})", types.join(", ")).into()
}

/// Remembers the first error that data caused; passes on what nothing absorbs.
fn absorb(first: Option<EvalError>, error: EvalError) -> Eval<EvalError> {
    match error.kind() {
        EvalErrorKind::Budget => Err(error),
        EvalErrorKind::Data | EvalErrorKind::Missing => Ok(first.unwrap_or(error)),
    }
}

fn optional(value: Option<Value<'_>>) -> Value<'_> {
    Value::Optional(value.map(std::sync::Arc::new))
}

fn select<'a>(operand: Value<'a>, field: &'a str) -> Eval<Value<'a>> {
    match operand {
        Value::Map(map) => map
            .find_str(field)?
            .ok_or_else(|| EvalError::missing(format!("no such key: {field}"))),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(_)) => opt_select(operand, field),
        Value::List(_) => Err("unsupported index type 'string' in list".into()),
        _ => Err(EvalError::missing(format!("no such key: {field}"))),
    }
}

fn opt_select<'a>(operand: Value<'a>, field: &'a str) -> Eval<Value<'a>> {
    match operand {
        Value::Map(map) => Ok(optional(map.find_str(field)?)),
        Value::Optional(Some(value)) => match &*value {
            Value::Map(map) => Ok(optional(map.find_str(field)?)),
            _ => Ok(Value::Optional(None)),
        },
        _ => Ok(Value::Optional(None)),
    }
}

fn has(operand: &Value<'_>, field: &str) -> Eval<bool> {
    match operand {
        Value::Map(map) => Ok(map.find_str(field)?.is_some()),
        Value::Optional(Some(value)) => has(value, field),
        _ => Ok(false),
    }
}

/// What a macro gathers while it iterates.
struct Folder<'a> {
    kind: FoldKind,
    failed: Option<EvalError>,
    decided: bool,
    n_found: u64,
    /// The cost of noticing that it is decided, due if elements are left.
    pending: u64,
    items: Vec<Value<'a>>,
    entries: BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>,
}

impl<'a> Folder<'a> {
    fn new(kind: FoldKind) -> Self {
        Folder {
            kind,
            failed: None,
            decided: false,
            n_found: 0,
            pending: 0,
            items: Vec::new(),
            entries: BTreeMap::new(),
        }
    }

    /// Takes one element; returns whether the rest does not matter.
    fn step(&mut self, ctx: &mut Ctx<'a, '_>, fold: &'a Fold) -> Eval<bool> {
        if let Some(filter) = &fold.filter
            && !is_true(&ctx.eval(filter)?)?
        {
            return Ok(false);
        }
        match self.kind {
            FoldKind::All | FoldKind::Exists => {
                let decisive = self.kind == FoldKind::Exists;
                ctx.charge(if decisive { 4 } else { 3 })?;
                match ctx.eval(&fold.body) {
                    Ok(Value::Bool(b)) if b == decisive => self.decided = true,
                    Ok(Value::Bool(_)) => {}
                    Ok(_) => self.failed = self.failed.take().or(Some(EvalError::no_overload())),
                    Err(error) => self.failed = Some(absorb(self.failed.take(), error)?),
                }
                if self.decided {
                    self.pending = if decisive { 3 } else { 2 };
                }
                return Ok(self.decided);
            }
            FoldKind::ExistsOne => {
                let found = is_true(&ctx.eval(&fold.body)?)?;
                ctx.charge(if found { 2 } else { 0 })?;
                self.n_found += u64::from(found);
            }
            FoldKind::Filter => {
                let found = is_true(&ctx.eval(&fold.body)?)?;
                ctx.charge(if found { 13 } else { 0 })?;
                if found {
                    self.items.push(ctx.locals[fold.slot].clone());
                }
            }
            FoldKind::List | FoldKind::SortBy => {
                let item = ctx.eval(&fold.body)?;
                ctx.charge(12)?;
                self.items.push(item);
            }
            FoldKind::TransformMap => {
                let value = ctx.eval(&fold.body)?;
                ctx.charge(3)?;
                self.insert(ctx.locals[fold.slot].clone(), value)?;
            }
            FoldKind::TransformMapEntry => {
                let Value::Map(map) = ctx.eval(&fold.body)? else {
                    return Err(EvalError::no_overload());
                };
                ctx.charge(2)?;
                for key in map.keys() {
                    let value = map.find(&key)?.unwrap_or(Value::Null);
                    self.insert(key, value)?;
                }
            }
            FoldKind::OptMap | FoldKind::OptFlatMap => unreachable!("not iterated"),
        }
        Ok(false)
    }

    fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Eval<()> {
        let hash = Key::of(&key).ok_or("unsupported key type")?;
        if self.entries.contains_key(&hash) {
            return Err(format!("insert failed: key {} already exists", library::show(&key)).into());
        }
        self.entries.insert(hash, (key, value));
        Ok(())
    }

    fn finish(self, ctx: &mut Ctx<'a, '_>, range: &Value<'a>) -> Eval<Value<'a>> {
        ctx.charge(match self.kind {
            FoldKind::ExistsOne => 2,
            FoldKind::SortBy => {
                let n = self.items.len() as u64;
                14 + 2 * n * n
            }
            _ => 1,
        })?;
        match self.kind {
            FoldKind::All | FoldKind::Exists => match (self.decided, self.failed) {
                (true, _) => Ok(Value::Bool(self.kind == FoldKind::Exists)),
                (false, Some(error)) => Err(error),
                (false, None) => Ok(Value::Bool(self.kind == FoldKind::All)),
            },
            FoldKind::ExistsOne => Ok(Value::Bool(self.n_found == 1)),
            FoldKind::Filter | FoldKind::List => {
                ctx.reserve(self.items.len() * size_of::<Value<'_>>())?;
                Ok(Value::list(self.items))
            }
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                ctx.reserve(self.entries.len() * size_of::<(Key<'_>, Value<'_>, Value<'_>)>())?;
                Ok(Value::map(self.entries))
            }
            FoldKind::SortBy => sort::by_keys(range, self.items),
            FoldKind::OptMap | FoldKind::OptFlatMap => unreachable!("not iterated"),
        }
    }
}

fn is_true(value: &Value<'_>) -> Eval<bool> {
    value.as_bool().ok_or_else(EvalError::no_overload)
}
