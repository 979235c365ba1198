//! Walks an expression and reckons what each part costs and how large its value can be.

use crate::{
    ast::{Entry, Expr, Item, Kind, Literal},
    check::{Checked, type_named},
    env::Env,
    functions::{Overload, overloads},
    types::Type,
};

use super::amount::{CostEstimate, Size};
use super::call::{self, Call, Element};
use super::path::{Path, Paths, Step};

/// What is known of a part of the expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'e> {
    pub(super) cost: CostEstimate,
    /// Nothing if the expression does not tell: see [`Walk::settled`].
    pub(super) size: Option<Size>,
    /// What was known when it was bound to a variable.
    pub(super) bound: Option<Size>,
    /// The sizes of what a list or map consists of.
    pub(super) inner: Option<Inner>,
    pub(super) path: Path,
    pub(super) t: &'e Type,
    /// The value of a whole number that is written in the expression.
    pub(super) number: Option<i64>,
}

/// What a list or map that the expression itself makes consists of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inner {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

static ANY: Type = Type::Dyn;

impl<'e> Part<'e> {
    /// Something that comes from no variable.
    pub(super) fn made(cost: CostEstimate, size: Option<Size>) -> Part<'e> {
        Part {
            cost,
            size,
            bound: None,
            inner: None,
            path: Path::default(),
            t: &ANY,
            number: None,
        }
    }

    pub(super) fn size_or_any(&self) -> Size {
        self.size.unwrap_or(Size::ANY)
    }

    /// What naming it costs, once it is bound to a variable.
    pub(super) fn named(self) -> Part<'e> {
        Part {
            cost: CostEstimate::ONE,
            size: None,
            bound: self.size,
            number: None,
            ..self
        }
    }
}

impl Inner {
    pub(super) fn or(self, other: Inner) -> Inner {
        Inner {
            is_list: self.is_list,
            key: self.key.or(other.key),
            value: self.value.or(other.value),
        }
    }
}

/// One of both, if both are known.
pub(super) fn either(one: Option<Inner>, other: Option<Inner>) -> Option<Inner> {
    one.zip(other).map(|(one, other)| one.or(other))
}

pub(super) struct Walk<'e> {
    env: &'e Env,
    checked: &'e Checked,
    pub(super) paths: Paths<'e>,
    /// The variables of macros, innermost last.
    pub(super) scopes: Vec<(&'e str, Part<'e>)>,
}

