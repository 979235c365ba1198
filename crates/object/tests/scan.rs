//! The scanner of object texts, held against `serde_json`.

use bytes::Bytes;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::json;
use skopos_object::{GroupVersionKind, ManagedFields, Object, ObjectError, ObjectReader, json};

const SAMPLE: &str = r#" {"apiVersion":"x.io/v1", "kind":"Thing","metadata":{"annotations":{"é":"\u00e9\n\"\\/"},"generation":12,
"labels":{"a":"b"},"managedFields":[{"f:spec":{".":{}}}],"name":"n","namespace":"s","resourceVersion":"7","uid":"u"},
"spec":{"list":[[],{},[1,-0.5e+3,true,false,null,"long enough for several words of eight bytes"]],"n":0}} "#;

/// Texts that are nearly JSON: the sample with a few bytes changed, left out or doubled.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let alphabet = prop::sample::select(b"{}[]\",:\\u0123456789-+.eEtfn \n\x1f\x7f\x80\xc3az".to_vec());
    let change = (any::<prop::sample::Index>(), 0..3u8, alphabet);
    prop::collection::vec(change, 0..4).prop_map(|changes| {
        let mut text = SAMPLE.as_bytes().to_vec();
        for (index, how, byte) in changes {
            let at = index.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => {
                    text.remove(at);
                }
            }
        }
        text
    })
}

fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn accepts_exactly_what_is_json(text in nearly_json()) {
        match Object::parse(Bytes::from(text.clone())) {
            Ok(_) | Err(ObjectError::Field(_)) => prop_assert!(is_json(&text)),
            Err(ObjectError::NotAnObject) => {}
            Err(_) => prop_assert!(!is_json(&text)),
        }
    }

    #[test]
    fn reads_the_same_from_the_copy_as_from_the_text(text in nearly_json()) {
        let reader = ObjectReader::new(ManagedFields::Drop);
        let Ok(object) = reader.read(&text) else { return Ok(()) };
        let again = Object::parse(object.bytes().clone()).unwrap();
        prop_assert_eq!(format!("{object:?}"), format!("{again:?}"));
        prop_assert_eq!(object.labels().collect::<Vec<_>>(), again.labels().collect::<Vec<_>>());
        prop_assert_eq!((object.uid(), object.api_version()), (again.uid(), again.api_version()));
    }
}

#[test]
fn a_text_that_breaks_off_is_not_yet_an_object() {
    let reader = ObjectReader::default();
    let whole = SAMPLE.trim_end();
    for end in 0..whole.len() {
        assert!(
            matches!(reader.read_prefix(&whole.as_bytes()[..end]), Ok(None)),
            "{end}"
        );
    }
    let (object, end) = reader.read_prefix(SAMPLE.as_bytes()).unwrap().unwrap();
    assert_eq!((object.name(), end), ("n", whole.len()));
}

#[test]
fn takes_any_depth() {
    for depth in [1, 63, 64, 65, 128, 129, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":[", "]}")] {
            let text = format!(
                "{{\"spec\":{}1{},\"kind\":\"K\"}}",
                open.repeat(depth),
                close.repeat(depth)
            );
            assert_eq!(Object::parse(text.clone().into()).unwrap().kind(), "K", "{depth}");
            let wrong = text.replacen("1]", "1}", 1);
            assert!(Object::parse(wrong.into()).is_err(), "{depth}");
        }
    }
}

#[test]
fn drops_managed_fields_and_nothing_else() {
    let object = Object::parse_owned(SAMPLE.as_bytes(), ManagedFields::Drop).unwrap();
    let mut expect = json::decode(SAMPLE.as_bytes()).unwrap().value;
    expect["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    assert_eq!(object.to_value(), expect);
}

#[test]
fn completes_or_replaces_the_kind() {
    let kind = GroupVersionKind::new("x.io", "v1", "Thing");
    let missing = ObjectReader::new(ManagedFields::Drop).with_kind_if_missing(&kind);
    let always = ObjectReader::new(ManagedFields::Drop).with_kind(&kind);
    let whole = json!({"apiVersion": "x.io/v1", "kind": "Thing"});
    for text in ["{}", r#" {"kind":"Thing"}"#, r#"{"apiVersion":"x.io/v1"}"#] {
        assert_eq!(missing.read(text.as_bytes()).unwrap().to_value(), whole, "{text}");
        assert_eq!(always.read(text.as_bytes()).unwrap().to_value(), whole, "{text}");
    }
    let partial =
        br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","managedFields":[]}}"#;
    let object = always.read(partial).unwrap();
    assert_eq!(
        object.bytes(),
        r#"{"kind":"Thing","apiVersion":"x.io/v1","metadata":{"name":"a"}}"#
    );
    assert_eq!((object.kind(), object.name()), ("Thing", "a"));
    assert_eq!(missing.read(partial).unwrap().kind(), "PartialObjectMetadata");
}

#[test]
fn managed_fields_are_dropped_unread_but_only_once() {
    let reader = ObjectReader::new(ManagedFields::Drop);
    let odd = br#"{"metadata":{"managedFields":[{"]":oops,}],"name":"a"}}"#;
    assert_eq!(reader.read(odd).unwrap().bytes(), r#"{"metadata":{"name":"a"}}"#);
    assert!(ObjectReader::new(ManagedFields::Keep).read(odd).is_err());
    for twice in [
        r#"{"metadata":{"managedFields":[oops],"managedFields":[]}}"#,
        r#"{"metadata":{"managedFields":[oops]},"metadata":{"managedFields":[]}}"#,
    ] {
        assert!(reader.read(twice.as_bytes()).is_err(), "{twice}");
    }
}
