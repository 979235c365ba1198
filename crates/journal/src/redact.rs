//! What never reaches the disk.

mod path;

use serde_json::{Map, Value, json};
use skopos_object::Object;

use self::path::Step;
pub use self::path::{BadPath, FieldPath};

/// What stands where a value was.
pub const REDACTED: &str = "[redacted]";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes out of objects what must not be written down: the data of Secrets, the annotation in which kubectl keeps the
/// whole object, and what was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    paths: Vec<FieldPath>,
}

impl Redactor {
    pub(crate) fn new(paths: Vec<FieldPath>) -> Self {
        Self { paths }
    }

    pub(crate) fn redact(&self, object: Object) -> Object {
        let is_secret = object.kind() == "Secret" && object.api_version() == "v1";
        // The text is only taken apart if there is something to take out.
        if !is_secret && self.paths.is_empty() && !contains(object.bytes(), LAST_APPLIED.as_bytes()) {
            return object;
        }
        let mut value = object.to_value();
        if is_secret {
            for data in ["data", "stringData"] {
                blank(&mut value, &[Step::Named(data.into()), Step::Every]);
            }
        }
        if let Some(annotations) = value
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
        for path in &self.paths {
            blank(&mut value, &path.0);
        }
        match Object::from_value(&value) {
            Ok(redacted) => redacted,
            // Too deep to be taken apart: better nothing of it than all.
            Err(_) => bare(&object),
        }
    }
}

/// Only what an object is known by.
fn bare(object: &Object) -> Object {
    let value = json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "metadata": {
            "name": object.name(),
            "namespace": object.namespace(),
            "uid": object.uid(),
            "resourceVersion": object.resource_version().as_str(),
        },
    });
    Object::from_value(&value).expect("six plain strings of an object make an object")
}

/// Replaces what is at the path. In doubt it is more: what should have stayed can be had from the server, what should not
/// have been written down cannot be taken back.
fn blank(value: &mut Value, path: &[Step]) {
    let Some((step, rest)) = path.split_first() else {
        *value = Value::String(REDACTED.into());
        return;
    };
    match (value, step) {
        (Value::Object(fields), Step::Every) => fields.values_mut().for_each(|field| blank(field, rest)),
        (Value::Object(fields), _) => blank_fields(fields, path),
        (Value::Array(items), Step::Every) => items.iter_mut().for_each(|item| blank(item, rest)),
        (Value::Array(items), Step::Item { key, value }) => items
            .iter_mut()
            .filter(|item| is_called(item, key, value))
            .for_each(|item| blank(item, rest)),
        (Value::Array(items), Step::Named(name)) => match name.parse::<usize>() {
            Ok(index) => items
                .iter_mut()
                .skip(index)
                .take(1)
                .for_each(|item| blank(item, rest)),
            // A field of a list is one of each of its items.
            Err(_) => items.iter_mut().for_each(|item| blank(item, path)),
        },
        _ => {}
    }
}

/// Replaces what is below the field that the path begins with. Its name may have dots in it, and several steps name it then.
fn blank_fields(fields: &mut Map<String, Value>, path: &[Step]) {
    let mut name = String::new();
    for (at, step) in path.iter().enumerate() {
        let Some(part) = step.field() else { return };
        if at > 0 {
            name.push('.');
        }
        name.push_str(&part);
        if let Some(field) = fields.get_mut(&name) {
            blank(field, &path[at + 1..]);
        }
    }
}

