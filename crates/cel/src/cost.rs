//! What an expression can cost, reckoned from the bounds of its schema before any evaluation.

use crate::{
    ast::{Expr, Fold, FoldKind, Kind, Literal},
    check::Checked,
    decl::{Decl, Shape},
    env::Env,
    types::Type,
};

/// The least and the most that an evaluation costs, in the units of cel-go.
///
/// Data without bounds is taken to fill a request of three mebibytes; where even that is not known, the most
/// is `u64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostEstimate {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

const UNKNOWN: u64 = u64::MAX;

impl CostEstimate {
    const fn exactly(cost: u64) -> CostEstimate {
        CostEstimate { min: cost, max: cost }
    }

    fn plus(self, other: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    fn times(self, n: Size) -> CostEstimate {
        CostEstimate {
            min: self.min.saturating_mul(n.min),
            max: self.max.saturating_mul(n.max),
        }
    }

    fn or(self, other: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// How many items, entries or bytes a value can have.
#[derive(Debug, Clone, Copy)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const ANY: Size = Size { min: 0, max: UNKNOWN };

    fn exactly(n: usize) -> Size {
        Size {
            min: n as u64,
            max: n as u64,
        }
    }

    fn plus(self, other: Size) -> Size {
        Size {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    /// The cost of reading it once.
    fn traversal(self) -> CostEstimate {
        CostEstimate {
            min: self.min.div_ceil(10),
            max: if self.max == UNKNOWN {
                UNKNOWN
            } else {
                self.max.div_ceil(10)
            },
        }
    }
}

/// What is known of a part of the expression.
#[derive(Debug, Clone, Copy)]
struct Part<'e> {
    cost: CostEstimate,
    size: Size,
    decl: Option<&'e Decl>,
}

impl Part<'_> {
    fn of(cost: CostEstimate) -> Part<'static> {
        Part {
            cost,
            size: Size::ANY,
            decl: None,
        }
    }
}

/// Reckons the cost of a checked expression.
pub(crate) fn estimate(env: &Env, root: &Expr, checked: &Checked) -> CostEstimate {
    let mut estimator = Estimator {
        env,
        checked,
        scopes: Vec::new(),
    };
    estimator.part(root).cost
}

struct Estimator<'e> {
    env: &'e Env,
    checked: &'e Checked,
    scopes: Vec<(&'e str, Part<'e>)>,
}

