//! `fieldsV1` as text.

use serde_json::{Map, Value};

use super::element::Element;

/// Writes a `fieldsV1` in the order that kube-apiserver gives it in built-in kinds: fields by their names, items of
/// lists by the values of their keys, so that port 80 comes before port 443.
///
/// In custom resources it has the order of its text, as every other object.
pub fn write_fields(fields: &Value, out: &mut Vec<u8>) {
    let Value::Object(map) = fields else {
        return write_value(fields, out);
    };
    out.push(b'{');
    let mut separator = &b""[..];
    let mut write = |name: &str, below: &Value, out: &mut Vec<u8>| {
        out.extend_from_slice(separator);
        separator = b",";
        serde_json::to_writer(&mut *out, name).expect("a string can be written to memory");
        out.push(b':');
        write_fields(below, out);
    };
    match items_in_order(map) {
        Some(items) => items.iter().for_each(|(_, name, below)| write(name, below, out)),
        None => map.iter().for_each(|(name, below)| write(name, below, out)),
    }
    out.push(b'}');
}

/// The steps of a level in their own order, if that is not the one of their names.
fn items_in_order(map: &Map<String, Value>) -> Option<Vec<(Option<Element>, &str, &Value)>> {
    let n_items = map.keys().filter(|name| !name.starts_with(['.', 'f'])).count();
    if n_items < 2 {
        return None;
    }
    let mut items = Vec::with_capacity(map.len());
    for (name, below) in map {
        let element = match name.as_str() {
            "." => None,
            name => Some(Element::parse(name).ok()?),
        };
        items.push((element, name.as_str(), below));
    }
    items.sort_by(|a, b| a.0.cmp(&b.0));
    Some(items)
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a JSON value can be written to memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(fields: &Value, expected: &str) {
        let mut out = Vec::new();
        write_fields(fields, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn items_come_in_the_order_of_their_keys() {
        let ports = json!({
            "f:ports": {
                ".": {},
                "k:{\"port\":443}": {".": {}, "f:port": {}},
                "k:{\"port\":80}": {},
                "k:{\"port\":8080}": {},
            },
            "f:a": {"v:10": {}, "v:9": {}, "v:-1": {}},
        });
        check(
            &ports,
            r#"{"f:a":{"v:-1":{},"v:9":{},"v:10":{}},"f:ports":{".":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{".":{},"f:port":{}},"k:{\"port\":8080}":{}}}"#,
        );
    }

    #[test]
    fn what_cannot_be_read_stays_in_the_order_of_its_text() {
        check(
            &json!({"k:{\"a\":9}": {}, "k:{\"a\":10}": {}, "k:broken": 1, "z": null}),
            r#"{"k:broken":1,"k:{\"a\":10}":{},"k:{\"a\":9}":{},"z":null}"#,
        );
    }
}
