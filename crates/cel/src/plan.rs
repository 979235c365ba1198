//! Turns a checked syntax tree into what is evaluated: names resolved to slots, patterns compiled, constant
//! lists made once.

use crate::{
    ast::{Expr, FoldKind, Kind, Literal},
    check::{Checked, type_named},
    cost,
    env::Env,
    eval::named,
    library::{Builtin, CallCost, builtin, conversion},
    parser::Parsed,
    program::{Argument, CallSite, Program},
    regexes,
    source::{CompileError, locate, slice},
    value::{Key, Value},
};

/// A step of evaluation.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    Text(Box<str>),
    /// A variable of the environment.
    Var(usize),
    /// A variable of a macro, by its place in the stack.
    Local(usize),
    /// The operand of a selection that is no variable itself, which costs like one.
    Relative(Box<Node>),
    Select(Box<Node>, Box<str>),
    Has(Box<Node>, Box<str>),
    OptSelect(Box<Node>, Box<str>),
    Index(Box<(Node, Node)>),
    OptIndex(Box<(Node, Node)>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Not(Box<Node>),
    Condition(Box<[Node; 3]>),
    Binary(Operator, Box<(Node, Node)>),
    /// `orValue` and `or`: the second is evaluated only if the first has no value.
    OrValue(Box<(Node, Node)>),
    OrOptional(Box<(Node, Node)>),
    Regex(Box<RegexCall>),
    Call(Box<Call>),
    Host(usize, Box<[Node]>),
    List(Box<[(bool, Node)]>),
    Map(Box<[(bool, Node, Node)]>),
    Fold(Box<Fold>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    In,
}

impl Operator {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operator::Equal => "_==_",
            Operator::NotEqual => "_!=_",
            Operator::Less => "_<_",
            Operator::LessEqual => "_<=_",
            Operator::Greater => "_>_",
            Operator::GreaterEqual => "_>=_",
            Operator::Add => "_+_",
            Operator::Subtract => "_-_",
            Operator::Multiply => "_*_",
            Operator::Divide => "_/_",
            Operator::Modulo => "_%_",
            Operator::In => "@in",
        }
    }
}

/// A call of a library function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Box<str>,
    pub(crate) function: Builtin,
    pub(crate) cost: CallCost,
    pub(crate) args: Box<[Node]>,
}

