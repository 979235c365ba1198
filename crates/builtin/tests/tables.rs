//! Rows that kube-apiserver 1.36 printed for objects in many states.

use serde_json::Value;
use skopos_builtin::{cells, columns, kind, row_conditions};

#[test]
fn rows_look_as_the_server_prints_them() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/tables.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let object = &case["object"];
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = kind(group, version, object["kind"].as_str().unwrap()).unwrap();
        let ours = Value::Array(cells(kind, object, case["now"].as_i64().unwrap()));
        if ours != case["cells"] {
            wrong.push(format!(
                "{} ours   {ours}\n{} server {}",
                kind.plural, kind.plural, case["cells"]
            ));
        }
        assert_eq!(Value::Array(row_conditions(kind, object)), case["conditions"]);
        // The server itself prints an address with one cell too many.
        if kind.plural != "ipaddresses" {
            assert_eq!(
                columns(kind).len(),
                ours.as_array().unwrap().len(),
                "{}",
                kind.plural
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
