//! Objects as a user writes them and as kube-apiserver 1.36 gave them back, less what only a server sets.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use skopos_builtin::{Kind, decode, default, has_generation, kind, prepare_create};

fn kind_of(object: &Value) -> &'static Kind {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    kind(group, version, object["kind"].as_str().unwrap()).unwrap()
}

/// Lists the places where two values differ.
fn differences(path: &str, ours: &Value, real: &Value, out: &mut Vec<String>) {
    match (ours, real) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differences(&path, a, b, out),
                    (None, b) => out.push(format!("{path}: lacks {}", b.unwrap())),
                    (a, None) => out.push(format!("{path}: has {}", a.unwrap())),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{at}]"), a, b, out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: {a} but the server has {b}")),
    }
}

#[test]
fn minimal_objects_get_the_servers_defaults() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/defaults.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let mut object = case["in"].clone();
        let kind = kind_of(&object);
        assert_eq!(decode(kind, &mut object).unwrap(), Vec::<String>::new());
        default(kind, &mut object);
        prepare_create(kind, &mut object);
        let once = object.clone();
        decode(kind, &mut object).unwrap();
        default(kind, &mut object);
        let name = format!("{}/{}", kind.plural, object["metadata"]["name"].as_str().unwrap());
        assert_eq!(
            has_generation(kind),
            !case["generation"].is_null(),
            "generation of {}",
            kind.plural
        );
        differences(&name, &object, &case["out"], &mut wrong);
        differences(&format!("{name} twice"), &once, &object, &mut wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
