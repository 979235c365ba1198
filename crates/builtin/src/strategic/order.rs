//! The order of merged lists: items of the patch as the patch has them, the others as the server had them.

use serde_json::{Map, Value};

use super::{DIRECTIVE, MergeError, ORDER_OF, Schema, go_kind, go_text, merge_list};

/// Handles `$setElementOrder/<list>`: merges that list now and puts it in the given order.
pub(super) fn apply(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema<'_>,
) -> Result<(), MergeError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|k| k.starts_with(ORDER_OF))
        .cloned()
        .collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(MergeError::NotAList(go_kind(&other.unwrap_or_default()))),
        };
        let field = &directive[ORDER_OF.len()..];
        let facts = schema.field(field)?;
        let changes = match patch.get(field) {
            Some(Value::Array(items)) => Some(items.clone()),
            // A null or a value of another type is for the plain merge.
            Some(_) => continue,
            None => None,
        };
        let server = match original.get(field) {
            Some(Value::Array(items)) => Some(items.clone()),
            _ => None,
        };
        if let Some(changes) = &changes {
            check(changes, &order, facts.merge_key)?;
        }
        let merged = match (&server, changes) {
            (None, None) => continue,
            (Some(server), None) => server.clone(),
            (None, Some(changes)) => {
                let tidied =
                    super::tidy::without_directives(super::tidy::without_nulls(Value::Array(changes)));
                tidied.and_then(|v| v.as_array().cloned()).unwrap_or_default()
            }
            (Some(server), Some(changes)) if facts.merge => {
                merge_list(server.clone(), changes, &facts, field)?
            }
            (Some(_), Some(changes)) => changes,
        };
        let ordered = normalize(merged, &order, &server.unwrap_or_default(), facts.merge_key);
        original.insert(field.to_owned(), Value::Array(ordered));
        patch.remove(field);
    }
    Ok(())
}

/// The patched items must be in the wanted order already.
fn check(patch: &[Value], order: &[Value], key: &str) -> Result<(), MergeError> {
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if !rest.any(|wanted| same(item, wanted, key)) {
            let text = |items: &[Value]| go_text(&Value::Array(items.to_vec()));
            return Err(MergeError::Order {
                patch: text(patch),
                order: text(order),
            });
        }
    }
    Ok(())
}

/// Orders merged items: those of `order` as it has them, the others as the server had them, and where both
/// lists know two items the server's order decides which comes first.
pub(super) fn normalize(merged: Vec<Value>, order: &[Value], server: &[Value], key: &str) -> Vec<Value> {
    let place = |item: &Value, list: &[Value]| list.iter().position(|other| same(item, other, key));
    let (mut ours, mut theirs): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(item, order).is_some());
    ours.sort_by_key(|item| place(item, order));
    theirs.sort_by_key(|item| place(item, server).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(ours.len() + theirs.len());
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    while let (Some(left), Some(right)) = (theirs.peek(), ours.peek()) {
        let before = matches!((place(left, server), place(right, server)), (Some(l), Some(r)) if l < r);
        out.extend(if before { theirs.next() } else { ours.next() });
    }
    out.extend(theirs);
    out.extend(ours);
    out
}

fn same(a: &Value, b: &Value, key: &str) -> bool {
    if key.is_empty() {
        a == b
    } else {
        a.get(key).is_some() && a.get(key) == b.get(key)
    }
}
