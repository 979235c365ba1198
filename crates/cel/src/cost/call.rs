//! What functions cost, by the sizes of what they are called with.

use crate::{functions::Overload, types::Type};

use super::amount::{CostEstimate, PATTERN, Size};
use super::path::Path;
use super::walk::{Part, either, scalar_size};

/// How long the patterns of named formats are taken to be.
const FORMAT_PATTERN: f64 = 128.0;

/// How long the name of a format is at most.
const FORMAT_NAME: u64 = 64;

/// A call with what is known of its arguments.
pub(super) struct Call<'c, 'e> {
    pub(super) function: &'c str,
    pub(super) target: Option<Part<'e>>,
    pub(super) args: &'c [Part<'e>],
    /// The type of the result.
    pub(super) t: &'e Type,
    /// What the target consists of, if it is a list.
    pub(super) element: Option<Element<'e>>,
    /// The element that it chooses, if it is an index.
    pub(super) indexed: Option<Part<'e>>,
}

/// What a list consists of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'e> {
    pub(super) t: &'e Type,
    pub(super) size: Size,
}

/// What a call costs itself, without its arguments, and how large its result is.
#[derive(Debug, Clone, Copy)]
struct Own {
    cost: CostEstimate,
    size: Option<Size>,
}

impl Own {
    fn cost(cost: CostEstimate) -> Own {
        Own { cost, size: None }
    }

    fn sized(cost: CostEstimate, size: Size) -> Own {
        Own {
            cost,
            size: Some(size),
        }
    }

    /// A list that is made for the result.
    fn list(factor: f64, size: Size) -> Own {
        Own::sized(size.scaled(factor).plus(CostEstimate::exactly(11)), size)
    }
}

/// Reckons a call by all overloads that its arguments fit.
pub(super) fn reckon<'e>(call: &Call<'_, 'e>, overloads: &[Overload]) -> Part<'e> {
    match (call.function, call.args) {
        ("_&&_" | "_||_", args) => return combine(args),
        ("_?_:_", [condition, then, other]) => return choose(condition, then, other),
        ("dyn", [arg]) => {
            return Part {
                path: Path::default(),
                number: None,
                cost: arg.cost.plus(CostEstimate::ONE),
                ..*arg
            };
        }
        _ => {}
    }
    let types = || call.target.iter().chain(call.args).map(|part| part.t);
    let fitting: Vec<&Overload> = overloads
        .iter()
        .filter(|overload| overload.is_member == call.target.is_some())
        .filter(|overload| overload.args.len() == types().count())
        .filter(|overload| types().zip(&overload.args).all(|(t, arg)| may_be(t, arg)))
        .collect();
    reckon_fitting(call, &fitting)
}

/// Reckons a call that may be one of these overloads when it is evaluated.
pub(super) fn reckon_fitting<'e>(call: &Call<'_, 'e>, overloads: &[&Overload]) -> Part<'e> {
    let before = call
        .target
        .iter()
        .chain(call.args)
        .fold(CostEstimate::default(), |sum, part| sum.plus(part.cost));
    let mut result = Part::made(
        CostEstimate {
            min: u64::MAX,
            max: 0,
        },
        None,
    );
    for overload in overloads {
        let own = call.own(overload);
        result.cost = result.cost.or(own.cost.plus(before));
        result.size = match (result.size, own.size) {
            (Some(one), Some(other)) => Some(one.or(other)),
            (one, other) => one.or(other),
        };
        call.concatenated(overload, &mut result);
        if let (Some(element), Some(Type::List(_) | Type::Map(_))) = (call.indexed, overload.args.first()) {
            (result.path, result.size) = (element.path, element.size);
        }
        result.size = result.size.or_else(|| scalar_size(call.t));
    }
    match overloads.is_empty() {
        true => Part::made(before.plus(CostEstimate::ONE), None),
        false => result,
    }
}

/// `a && b` or `a || b`: only the first term is sure to be evaluated.
pub(super) fn combine<'e>(terms: &[Part<'e>]) -> Part<'e> {
    let all = terms
        .iter()
        .fold(CostEstimate::default(), |sum, term| sum.plus(term.cost));
    let min = terms.first().map_or(0, |first| first.cost.min);
    Part::made(CostEstimate { min, ..all }, Some(Size::ONE))
}

/// `condition ? then : other`
pub(super) fn choose<'e>(condition: &Part<'e>, then: &Part<'e>, other: &Part<'e>) -> Part<'e> {
    let size = then.size_or_any().or(other.size_or_any());
    Part {
        inner: either(then.inner, other.inner),
        ..Part::made(condition.cost.plus(then.cost.or(other.cost)), Some(size))
    }
}