/// A call whose pattern is constant.
#[derive(Debug)]
pub(crate) struct RegexCall {
    pub(crate) kind: RegexKind,
    pub(crate) subject: Node,
    pub(crate) regex: regex::Regex,
    /// Whether it is called on a string; the other way counts as one.
    pub(crate) is_member: bool,
    pub(crate) limit: Option<Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegexKind {
    Matches,
    Find,
    FindAll,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Node,
    /// Whether the range gives index and item, or key and value.
    pub(crate) two_variables: bool,
    /// Where the variables stand in the stack.
    pub(crate) slot: usize,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

/// Makes the program of a checked expression.
pub(crate) fn plan(
    env: &Env,
    source: &str,
    parsed: &Parsed,
    checked: &Checked,
) -> Result<Program, CompileError> {
    let root = &parsed.root;
    let mut planner = Planner {
        env,
        source,
        spans: &parsed.spans,
        scopes: Vec::new(),
        sites: Vec::new(),
        used: vec![false; env.variables().len()],
        failed: None,
    };
    let node = planner.expr(root);
    if let Some(message) = planner.failed {
        return Err(CompileError::program(source, message));
    }
    Ok(Program {
        env: env.clone(),
        node,
        result: checked.types[root.id as usize].clone(),
        sites: planner.sites,
        estimate: cost::estimate(env, root, checked),
        variables_used: planner.used,
    })
}

struct Planner<'e> {
    env: &'e Env,
    source: &'e str,
    spans: &'e [(u32, u32)],
    scopes: Vec<Box<str>>,
    sites: Vec<CallSite>,
    used: Vec<bool>,
    /// Why there can be no program.
    failed: Option<String>,
}

impl Planner<'_> {
    fn expr(&mut self, e: &Expr) -> Node {
        match &e.kind {
            Kind::Literal(literal) => constant(literal),
            Kind::Ident(name) => self.name(name).unwrap_or(Node::Const(Value::Null)),
            Kind::Select { operand, field } => {
                if let Some(node) = e.qualified_name().and_then(|name| self.name(&name)) {
                    return node;
                }
                Node::Select(self.operand(operand), field.clone())
            }
            Kind::Has { operand, field } => Node::Has(self.operand(operand), field.clone()),
            Kind::OptSelect { operand, field } => Node::OptSelect(self.operand(operand), field.clone()),
            Kind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args),
            Kind::List(items) => {
                let items = items.iter().map(|i| (i.optional, self.expr(&i.value)));
                constant_list(items.collect())
            }
            Kind::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|e| (e.optional, self.expr(&e.key), self.expr(&e.value)));
                constant_map(entries.collect())
            }
            Kind::Struct { .. } => Node::Const(Value::Null),
            Kind::Fold(fold) => {
                let range = self.expr(&fold.range);
                let slot = self.scopes.len();
                self.scopes.push(fold.var.clone());
                self.scopes.extend(fold.var2.clone());
                let filter = fold.filter.as_ref().map(|filter| self.expr(filter));
                let body = self.expr(&fold.body);
                self.scopes.truncate(slot);
                Node::Fold(Box::new(Fold {
                    kind: fold.kind,
                    range,
                    two_variables: fold.var2.is_some(),
                    slot,
                    filter,
                    body,
                }))
            }
        }
    }

    fn operand(&mut self, e: &Expr) -> Box<Node> {
        Box::new(relative(self.expr(e)))
    }

    fn name(&mut self, name: &str) -> Option<Node> {
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some(slot) = self.scopes.iter().rposition(|var| &**var == name)
        {
            return Some(Node::Local(slot));
        }
        let name = global.unwrap_or(name);
        if let Some((slot, _)) = self.env.variable(name) {
            self.used[slot] = true;
            return Some(Node::Var(slot));
        }
        Some(Node::Const(Value::Type(type_named(name)?)))
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Node {
        let qualified = target
            .and_then(Expr::qualified_name)
            .map(|name| format!("{name}.{function}"))
            .map(|name| name.trim_start_matches('.').to_owned())
            .filter(|name| builtin(name).is_some() || self.env.function(name).is_some());
        let (name, target) = match &qualified {
            Some(name) => (name.as_str(), None),
            None => (function.trim_start_matches('.'), target),
        };
        if target.is_none()
            && builtin(name).is_none()
            && let Some(host) = self.env.function(name)
        {
            return self.host(name, args, host.is_lazy);
        }
        let args: Vec<Node> = target.into_iter().chain(args).map(|arg| self.expr(arg)).collect();
        self.apply(name, target.is_some(), args)
    }

    fn host(&mut self, name: &str, args: &[Expr], is_lazy: bool) -> Node {
        let nodes = match is_lazy {
            true => Vec::new(),
            false => args.iter().map(|arg| self.expr(arg)).collect(),
        };
        let written = args.iter().map(|arg| {
            let span = self.spans[arg.id as usize];
            Argument {
                location: locate(self.source, span.0),
                text: slice(self.source, span).into(),
            }
        });
        let (index, args) = (self.sites.len(), written.collect());
        self.sites.push(CallSite {
            index,
            function: name.into(),
            args,
        });
        Node::Host(index, nodes.into())
    }

    fn apply(&mut self, name: &str, is_member: bool, args: Vec<Node>) -> Node {
        if let Some(operator) = operator(name) {
            return Node::Binary(operator, pair(args));
        }
        match name {
            "_&&_" => Node::And(args.into()),
            "_||_" => Node::Or(args.into()),
            "_[_]" => Node::Index(indexed(args)),
            "_[?_]" => Node::OptIndex(indexed(args)),
            "orValue" => Node::OrValue(pair(args)),
            "or" => Node::OrOptional(pair(args)),
            "!_" => Node::Not(Box::new(first(args))),
            "_?_:_" => match <[Node; 3]>::try_from(args) {
                Ok(args) => Node::Condition(Box::new(args)),
                Err(_) => Node::Const(Value::Null),
            },
            "matches" | "find" | "findAll" => self.regex(name, is_member, args),
            _ => self.library(name, args),
        }
    }

    fn library(&mut self, name: &str, args: Vec<Node>) -> Node {
        if let Some(constant) = self.converted(name, &args) {
            return constant;
        }
        let Some(function) = builtin(name) else {
            unreachable!("the checker knows every function that is called");
        };
        Node::Call(Box::new(Call {
            name: name.into(),
            function,
            cost: CallCost::of(name),
            args: args.into(),
        }))
    }

    /// A constant is converted once; one that cannot be is an error before any evaluation.
    fn converted(&mut self, name: &str, args: &[Node]) -> Option<Node> {
        let convert = conversion(name)?;
        let value = match args {
            [Node::Const(value)] => value.clone(),
            [Node::Text(text)] => Value::text(&**text),
            _ => return None,
        };
        match convert(&value) {
            Ok(Value::String(text)) => Some(Node::Text((&*text).into())),
            Ok(value) => Some(Node::Const(value)),
            Err(error) => {
                let error = named(error, name, &[value]).to_string();
                self.failed = self.failed.take().or(Some(error));
                Some(Node::Const(Value::Null))
            }
        }
    }

    /// A constant pattern is compiled once; one that cannot be is an error before any evaluation.
    fn regex(&mut self, name: &str, is_member: bool, args: Vec<Node>) -> Node {
        let Some(Node::Text(pattern)) = args.get(1) else {
            return self.library(name, args);
        };
        let regex = match regexes::compile(pattern) {
            Ok(regex) => regex,
            Err(message) => {
                self.failed = self.failed.take().or(Some(message));
                return Node::Const(Value::Null);
            }
        };
        let kind = match name {
            "matches" => RegexKind::Matches,
            "find" => RegexKind::Find,
            _ => RegexKind::FindAll,
        };
        let mut args = args.into_iter();
        let subject = args.next().unwrap_or(Node::Const(Value::Null));
        let limit = args.nth(1);
        Node::Regex(Box::new(RegexCall {
            kind,
            subject,
            regex,
            is_member,
            limit,
        }))
    }
}

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "_==_" => Operator::Equal,
        "_!=_" => Operator::NotEqual,
        "_<_" => Operator::Less,
        "_<=_" => Operator::LessEqual,
        "_>_" => Operator::Greater,
        "_>=_" => Operator::GreaterEqual,
        "_+_" => Operator::Add,
        "_-_" => Operator::Subtract,
        "_*_" => Operator::Multiply,
        "_/_" => Operator::Divide,
        "_%_" => Operator::Modulo,
        "@in" => Operator::In,
        _ => return None,
    })
}

