//! Random values.

use proptest::{collection, prelude::*, sample};
use serde_json::{Map, Value};

/// Trees of any shape, with lists of named items among them.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-9i64..9).prop_map(Value::from),
        (-1e6f64..1e6)
            .prop_filter("not integral", |f| f.fract() != 0.0)
            .prop_map(Value::from),
        sample::select(vec![
            "",
            "a",
            "1",
            "yes",
            "null",
            "0x1",
            "a: b",
            "- x",
            "#",
            "<&>",
            "a\nb\n",
            " a",
            "2026-01-02"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        r"[ \n\ta'\x00\x7f-\xa0]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let named = collection::vec(("[abc]", inner.clone()), 0..4).prop_map(|items| {
            items
                .into_iter()
                .map(|(name, value)| serde_json::json!({"name": name, "v": value}))
                .collect()
        });
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(prop_oneof!["[abcx]", ".{0,4}"], inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
            named,
        ]
    })
}
