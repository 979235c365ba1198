//! Sorting lists.

use crate::{
    eval_error::{Eval, EvalError},
    ops,
    value::Value,
};

/// The items in their own order.
pub(crate) fn sorted<'a>(list: &Value<'a>) -> Eval<Value<'a>> {
    let Value::List(items) = list else {
        return Err(EvalError::no_overload());
    };
    by_keys(list, items.to_vec()?)
}

/// The items in the order of their keys.
pub(crate) fn by_keys<'a>(list: &Value<'a>, keys: Vec<Value<'a>>) -> Eval<Value<'a>> {
    let Value::List(list) = list else {
        return Err(EvalError::no_overload());
    };
    if list.len() != keys.len() {
        let message = format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        );
        return Err(message.into());
    }
    if let Some(first) = keys.first() {
        ops::compare(first, first).map_err(|_| EvalError::from("list elements must be comparable"))?;
        let is_other = |key: &Value<'_>| !key.type_of().is_exactly(&first.type_of());
        if keys.iter().any(is_other) {
            return Err("list elements must have the same type".into());
        }
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(list.to_vec()?).collect();
    pairs.sort_by(|a, b| ops::compare(&a.0, &b.0).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}
