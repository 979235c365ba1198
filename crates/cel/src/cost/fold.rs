//! Macros, by what cel-go makes of them: loops with an accumulator, or one value bound to a name.

use crate::{
    ast::{Expr, Fold, FoldKind},
    functions::overloads,
    types::Type,
};

use super::amount::{CostEstimate, Size};
use super::call::{self, Call, add_lists, choose, combine};
use super::path::Step;
use super::walk::{Inner, Part, Walk};

impl<'e> Walk<'e> {
    pub(super) fn fold(&mut self, e: &'e Expr, fold: &'e Fold) -> Part<'e> {
        match fold.kind {
            FoldKind::OptMap | FoldKind::OptFlatMap => self.opt_map(e, fold),
            FoldKind::SortBy => self.sort_by(e, fold),
            _ => {
                let range = self.part(&fold.range);
                self.in_loop(fold, range)
            }
        }
    }

    /// A loop over a range: what it begins with, whether it goes on, each step, the result.
    fn in_loop(&mut self, fold: &'e Fold, range: Part<'e>) -> Part<'e> {
        let accumulator = beginning(fold.kind);
        let so_far = self.settled(accumulator.named());
        let n_outer = self.scopes.len();
        self.bind_items(fold, &range);
        let step = self.step(fold, so_far);
        self.scopes.truncate(n_outer);
        let goes_on = match fold.kind {
            FoldKind::All => 2,
            FoldKind::Exists => 3,
            _ => 0,
        };
        let result = match fold.kind {
            FoldKind::ExistsOne => 2,
            _ => 1,
        };
        let n = self.settled(range).size_or_any();
        let cost = range
            .cost
            .plus(accumulator.cost)
            .plus(CostEstimate::exactly(result))
            .plus(n.each(step.cost.plus(CostEstimate::exactly(goes_on))));
        let size = accumulator.inner.map_or(Size::ONE, |_| n);
        Part::made(cost, Some(size)).with_inner(accumulator.inner.and(step.inner))
    }

    /// Binds the variables of a loop to what they will hold.
    fn bind_items(&mut self, fold: &'e Fold, range: &Part<'e>) {
        let is_list = range
            .inner
            .map_or(matches!(range.t, Type::List(_)), |inner| inner.is_list);
        let key = range.inner.map(|inner| inner.key);
        let value = range.inner.map(|inner| inner.value);
        let mut bind = |var: &'e str, step: Step<'e>, size: Option<Size>| {
            let path = self.paths.append(range.path, step);
            let part = Part::made(CostEstimate::default(), size);
            self.scopes.push((var, Part { path, ..part }));
        };
        match (&fold.var2, is_list) {
            (None, true) => bind(&fold.var, Step::Element, value),
            (None, false) => bind(&fold.var, Step::Key, key),
            (Some(var2), _) => {
                bind(&fold.var, if is_list { Step::Index } else { Step::Key }, key);
                bind(var2, Step::Element, value);
            }
        }
    }

    /// The type of the variable of a loop that has one.
    fn element_type(&self, fold: &'e Fold) -> &'e Type {
        match self.type_of(&fold.range) {
            Type::List(item) => item,
            Type::Map(types) => &types.0,
            other => other,
        }
    }

    fn step(&mut self, fold: &'e Fold, so_far: Part<'e>) -> Part<'e> {
        if let FoldKind::Filter = fold.kind {
            let keep = self.part(&fold.body);
            let item = self.name(&fold.var);
            let item = self.settled(item.typed(self.element_type(fold)));
            return choose(&keep, &add_lists(&so_far, &list_of(&item)), &so_far);
        }
        let filter = fold.filter.as_ref().map(|filter| self.part(filter));
        let body = self.settled_part(&fold.body);
        let next = match fold.kind {
            FoldKind::All | FoldKind::Exists => combine(&[so_far, body]),
            FoldKind::ExistsOne => {
                let counted = Part::made(CostEstimate::exactly(2), Some(Size::ONE));
                choose(&body, &counted, &so_far)
            }
            FoldKind::TransformMap => plain(&[so_far, CostEstimate::ONE.into(), body]),
            FoldKind::TransformMapEntry => plain(&[so_far, body]),
            _ => add_lists(&so_far, &list_of(&body)),
        };
        match filter {
            Some(filter) => choose(&filter, &next, &so_far),
            None => next,
        }
    }

    /// `range.hasValue() ? optional.of(bind(var, range.value(), body)) : optional.none()`
    fn opt_map(&mut self, e: &'e Expr, fold: &'e Fold) -> Part<'e> {
        let range = self.part(&fold.range);
        let asked = Part::made(range.cost.plus(CostEstimate::ONE), Some(Size::ONE));
        let value = match range.t {
            Type::Optional(value) => Part::made(asked.cost, None).typed(value),
            _ => Part::made(asked.cost, None),
        };
        let value = self.settled(value);
        self.scopes.push((&fold.var, value));
        let body = self.settled_part(&fold.body);
        self.scopes.pop();
        let bound = Part {
            cost: value.cost.plus(body.cost).plus(CostEstimate::exactly(10)),
            ..body
        };
        let t = self.type_of(e);
        let then = match fold.kind {
            FoldKind::OptMap => self.settled(plain(&[bound]).typed(t)),
            _ => bound,
        };
        choose(&asked, &then, &self.settled(plain(&[]).typed(t)))
    }

    /// `bind(input, range, input.@sortByAssociatedKeys(input.map(var, body)))`
    fn sort_by(&mut self, e: &'e Expr, fold: &'e Fold) -> Part<'e> {
        let range = self.settled_part(&fold.range);
        let keys = self.in_loop(fold, range.named());
        let call = Call {
            function: "@sortByAssociatedKeys",
            target: Some(range.named()),
            args: &[keys],
            t: self.type_of(e),
            element: None,
            indexed: None,
        };
        let key_type = self.type_of(&fold.body);
        let all = overloads("@sortByAssociatedKeys").unwrap_or_default();
        let fitting: Vec<_> = all
            .iter()
            .filter(|overload| match &overload.args[1] {
                Type::List(item) => call::may_be(key_type, item),
                _ => false,
            })
            .collect();
        let sorted = call::reckon_fitting(&call, &fitting);
        Part {
            cost: sorted.cost.plus(range.cost).plus(CostEstimate::exactly(10)),
            ..sorted
        }
    }
}

