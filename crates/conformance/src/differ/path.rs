//! Finds a part of an answer: `metadata.name`, `items[0].kind`, `groups[name=apps].versions`, `a["b.c"]`.

use serde_json::Value;

/// The part at a path, if it is there. `.` is the whole; `[-1]` the last of a list.
pub(super) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = value;
    for step in steps(path) {
        found = match step {
            Step::Key(key) => found.get(key)?,
            Step::Index(index) => {
                let list = found.as_array()?;
                let back = usize::try_from(-index).ok().filter(|back| *back > 0);
                match back {
                    Some(back) => list.get(list.len().checked_sub(back)?)?,
                    None => list.get(usize::try_from(index).ok()?)?,
                }
            }
            Step::With(key, wanted) => found
                .as_array()?
                .iter()
                .find(|item| find(item, key).and_then(Value::as_str) == Some(wanted))?,
        };
    }
    Some(found)
}

enum Step<'a> {
    Key(&'a str),
    Index(isize),
    With(&'a str, &'a str),
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = path.trim_matches('.');
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inside, after) = inner.split_once(']').unwrap_or((inner, ""));
            steps.push(bracket(inside));
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Key(&rest[..end]));
            rest = &rest[end..];
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    steps
}

fn bracket(inside: &str) -> Step<'_> {
    if let Ok(index) = inside.parse() {
        return Step::Index(index);
    }
    match inside.split_once('=') {
        Some((key, wanted)) => Step::With(key, wanted),
        None => Step::Key(inside.trim_matches('"')),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_keys_indexes_and_items_by_a_field() {
        let value = json!({"a": [{"name": "x", "b.c": 1}, {"name": "y"}]});
        let check =
            |path: &str, expect: Option<Value>| assert_eq!(find(&value, path).cloned(), expect, "{path}");
        check("a[0].name", Some(json!("x")));
        check("a[-1].name", Some(json!("y")));
        check(r#"a[name=x]["b.c"]"#, Some(json!(1)));
        check("a[name=z]", None);
        check(".", Some(value.clone()));
    }
}
