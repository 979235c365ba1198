//! Which types fit which, while some are still unknown.

use std::sync::Arc;

use crate::types::Type;

/// The largest type that is kept whole; beyond it, parts become `dyn`. Types share their parts, so a short
/// expression could otherwise spell one that takes for ever to walk.
const MAX_TYPE_NODES: u32 = 2048;

/// What the unknown types were found to be.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    vars: Vec<Option<Type>>,
    /// Former bindings, to undo an attempt that failed.
    trail: Vec<(u32, Option<Type>)>,
}

impl Bindings {
    pub(crate) fn fresh(&mut self) -> Type {
        let var = u32::try_from(self.vars.len()).unwrap_or(u32::MAX);
        self.vars.push(None);
        Type::Var(var)
    }

    fn find(&self, t: &Type) -> Option<&Type> {
        match t {
            Type::Var(var) => self.vars[*var as usize].as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, var: &Type, to: Type) {
        if let Type::Var(var) = var {
            let former = self.vars[*var as usize].replace(to);
            self.trail.push((*var, former));
        }
    }

    /// Whether every type of `from` can be given where that of `to` is expected. What that says about unknown
    /// types is kept only if all fit.
    pub(crate) fn assign(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.trail.clear();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(f, t)| self.fits(f, t));
        if !fits {
            while let Some((var, former)) = self.trail.pop() {
                self.vars[var as usize] = former;
            }
        }
        fits
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if matches!(to, Type::Var(_)) {
            let (valid, has_binding) = self.substitutes(from, to);
            if valid || has_binding {
                return valid;
            }
        }
        if matches!(from, Type::Var(_)) {
            return self.substitutes(to, from).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Type::TypeOf(_), Type::TypeOf(_)) => true,
            (a, b) => a.is_exactly(b),
        }
    }

    /// Whether `var` may stand for `t`, and whether it stood for something before.
    fn substitutes(&mut self, t: &Type, var: &Type) -> (bool, bool) {
        if t.is_exactly(var) {
            return (true, true);
        }
        if let Some(bound) = self.find(var).cloned() {
            if t.is_exactly(&bound) {
                return (true, true);
            }
            if !self.fits(t, &bound) {
                return (false, true);
            }
            let general = most_general(t, &bound);
            if self.is_absent(var, &general) {
                self.bind(var, general);
            }
            return (true, true);
        }
        let absent = self.is_absent(var, t);
        if absent {
            self.bind(var, t.clone());
        }
        (absent, false)
    }

    /// Whether a type does not contain the unknown one.
    fn is_absent(&self, var: &Type, within: &Type) -> bool {
        if var.is_exactly(within) {
            return false;
        }
        match within {
            Type::Var(_) => self.find(within).is_none_or(|bound| self.is_absent(var, bound)),
            Type::List(t) | Type::Optional(t) | Type::TypeOf(Some(t)) => self.is_absent(var, t),
            Type::Map(types) => self.is_absent(var, &types.0) && self.is_absent(var, &types.1),
            _ => true,
        }
    }

    /// The type with everything known filled in.
    pub(crate) fn resolve(&self, t: &Type) -> Type {
        self.substitute(t, false, &mut MAX_TYPE_NODES.clone())
    }

    /// The type with everything known filled in, and the rest `dyn`.
    pub(crate) fn settle(&self, t: &Type) -> Type {
        self.substitute(t, true, &mut MAX_TYPE_NODES.clone())
    }

    fn substitute(&self, t: &Type, to_dyn: bool, left: &mut u32) -> Type {
        if *left == 0 {
            return Type::Dyn;
        }
        *left -= 1;
        if let Some(bound) = self.find(t) {
            return self.substitute(bound, to_dyn, left);
        }
        match t {
            Type::Var(_) | Type::Param(_) if to_dyn => Type::Dyn,
            Type::List(item) => Type::list(self.substitute(item, to_dyn, left)),
            Type::Optional(value) => Type::optional(self.substitute(value, to_dyn, left)),
            Type::Map(types) => {
                let key = self.substitute(&types.0, to_dyn, left);
                Type::map(key, self.substitute(&types.1, to_dyn, left))
            }
            Type::TypeOf(Some(of)) => Type::TypeOf(Some(Arc::new(self.substitute(of, to_dyn, left)))),
            other => other.clone(),
        }
    }
}

/// The more general of two types that fit each other.
pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    match is_equal_or_less_specific(a, b) {
        true => a.clone(),
        false => b.clone(),
    }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_equal_or_less_specific(a, b)
        }
        (Type::Map(a), Type::Map(b)) => {
            is_equal_or_less_specific(&a.0, &b.0) && is_equal_or_less_specific(&a.1, &b.1)
        }
        (Type::TypeOf(_), Type::TypeOf(_)) => true,
        (a, b) => a.is_exactly(b),
    }
}

/// The types that `null` fits, apart from itself.
fn is_nullable(t: &Type) -> bool {
    matches!(
        t,
        Type::Null | Type::Optional(_) | Type::Opaque(_) | Type::Object(_) | Type::Duration | Type::Timestamp
    )
}
