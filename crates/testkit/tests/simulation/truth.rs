//! What is there, in a form that can be compared.

use std::collections::BTreeMap;

use skopos_object::{Object, ObjectKey};

/// Every object by key: uid, version and what matters of its content.
pub(crate) type Truth = BTreeMap<ObjectKey, String>;

pub(crate) fn truth<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Truth {
    let told = |object: &Object| {
        let n = object.get(&["spec", "n"]).unwrap_or_default();
        let color = object.label("color").unwrap_or_default().into_owned();
        format!("{} @{} n={n} {color}", object.uid(), object.resource_version())
    };
    objects
        .into_iter()
        .map(|object| (object.key(), told(object)))
        .collect()
}

/// The first difference.
pub(crate) fn compare(what: &str, expected: &Truth, actual: &Truth) -> Result<(), String> {
    let keys = expected.keys().chain(actual.keys());
    for key in keys {
        let (expected, actual) = (expected.get(key), actual.get(key));
        if expected != actual {
            return Err(format!(
                "{what}: {key} is {expected:?} on the server, but {actual:?} here"
            ));
        }
    }
    Ok(())
}