/// A chain of selections costs one for what it starts with.
fn relative(operand: Node) -> Node {
    match operand {
        Node::Var(_)
        | Node::Local(_)
        | Node::Select(..)
        | Node::OptSelect(..)
        | Node::Index(_)
        | Node::OptIndex(_) => operand,
        other => Node::Relative(Box::new(other)),
    }
}

fn indexed(args: Vec<Node>) -> Box<(Node, Node)> {
    let (operand, index) = *pair(args);
    Box::new((relative(operand), index))
}

/// A map of constants is made once.
fn constant_map(entries: Vec<(bool, Node, Node)>) -> Node {
    let mut map = std::collections::BTreeMap::new();
    for (optional, key, value) in &entries {
        let (Some(key), Some(value), false) = (value_of(key), value_of(value), optional) else {
            return Node::Map(entries.into());
        };
        let Some(hash) = Key::of(&key) else {
            return Node::Map(entries.into());
        };
        map.insert(hash, (key, value));
    }
    Node::Const(Value::map(map))
}

fn value_of(node: &Node) -> Option<Value<'static>> {
    match node {
        Node::Const(value) => Some(value.clone()),
        Node::Text(text) => Some(Value::text(&**text)),
        _ => None,
    }
}

/// The two arguments that the checker saw.
fn pair(args: Vec<Node>) -> Box<(Node, Node)> {
    let mut args = args.into_iter();
    let mut next = || args.next().unwrap_or(Node::Const(Value::Null));
    Box::new((next(), next()))
}

fn first(args: Vec<Node>) -> Node {
    args.into_iter().next().unwrap_or(Node::Const(Value::Null))
}

fn constant(literal: &Literal) -> Node {
    Node::Const(match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(*i),
        Literal::Uint(u) => Value::Uint(*u),
        Literal::Double(d) => Value::Double(*d),
        Literal::String(text) => return Node::Text(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes((&**bytes).into()),
    })
}

/// A list of constants is made once.
fn constant_list(items: Vec<(bool, Node)>) -> Node {
    let constant = |(optional, node): &(bool, Node)| value_of(node).filter(|_| !optional);
    match items.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(values) => Node::Const(Value::list(values)),
        None => Node::List(items.into()),
    }
}