/// Whether this is the item of a list that is meant. One whose name was taken out before may be.
fn is_called(item: &Value, key: &str, value: &str) -> bool {
    match item.get(key) {
        Some(Value::String(own)) => own == value || own == REDACTED,
        Some(own) => serde_json::to_string(own).is_ok_and(|own| own == value),
        None => false,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], object: &Value, expected: &Value) {
        let paths = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        let redacted = Redactor::new(paths).redact(Object::from_value(object).unwrap());
        assert_eq!(redacted.to_value(), *expected);
    }

    #[test]
    fn the_data_of_secrets_is_taken_out() {
        check(
            &[],
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "czNjcjN0", "b": ""}}),
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": REDACTED, "b": REDACTED}}),
        );
    }

    #[test]
    fn the_annotation_that_repeats_the_object_is_taken_out() {
        check(
            &[],
            &json!({"metadata": {"annotations": {LAST_APPLIED: "{\"data\":{\"a\":\"s3cr3t\"}}", "keep": "1"}}}),
            &json!({"metadata": {"annotations": {"keep": "1"}}}),
        );
    }

    #[test]
    fn paths_that_were_asked_for_are_taken_out() {
        check(
            &[
                "spec.password",
                "spec.users[*].token",
                "metadata.annotations[example.com/key]",
                "spec.list[1]",
            ],
            &json!({"metadata": {"annotations": {"example.com/key": "k"}}, "spec": {
                "password": {"plain": "x"}, "users": [{"name": "a", "token": "t"}, {"name": "b"}], "list": [1, 2]}}),
            &json!({"metadata": {"annotations": {"example.com/key": REDACTED}}, "spec": {
                "password": REDACTED, "users": [{"name": "a", "token": REDACTED}, {"name": "b"}], "list": [1, REDACTED]}}),
        );
    }

    #[test]
    fn a_field_of_a_list_is_one_of_each_item() {
        check(
            &["spec.users.token", "spec.nested.token"],
            &json!({"spec": {"users": [{"token": "t"}, {"token": "u"}, 3], "nested": [[{"token": "t"}]]}}),
            &json!({"spec": {"users": [{"token": REDACTED}, {"token": REDACTED}, 3], "nested": [[{"token": REDACTED}]]}}),
        );
    }

    #[test]
    fn items_are_told_by_their_name() {
        let containers = |web: Value| {
            json!({"spec": {"containers": [
                {"name": "web", "env": web.clone()}, {"name": "log", "env": [1]}, {"name": "web", "env": web}]}})
        };
        for path in [
            "spec.containers[name=web].env",
            "spec.containers['name=web'].env",
            "spec.containers[name=\"web\"].env",
        ] {
            check(&[path], &containers(json!([2])), &containers(json!(REDACTED)));
        }
        check(
            &["ports[port=80].name"],
            &json!({"ports": [{"port": 80, "name": "a"}, {"port": 8080, "name": "b"}, {"name": "c"}]}),
            &json!({"ports": [{"port": 80, "name": REDACTED}, {"port": 8080, "name": "b"}, {"name": "c"}]}),
        );
    }

    #[test]
    fn an_item_whose_name_was_taken_out_may_be_the_one() {
        check(
            &["users[*].name", "users[name=ann].token"],
            &json!({"users": [{"name": "ann", "token": "t"}]}),
            &json!({"users": [{"name": REDACTED, "token": REDACTED}]}),
        );
    }

    #[test]
    fn a_key_with_dots_needs_no_brackets() {
        check(
            &[
                "data.app.properties",
                "metadata.annotations.example.com/key",
                "data.a.b",
            ],
            &json!({"data": {"app.properties": "x", "a": {"b": 1}, "a.b": 2}, "metadata": {"annotations": {"example.com/key": "k"}}}),
            &json!({"data": {"app.properties": REDACTED, "a": {"b": REDACTED}, "a.b": REDACTED},
                "metadata": {"annotations": {"example.com/key": REDACTED}}}),
        );
    }

    #[test]
    fn of_what_is_too_deep_only_the_name_stays() {
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        let text =
            format!(r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"data":{deep}}}"#);
        if let Ok(object) = Object::parse(text.into()) {
            let redacted = Redactor::default().redact(object);
            assert_eq!((redacted.name(), redacted.raw(&["data"])), ("s", None));
        }
    }

    #[test]
    fn what_has_nothing_to_hide_is_left_as_it_is() {
        let object = Object::parse(br#"{ "kind": "Pod",  "metadata": {} }"#.to_vec().into()).unwrap();
        assert_eq!(Redactor::default().redact(object.clone()), object);
    }
}