/// `one + other`
pub(super) fn add_lists<'e>(one: &Part<'e>, other: &Part<'e>) -> Part<'e> {
    let size = one.size_or_any().plus(other.size_or_any());
    let cost = CostEstimate::ONE.plus(one.cost).plus(other.cost);
    Part {
        inner: either(one.inner, other.inner),
        ..Part::made(cost, Some(size))
    }
}

/// Whether a value of a type, as far as it is known, can be passed for an argument.
pub(super) fn may_be(found: &Type, declared: &Type) -> bool {
    match (found, declared) {
        (Type::Dyn | Type::Error | Type::Param(_) | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => may_be(a, b),
        (Type::Map(a), Type::Map(b)) => may_be(&a.0, &b.0) && may_be(&a.1, &b.1),
        (Type::Opaque(a), Type::Opaque(b)) => a == b,
        _ => std::mem::discriminant(found) == std::mem::discriminant(declared),
    }
}

impl<'e> Call<'_, 'e> {
    fn arg(&self, at: usize) -> Size {
        self.args.get(at).map_or(Size::ANY, Part::size_or_any)
    }

    /// A whole number that is written in the expression, not less than zero.
    fn number(&self, at: usize, otherwise: u64) -> u64 {
        let written = self.args.get(at).and_then(|arg| arg.number);
        written.map_or(otherwise, |n| u64::try_from(n).unwrap_or(0))
    }

    fn own(&self, overload: &Overload) -> Own {
        let found = match &self.target {
            Some(target) => self
                .member(target, overload)
                .or_else(|| self.list_member(target, overload)),
            None => self.global(overload),
        };
        found.unwrap_or_else(|| Own::cost(CostEstimate::ONE))
    }

    /// A function of text, an address or a format.
    fn member(&self, target: &Part<'e>, overload: &Overload) -> Option<Own> {
        let size = target.size_or_any();
        Some(match self.function {
            "lowerAscii" | "upperAscii" | "substring" | "trim" => Own::sized(size.traversal(), size),
            "replace" => Own::sized(size.scaled(0.2), self.replaced(size)),
            "split" => {
                #[expect(clippy::cast_sign_loss, reason = "as kube-apiserver reckons")]
                let max = self
                    .args
                    .get(1)
                    .and_then(|arg| arg.number)
                    .map_or(size.max, |n| n as u64);
                Own::sized(size.scaled(0.2), Size { min: 0, max })
            }
            "find" | "findAll" => Own::sized(self.matching(size), Size { min: 0, ..size }),
            "matches" => Own::cost(self.matching(size)),
            "contains" => Own::cost(size.traversal().times(self.arg(0).traversal())),
            "startsWith" | "endsWith" => Own::cost(self.arg(0).traversal()),
            "format" => Own::cost(size.traversal()),
            "containsIP" | "containsCIDR" => self.contains_addresses(overload),
            "validate" => Own::cost(self.arg(0).traversal().scaled(FORMAT_PATTERN * PATTERN)),
            _ => return None,
        })
    }

    /// A function of a list, or of text where it has the name of one.
    fn list_member(&self, target: &Part<'e>, overload: &Overload) -> Option<Own> {
        let size = target.size_or_any();
        Some(match self.function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match self.element {
                Some(Element { t, size: element }) => {
                    let compared = match t {
                        Type::String | Type::Bytes => element.traversal().plus(CostEstimate::ONE),
                        _ => CostEstimate::ONE,
                    };
                    Own::cost(size.each(compared))
                }
                None => Own::cost(size.traversal()),
            },
            "join" => self.joined(target),
            "slice" => {
                let end = self.number(1, size.max);
                Own::list(1.0, Size::exactly(end.wrapping_sub(self.number(0, 0))))
            }
            #[expect(clippy::cast_precision_loss, reason = "as kube-apiserver reckons")]
            "flatten" => {
                let depth = if self.args.is_empty() {
                    1
                } else {
                    self.number(0, u64::MAX)
                };
                Own::list(depth as f64, size)
            }
            "reverse" => Own::list(1.0, size),
            "distinct" => Own::list(2.0, size.times(size)),
            "sort" => sorted(size, &overload.args[0]),
            "@sortByAssociatedKeys" => sorted(self.arg(0), &overload.args[1]),
            _ => return None,
        })
    }

    fn global(&self, overload: &Overload) -> Option<Own> {
        let size = self.arg(0);
        Some(match self.function {
            "url" => Own::sized(size.traversal(), size),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Own::cost(size.traversal())
            }
            "ip.isCanonical" => Own::cost(size.scaled(0.2)),
            "strings.quote" => {
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                let min = size.min.wrapping_add(2);
                Own::sized(size.traversal(), Size { min, max })
            }
            "bytes" if matches!(overload.args[0], Type::String) => {
                let max = size.max.wrapping_mul(4);
                Own::sized(size.traversal(), Size { max, ..size })
            }
            "string" if matches!(overload.args[0], Type::Bytes) => {
                let min = size.min / 4;
                Own::sized(size.traversal(), Size { min, ..size })
            }
            "sets.contains" | "sets.intersects" => Own::cost(self.pairs(1.0)),
            "sets.equivalent" => Own::cost(self.pairs(2.0)),
            "lists.range" => Own::list(1.0, Size::exactly(self.number(0, u64::MAX))),
            "@in" if matches!(overload.args[1], Type::List(_)) => Own::cost(self.arg(1).scaled(1.0)),
            "_+_" => {
                let size = size.plus(self.arg(1));
                match &overload.args[0] {
                    Type::String | Type::Bytes => Own::sized(size.traversal(), size),
                    Type::List(_) => Own::sized(CostEstimate::ONE, size),
                    _ => return None,
                }
            }
            "_<_" | "_<=_" | "_>_" | "_>=_" => match &overload.args[0] {
                Type::String | Type::Bytes => self.compared(),
                _ => return None,
            },
            "_==_" => self.compared_opaque().unwrap_or_else(|| self.compared()),
            "_!=_" => self.compared(),
            _ => return None,
        })
    }

    /// By the smaller of both: what is longer is different.
    fn compared(&self) -> Own {
        let max = self.arg(0).max.min(self.arg(1).max);
        Own::cost(Size { min: max.min(1), max }.traversal())
    }

    /// Values of the libraries, most of which are compared at once.
    fn compared_opaque(&self) -> Option<Own> {
        let [one, other] = self.args else { return None };
        let (Type::Opaque(name), Type::Opaque(same)) = (one.t, other.t) else {
            return None;
        };
        let max = match *name {
            _ if name != same => return None,
            "kubernetes.NamedFormat" => FORMAT_NAME,
            "kubernetes.URL" => other.size.map_or(1, |size| size.max),
            _ => return Some(Own::cost(CostEstimate::ONE)),
        };
        Some(Own::cost(Size { min: 1, max }.traversal()))
    }

    fn pairs(&self, factor: f64) -> CostEstimate {
        let pairs = self.arg(0).times(self.arg(1));
        pairs.scaled(factor).plus(CostEstimate::ONE)
    }

    /// Every character by every part of the pattern. One more, since an empty text costs too.
    fn matching(&self, text: Size) -> CostEstimate {
        let text = text.plus(Size::ONE).traversal();
        text.times(self.arg(0).scaled(PATTERN))
    }

    /// Addresses are compared as bytes; text has to be read first.
    fn contains_addresses(&self, overload: &Overload) -> Own {
        let address = Size { min: 4, max: 16 };
        let mut cost = address.plus(address).traversal();
        if self.function == "containsCIDR" {
            cost = cost.plus(address.traversal()).plus(CostEstimate::ONE);
        }
        if matches!(overload.args[1], Type::String) {
            cost = cost.plus(self.arg(0).traversal());
        }
        Own::cost(cost)
    }

    fn joined(&self, list: &Part<'e>) -> Own {
        let n = list.size_or_any();
        let mut size = match self.element {
            Some(element) => n.times(element.size),
            None => Size::exactly(0),
        };
        if !self.args.is_empty() {
            let n_between = Size {
                min: n.min.saturating_sub(1),
                max: n.max.saturating_sub(1),
            };
            size = size.plus(self.arg(0).times(n_between));
        }
        Own::sized(size.traversal(), size)
    }

    /// The size of a text in which something was replaced.
    fn replaced(&self, text: Size) -> Size {
        let (from, to) = (self.arg(0), self.arg(1));
        let longest = match () {
            // An empty text is found between all characters.
            () if from.min == 0 => times(text.max.saturating_add(1), to.max, text.max),
            () if to.max <= from.min => times(0, to.max, text.max),
            () => times(text.max.div_ceil(from.min), to.max, 0),
        };
        let shortest = match () {
            () if from.max == 0 => times(text.min.saturating_add(1), to.min, text.min),
            () if from.max <= to.min => times(0, to.min, text.min),
            () => times(text.min.div_ceil(from.max), to.min, 0),
        };
        Size {
            min: shortest,
            max: longest,
        }
    }

    /// What a sum consists of is known if it is of both.
    fn concatenated(&self, overload: &Overload, result: &mut Part<'e>) {
        let adds = matches!(
            overload.args.first(),
            Some(Type::String | Type::Bytes | Type::List(_))
        );
        if let ("_+_", true, [one, other]) = (self.function, adds, self.args) {
            result.inner = either(one.inner, other.inner).or(result.inner);
        }
    }
}

fn times(n: u64, size: u64, kept: u64) -> u64 {
    n.saturating_mul(size).saturating_add(kept)
}

/// Every item is compared with every other.
fn sorted(size: Size, list: &Type) -> Own {
    let of_text = matches!(list, Type::List(item) if matches!(**item, Type::String | Type::Bytes));
    Own::list(if of_text { 2.1 } else { 2.0 }, size.times(size))
}