impl<'e> Estimator<'e> {
    fn part(&mut self, e: &'e Expr) -> Part<'e> {
        match &e.kind {
            Kind::Literal(literal) => Part {
                cost: CostEstimate::default(),
                size: literal_size(literal),
                decl: None,
            },
            Kind::Ident(name) => self.name(name),
            Kind::Select { operand, field } | Kind::OptSelect { operand, field } => {
                if let Some(name) = e.qualified_name()
                    && self.env.variable(&name).is_some()
                {
                    return Part::of(CostEstimate::exactly(1));
                }
                let operand = self.part(operand);
                let decl = operand.decl.and_then(|decl| field_of(decl, field));
                self.selected(operand.cost, decl)
            }
            Kind::Has { operand, .. } => Part::of(self.part(operand).cost),
            Kind::Call {
                function,
                target,
                args,
            } => self.call(e, function, target.as_deref(), args),
            Kind::List(items) => {
                let mut cost = CostEstimate::exactly(10);
                for item in items {
                    cost = cost.plus(self.part(&item.value).cost);
                }
                Part {
                    cost,
                    size: Size::exactly(items.len()),
                    decl: None,
                }
            }
            Kind::Map(entries) => {
                let mut cost = CostEstimate::exactly(30);
                for entry in entries {
                    let both = self.part(&entry.key).cost.plus(self.part(&entry.value).cost);
                    cost = cost.plus(both);
                }
                Part {
                    cost,
                    size: Size::exactly(entries.len()),
                    decl: None,
                }
            }
            Kind::Struct { .. } => Part::of(CostEstimate::exactly(40)),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn selected(&self, before: CostEstimate, decl: Option<&'e Decl>) -> Part<'e> {
        let max = decl.and_then(|decl| decl.max_elements).unwrap_or(UNKNOWN);
        Part {
            cost: before.plus(CostEstimate::exactly(1)),
            size: Size { min: 0, max },
            decl,
        }
    }

    fn name(&self, name: &str) -> Part<'e> {
        if let Some((_, part)) = self.scopes.iter().rev().find(|(var, _)| *var == name) {
            return Part {
                cost: CostEstimate::exactly(1),
                ..*part
            };
        }
        let decl = self
            .env
            .variable(name.trim_start_matches('.'))
            .map(|(_, v)| &v.decl);
        self.selected(CostEstimate::default(), decl)
    }

    fn call(&mut self, e: &'e Expr, function: &str, target: Option<&'e Expr>, args: &'e [Expr]) -> Part<'e> {
        let parts: Vec<Part<'e>> = target
            .filter(|t| !is_namespace(t))
            .into_iter()
            .chain(args)
            .map(|arg| self.part(arg))
            .collect();
        let sum = |parts: &[Part<'e>]| {
            let add = |sum: CostEstimate, part: &Part<'e>| sum.plus(part.cost);
            parts.iter().fold(CostEstimate::default(), add)
        };
        match function {
            "_&&_" | "_||_" => {
                // Only the first term is sure to be evaluated.
                let all = sum(&parts);
                let min = parts.first().map_or(0, |part| part.cost.min);
                Part::of(CostEstimate { min, max: all.max })
            }
            "_?_:_" => Part {
                cost: parts[0].cost.plus(parts[1].cost.or(parts[2].cost)),
                size: Size {
                    min: parts[1].size.min.min(parts[2].size.min),
                    max: parts[1].size.max.max(parts[2].size.max),
                },
                decl: parts[1].decl,
            },
            "_[_]" | "_[?_]" => {
                let decl = parts[0].decl.and_then(item_of);
                self.selected(sum(&parts), decl)
            }
            _ => {
                let own = self.own_cost(e, function, &parts);
                Part {
                    cost: sum(&parts).plus(own.cost),
                    ..own
                }
            }
        }
    }

    /// The cost of a call itself, and the size of its result.
    fn own_cost(&self, e: &Expr, function: &str, parts: &[Part<'e>]) -> Part<'e> {
        let size = |at: usize| parts.get(at).map_or(Size::ANY, |part| part.size);
        let one = CostEstimate::exactly(1);
        let made = |cost: CostEstimate, size: Size| Part {
            cost,
            size,
            decl: None,
        };
        match function {
            "_==_" | "_!=_" => match parts.iter().any(|p| p.size.max != UNKNOWN) {
                true => {
                    let smaller = Size {
                        min: size(0).min.min(size(1).min),
                        max: size(0).max.min(size(1).max),
                    };
                    Part::of(at_least_one(smaller.traversal()))
                }
                false => Part::of(one),
            },
            "_+_" if is_text(&self.checked.types[e.id as usize]) => {
                let total = size(0).plus(size(1));
                made(total.traversal(), total)
            }
            "_+_" => made(one, size(0).plus(size(1))),
            "@in" => Part::of(at_least_one(one.times(size(1)))),
            "matches" | "find" | "findAll" => {
                let text = size(0).plus(Size::exactly(1)).traversal();
                let pattern = size(1).max.div_ceil(4).max(1);
                made(
                    text.times(Size {
                        min: pattern,
                        max: pattern,
                    }),
                    size(0),
                )
            }
            "contains" => {
                let inner = size(1).traversal();
                let inner = Size {
                    min: inner.min,
                    max: inner.max,
                };
                Part::of(at_least_one(size(0).traversal().times(inner)))
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                Part::of(at_least_one(one.times(size(0))))
            }
            "replace" | "split" | "join" => {
                let two = Size::exactly(2);
                made(size(0).traversal().times(two), Size::ANY)
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" | "url" | "startsWith" | "endsWith"
            | "bytes" | "string" | "quantity" | "isQuantity" | "semver" | "isSemver" | "ip" | "cidr"
            | "isIP" | "isCIDR" => made(at_least_one(size(0).traversal()), size(0)),
            "validate" => Part::of(size(1).traversal().times(Size::exactly(32))),
            "distinct" | "sort" | "@sortByAssociatedKeys" => {
                let square = one.times(size(0)).times(size(0));
                made(square, size(0))
            }
            "sets.contains" | "sets.equivalent" | "sets.intersects" => {
                Part::of(one.times(size(0)).times(size(1)))
            }
            _ => Part::of(one),
        }
    }

    fn fold(&mut self, fold: &'e Fold) -> Part<'e> {
        let range = self.part(&fold.range);
        let (key, item) = match range.decl.map(|decl| &decl.shape) {
            Some(Shape::List(list)) => (None, Some(&list.item)),
            Some(Shape::Map(value)) => (None, Some(&**value)),
            _ => (range.decl.filter(|_| false), None),
        };
        let of = |decl: Option<&'e Decl>| Part {
            cost: CostEstimate::default(),
            size: Size {
                min: 0,
                max: decl.and_then(|d| d.max_elements).unwrap_or(UNKNOWN),
            },
            decl,
        };
        let over_map = matches!(range.decl.map(|d| &d.shape), Some(Shape::Map(_)));
        let n_outer = self.scopes.len();
        match (&fold.var2, over_map) {
            (Some(var2), _) => {
                self.scopes.push((&fold.var, of(key)));
                self.scopes.push((var2, of(item)));
            }
            (None, true) => self.scopes.push((&fold.var, of(key))),
            (None, false) => self.scopes.push((&fold.var, of(item))),
        }
        let mut body = self.part(&fold.body).cost;
        if let Some(filter) = &fold.filter {
            body = body.plus(self.part(filter).cost);
        }
        self.scopes.truncate(n_outer);
        let step = match fold.kind {
            FoldKind::All => 3,
            FoldKind::Exists => 4,
            FoldKind::ExistsOne => 2,
            FoldKind::OptMap | FoldKind::OptFlatMap => {
                let cost = range.cost.plus(CostEstimate { min: 0, ..body });
                return Part::of(cost.plus(CostEstimate::exactly(2)));
            }
            _ => 13,
        };
        let steps = body.plus(CostEstimate::exactly(step)).times(range.size);
        Part {
            cost: range.cost.plus(steps).plus(CostEstimate::exactly(1)),
            size: Size {
                min: 0,
                max: range.size.max,
            },
            decl: range.decl.filter(|_| fold.kind == FoldKind::Filter && !over_map),
        }
    }
}

fn at_least_one(cost: CostEstimate) -> CostEstimate {
    CostEstimate {
        min: cost.min.max(1),
        max: cost.max.max(1),
    }
}

/// Whether it is the first part of a function's name, such as `sets` in `sets.contains`.
fn is_namespace(target: &Expr) -> bool {
    let Some(name) = target.qualified_name() else {
        return false;
    };
    ["sets", "lists", "strings", "optional", "format", "ip"].contains(&name.as_str())
}

fn is_text(t: &Type) -> bool {
    matches!(t, Type::String | Type::Bytes | Type::Dyn)
}

fn literal_size(literal: &Literal) -> Size {
    match literal {
        Literal::String(text) => Size::exactly(text.len()),
        Literal::Bytes(bytes) => Size::exactly(bytes.len()),
        _ => Size::exactly(1),
    }
}

fn field_of<'e>(decl: &'e Decl, field: &str) -> Option<&'e Decl> {
    match &decl.shape {
        Shape::Object(object) => object.field(field).map(|field| &field.decl),
        Shape::Map(value) => Some(value),
        _ => None,
    }
}

fn item_of(decl: &Decl) -> Option<&Decl> {
    match &decl.shape {
        Shape::List(list) => Some(&list.item),
        Shape::Map(value) => Some(value),
        _ => None,
    }
}
