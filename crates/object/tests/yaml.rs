//! YAML as Kubernetes reads and writes it.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use skopos_object::yaml;

fn decode(text: &str) -> Value {
    yaml::decode(text.as_bytes()).unwrap().value
}

fn refuse(text: &str, expect: &str) {
    let error = yaml::decode(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(expect), "{text:?} gave {error}");
}

#[test]
fn reads_scalars_by_yaml_1_1() {
    assert_eq!(
        decode(
            "a: yes\nb: off\nc: 'yes'\nd: 0777\ne: 1.0\nf: ~\ng:\nh: 1_000\ni: 2026-01-02\nj: !!str 1\nk: \"1\""
        ),
        json!({"a": true, "b": false, "c": "yes", "d": 511, "e": 1, "f": null, "g": null, "h": 1000,
               "i": "2026-01-02", "j": "1", "k": "1"})
    );
}

#[test]
fn turns_keys_into_strings() {
    assert_eq!(
        decode("1: a\ntrue: b\n'c': d\n1.5: e"),
        json!({"1": "a", "true": "b", "c": "d", "1.5": "e"})
    );
    refuse("~: a", "unsupported map key");
    refuse("[a]: b", "invalid map key");
}

#[test]
fn reads_json() {
    assert_eq!(
        decode(r#"{"a":{"b":[1,"x",null,true]}}"#),
        json!({"a": {"b": [1, "x", null, true]}})
    );
}

#[test]
fn merges_and_resolves_aliases() {
    let text = "base: &b {x: 1, w: 2}\nl: [*b]\nm:\n  w: 3\n  <<: *b\no:\n  <<: [{z: 1}, *b]";
    assert_eq!(
        decode(text),
        json!({"base": {"x": 1, "w": 2}, "l": [{"x": 1, "w": 2}], "m": {"x": 1, "w": 3},
               "o": {"x": 1, "w": 2, "z": 1}})
    );
    refuse("a: &a [*a]", "contains itself");
    refuse(
        "a: {<<: 1}",
        "map merge requires map or sequence of maps as the value",
    );
    refuse("a: *b", "yaml: line 1: ");
}

#[test]
fn reports_duplicate_keys() {
    let decoded = yaml::decode(b"a: 1\nb:\n- c: 1\n  c: 2\na: 2\n").unwrap();
    assert_eq!(decoded.value, json!({"a": 2, "b": [{"c": 2}]}));
    assert_eq!(decoded.duplicates, ["b[0].c", "a"]);
    assert_eq!(
        decoded.strict_errors(),
        [
            "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map"
        ]
    );
}

#[test]
fn splits_documents_and_leaves_out_empty_ones() {
    let documents = yaml::documents(b"---\na: 1\n---\n# nothing\n---\n---\nb: 2\n...\n").unwrap();
    let values: Vec<Value> = documents.into_iter().map(|document| document.value).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(decode(""), Value::Null);
    assert_eq!(decode("# only a comment\n"), Value::Null);
    assert_eq!(decode("a: 1\n---\nb: 2"), json!({"a": 1}));
}

#[test]
fn refuses_what_json_cannot_say() {
    refuse("a: .nan", "unsupported value: .nan");
    refuse("a: [", "yaml: line");
    refuse("a: b: c", "yaml: line 1: ");
    assert_eq!(
        yaml::decode(b"a: b\nc: \xff").unwrap_err().to_string(),
        "yaml: line 2: invalid UTF-8"
    );
}

#[test]
fn bounds_aliases_and_depth() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let item = format!("*a{}", i - 1);
        bomb.push_str(&format!("a{i}: &a{i} [{}]\n", [item.as_str(); 10].join(", ")));
    }
    refuse(&bomb, "document contains excessive aliasing");
    refuse(&"[".repeat(100_000), "yaml: line 1: ");
    refuse(&"- ".repeat(100_000), "yaml: line 1: ");
    let nest: String = (1..100)
        .map(|i| format!("a{i}: &a{i} [[*a{}]]\n", i - 1))
        .collect();
    refuse(&format!("a0: &a0 x\n{nest}"), "exceeded max depth");
}

#[test]
fn writes_what_kubectl_users_expect() {
    let value = json!({
        "apiVersion": "v1",
        "data": {"multi": "a\nb\n", "chomped": "a\nb", "keep": "a\n\n", "tab": "a\tb", "empty": ""},
        "list": [{"name": "a", "ports": [80, 443]}, [1, [2]], {}, [], null, "x: y"],
        "strings": ["1", "yes", "null", "2026-01-02T03:04:05Z", "12:30", "0x1F", "~", "- a", "#c", "a #b",
                    "it's", "'q'", "{}", "*", "a:", "-a", "10.0.0.1", "1Gi", "@x", "<<", " a", "é", "--- a"],
    });
    let expect = "\
apiVersion: v1
data:
  chomped: |-
    a
    b
  empty: \"\"
  keep: |+
    a

  multi: |
    a
    b
  tab: \"a\\tb\"
list:
- name: a
  ports:
  - 80
  - 443
- - 1
  - - 2
- {}
- []
- null
- 'x: y'
strings:
- \"1\"
- \"yes\"
- \"null\"
- \"2026-01-02T03:04:05Z\"
- \"12:30\"
- \"0x1F\"
- \"~\"
- '- a'
- '#c'
- 'a #b'
- it's
- '''q'''
- '{}'
- '*'
- 'a:'
- -a
- 10.0.0.1
- 1Gi
- '@x'
- '<<'
- ' a'
- é
- '--- a'
";
    assert_eq!(yaml::encode(&value), expect);
    assert_eq!(decode(expect), value);
}