impl<'e> Part<'e> {
    fn with_inner(self, inner: Option<Inner>) -> Part<'e> {
        Part { inner, ..self }
    }

    fn typed(self, t: &'e Type) -> Part<'e> {
        Part { t, ..self }
    }
}

impl From<CostEstimate> for Part<'_> {
    fn from(cost: CostEstimate) -> Self {
        Part::made(cost, None)
    }
}

/// What a loop begins with.
fn beginning<'e>(kind: FoldKind) -> Part<'e> {
    let (cost, is_list) = match kind {
        FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => {
            return Part::made(CostEstimate::default(), Some(Size::ONE));
        }
        FoldKind::TransformMap | FoldKind::TransformMapEntry => (30, false),
        _ => (10, true),
    };
    let empty = Size::exactly(0);
    let inner = Inner {
        is_list,
        key: if is_list { Size::ONE } else { empty },
        value: empty,
    };
    Part::made(CostEstimate::exactly(cost), Some(empty)).with_inner(Some(inner))
}

/// A list of one item.
fn list_of<'e>(item: &Part<'e>) -> Part<'e> {
    let inner = Inner {
        is_list: true,
        key: Size::ONE,
        value: Size::NONE.or(item.size_or_any()),
    };
    Part::made(item.cost.plus(CostEstimate::exactly(10)), Some(Size::ONE)).with_inner(Some(inner))
}

/// A call that costs one.
fn plain<'e>(args: &[Part<'e>]) -> Part<'e> {
    let cost = args.iter().fold(CostEstimate::ONE, |sum, arg| sum.plus(arg.cost));
    Part::made(cost, None)
}