impl<'e> Walk<'e> {
    pub(super) fn new(env: &'e Env, checked: &'e Checked) -> Walk<'e> {
        let root = env.variable("self").map(|(_, variable)| &variable.decl);
        Walk {
            env,
            checked,
            paths: Paths::new(root),
            scopes: Vec::new(),
        }
    }

    pub(super) fn type_of(&self, e: &Expr) -> &'e Type {
        &self.checked.types[e.id as usize]
    }

    pub(super) fn part(&mut self, e: &'e Expr) -> Part<'e> {
        let part = match &e.kind {
            Kind::Literal(literal) => Part {
                number: match literal {
                    Literal::Int(n) => Some(*n),
                    _ => None,
                },
                ..Part::made(CostEstimate::default(), Some(literal_size(literal)))
            },
            Kind::Ident(name) => self.name(name),
            Kind::Select { operand, field } => match e.qualified_name() {
                Some(name) if self.is_global(&name) => self.global(&name),
                _ => self.select(operand, field),
            },
            // Presence is tested for nothing.
            Kind::Has { operand, .. } => Part::made(self.part(operand).cost, None),
            Kind::OptSelect { operand, .. } => {
                Part::made(self.part(operand).cost.plus(CostEstimate::ONE), None)
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(e, function, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { values, .. } => {
                let parts = values.iter().map(|value| self.part(value).cost);
                let cost = parts.fold(CostEstimate::exactly(40), CostEstimate::plus);
                Part::made(cost, None)
            }
            Kind::Fold(fold) => self.fold(e, fold),
        };
        Part {
            t: self.type_of(e),
            ..part
        }
    }

    /// What is known of the size of a part at this moment: ways change as others are lengthened.
    pub(super) fn settled(&self, part: Part<'e>) -> Part<'e> {
        let declared = || self.paths.size(part.path);
        let of_type = || scalar_size(part.t);
        Part {
            size: part.size.or_else(declared).or_else(of_type).or(part.bound),
            ..part
        }
    }

    pub(super) fn settled_part(&mut self, e: &'e Expr) -> Part<'e> {
        let part = self.part(e);
        self.settled(part)
    }

    pub(super) fn name(&mut self, name: &str) -> Part<'e> {
        let bound = self.scopes.iter().rev().find(|(var, _)| *var == name);
        match bound {
            Some((_, part)) => part.named(),
            None => self.global(name),
        }
    }

    fn is_global(&self, name: &str) -> bool {
        self.env.variable(name).is_some() || type_named(name).is_some()
    }

    fn global(&mut self, name: &str) -> Part<'e> {
        let variable = self.env.variable(name.trim_start_matches('.'));
        let decl = variable.map(|(_, variable)| &variable.decl);
        Part {
            path: self.paths.append(Path::default(), Step::Variable(decl)),
            ..Part::made(CostEstimate::ONE, None)
        }
    }

    fn select(&mut self, operand: &'e Expr, field: &'e str) -> Part<'e> {
        let operand = self.part(operand);
        let cost = match operand.t {
            Type::Map(_) | Type::Object(_) => operand.cost.plus(CostEstimate::ONE),
            // What is selected from anything else is not counted.
            _ => operand.cost,
        };
        Part {
            path: self.paths.append(operand.path, Step::Field(field)),
            ..Part::made(cost, None)
        }
    }

    fn list(&mut self, items: &'e [Item]) -> Part<'e> {
        let mut cost = CostEstimate::exactly(10);
        let mut value = none_of(items.len());
        for item in items {
            let part = self.settled_part(&item.value);
            cost = cost.plus(part.cost);
            value = value.or(part.size_or_any());
        }
        Part {
            inner: Some(Inner {
                is_list: true,
                key: Size::ONE,
                value,
            }),
            ..Part::made(cost, Some(Size::exactly(items.len() as u64)))
        }
    }

    fn map(&mut self, entries: &'e [Entry]) -> Part<'e> {
        let mut cost = CostEstimate::exactly(30);
        let (mut key, mut value) = (none_of(entries.len()), none_of(entries.len()));
        for entry in entries {
            let (k, v) = (self.settled_part(&entry.key), self.settled_part(&entry.value));
            cost = cost.plus(k.cost).plus(v.cost);
            key = key.or(k.size_or_any());
            value = value.or(v.size_or_any());
        }
        Part {
            inner: Some(Inner {
                is_list: false,
                key,
                value,
            }),
            ..Part::made(cost, Some(Size::exactly(entries.len() as u64)))
        }
    }

    fn call(&mut self, e: &'e Expr, function: &str, target: Option<&'e Expr>, args: &'e [Expr]) -> Part<'e> {
        let qualified = target
            .and_then(Expr::qualified_name)
            .map(|namespace| format!("{namespace}.{function}"))
            .filter(|name| self.overloads(name).is_some());
        let (function, target) = match &qualified {
            Some(name) => (name.as_str(), None),
            None => (function, target),
        };
        let function = function.trim_start_matches('.');
        // In this order, as ways that are made later can change those before.
        let args: Vec<Part<'e>> = args.iter().map(|arg| self.settled_part(arg)).collect();
        let target = target.map(|target| self.settled_part(target));
        let call = Call {
            function,
            target,
            element: target.and_then(|target| self.element(&target)),
            indexed: self.indexed(function, &args),
            args: &args,
            t: self.type_of(e),
        };
        call::reckon(&call, self.overloads(function).unwrap_or_default())
    }

    /// The type and size of the elements of a list; nothing if it is none.
    pub(super) fn element(&self, list: &Part<'e>) -> Option<Element<'e>> {
        let t = match list.t {
            Type::List(item) | Type::Optional(item) => &**item,
            Type::Map(types) => &types.0,
            _ => return None,
        };
        let size = self.paths.element_size(list.path).unwrap_or(Size::ANY);
        Some(Element { t, size })
    }

    /// The element that an index chooses.
    fn indexed(&mut self, function: &str, args: &[Part<'e>]) -> Option<Part<'e>> {
        let ("_[_]", [of, _]) = (function, args) else {
            return None;
        };
        if let Type::Optional(_) = of.t {
            return None;
        }
        let path = self.paths.append(of.path, Step::Element);
        let known = of.inner.map(|inner| inner.value);
        Some(Part {
            path,
            ..Part::made(CostEstimate::default(), known.or_else(|| self.paths.size(path)))
        })
    }

    fn overloads(&self, name: &str) -> Option<&'e [Overload]> {
        let name = name.trim_start_matches('.');
        overloads(name).or_else(|| self.env.function(name).map(|host| &host.overload[..]))
    }
}

/// To begin with: an empty list has items of no size.
fn none_of(n: usize) -> Size {
    match n {
        0 => Size::exactly(0),
        _ => Size::NONE,
    }
}

fn literal_size(literal: &Literal) -> Size {
    match literal {
        Literal::String(text) => Size::exactly(text.chars().count() as u64),
        Literal::Bytes(bytes) => Size::exactly(bytes.len() as u64),
        _ => Size::ONE,
    }
}

/// Of types whose values are all of one size.
pub(super) fn scalar_size(t: &Type) -> Option<Size> {
    match t {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Duration | Type::Timestamp => {
            Some(Size::ONE)
        }
        Type::Optional(inner) => scalar_size(inner),
        _ => None,
    }
}
