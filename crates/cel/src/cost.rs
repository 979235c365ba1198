//! What an expression can cost, reckoned from the bounds of its schema before any evaluation.
//!
//! The number is kube-apiserver's to the last unit, its oddities included: definitions are taken or refused by it. It
//! is reckoned by the macros as cel-go expands them; here they are still [`Fold`](crate::ast::Fold)s.

mod amount;
mod call;
mod fold;
mod path;
mod walk;

use crate::{ast::Expr, check::Checked, env::Env};

pub use self::amount::CostEstimate;

/// Reckons the cost of a checked expression.
pub(crate) fn estimate(env: &Env, root: &Expr, checked: &Checked) -> CostEstimate {
    walk::Walk::new(env, checked).part(root).cost
}
