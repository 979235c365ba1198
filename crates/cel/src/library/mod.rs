//! The functions of the standard library and of Kubernetes' libraries.

pub(crate) mod convert;
mod cost;
pub(crate) mod format;
mod lists;
pub(crate) mod net;
pub(crate) mod printf;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod sort;
mod strings;
mod times;
pub(crate) mod url;
mod wrap;

pub(crate) use self::{
    convert::{conversion, show, text_of},
    cost::{CallCost, operator_cost, regex_cost},
    strings::{find, find_all},
};

use crate::{eval::Ctx, eval_error::Eval, value::Value};

/// A library function. Overloads of one name are told apart by the values.
pub(crate) type Builtin = for<'a, 'v> fn(&mut Ctx<'a, 'v>, &[Value<'a>]) -> Eval<Value<'a>>;

/// The function of a name.
pub(crate) fn builtin(name: &str) -> Option<Builtin> {
    strings::builtin(name)
        .or_else(|| lists::builtin(name))
        .or_else(|| convert::builtin(name))
        .or_else(|| times::builtin(name))
        .or_else(|| wrap::builtin(name))
        .or_else(|| net::builtin(name))
        .or_else(|| format::builtin(name))
}
