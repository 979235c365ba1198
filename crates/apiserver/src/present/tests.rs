//! How objects look to clients: negotiation, tables, lists, watch events, errors, bodies.

use std::io::Read as _;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use serde_json::{Value, json};
use skopos_object::{GroupResource, Status};

use super::fixture::{built_in, gizmo, widget};
use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
/// Half a minute after the widget's creation.
const NOW: i64 = 1_794_779_344;

fn headers(accept: &str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())])
}

fn query(text: &str) -> Query {
    Query::parse(&format!("/x?{text}").parse().unwrap())
}

fn negotiate(accept: &str, resource: &Resource, purpose: Purpose) -> Result<Wanted, Status> {
    Wanted::negotiate(&headers(accept), &query(""), resource, purpose)
}

fn wanted(accept: &str) -> Wanted {
    negotiate(accept, &widget(), Purpose::Watch).unwrap()
}

fn one() -> Value {
    json!({
        "apiVersion": "pubs.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": "pubs", "resourceVersion": "297",
            "creationTimestamp": "2026-11-15T21:48:34Z"},
        "spec": {"color": "red", "size": 3},
    })
}

fn json_of(body: &Body) -> Value {
    serde_json::from_slice(&body.bytes).unwrap()
}

#[test]
fn custom_resources_are_text_and_built_ins_also_protobuf() {
    let pb = "application/vnd.kubernetes.protobuf";
    let config_map = built_in("", "v1", "ConfigMap");
    for (accept, resource, expect) in [
        ("", widget(), Some(Encoding::Json)),
        ("*/*", widget(), Some(Encoding::Json)),
        ("application/*", widget(), Some(Encoding::Json)),
        ("application/yaml", widget(), Some(Encoding::Yaml)),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            widget(),
            Some(Encoding::Json),
        ),
        (
            "application/json;q=0.5,application/yaml",
            widget(),
            Some(Encoding::Yaml),
        ),
        (pb, widget(), None),
        (pb, config_map, Some(Encoding::Protobuf)),
        ("text/html", widget(), None),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", widget(), None),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", widget(), None),
        (
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
            widget(),
            None,
        ),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            widget(),
            Some(Encoding::Protobuf),
        ),
    ] {
        let found = negotiate(accept, &resource, Purpose::Object).map(|wanted| wanted.encoding);
        assert_eq!(found.ok(), expect, "{accept} of {}", resource.kind);
    }
}

#[test]
fn refusals_say_what_there_is() {
    let message = |accept: &str, purpose| negotiate(accept, &widget(), purpose).unwrap_err().message;
    assert_eq!(
        message("text/html", Purpose::Object),
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
    );
    assert_eq!(
        message("application/yaml", Purpose::Watch),
        "only the following media types are accepted: application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch"
    );
    assert_eq!(
        message(PARTIAL, Purpose::List),
        "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)"
    );
    let refused = Wanted::negotiate(
        &headers(TABLE),
        &query("includeObject=Foo"),
        &widget(),
        Purpose::List,
    );
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', \
         'Object', 'None', or empty"
    );
}

#[test]
fn only_undecorated_json_may_skip_decoding() {
    assert!(wanted("application/json").is_plain_json());
    for accept in [TABLE, PARTIAL] {
        assert!(!wanted(accept).is_plain_json(), "{accept}");
    }
    let mut curl = headers("*/*");
    curl.insert(USER_AGENT, "curl/8".parse().unwrap());
    assert!(
        !Wanted::negotiate(&curl, &query(""), &widget(), Purpose::Object)
            .unwrap()
            .is_plain_json()
    );
    assert!(
        Wanted::negotiate(&curl, &query(""), &widget(), Purpose::Watch)
            .unwrap()
            .is_plain_json()
    );
}

#[test]
fn objects_end_with_a_newline_unless_indented() {
    let plain = object(&wanted("application/json"), &widget(), json!({"a": 1}), NOW).unwrap();
    assert_eq!(plain.bytes, "{\"a\":1}\n");
    let pretty = Wanted {
        pretty: true,
        ..wanted("application/json")
    };
    let pretty = object(&pretty, &widget(), json!({"a": 1}), NOW).unwrap();
    assert_eq!(pretty.bytes, "{\n  \"a\": 1\n}");
}

#[test]
fn table_has_the_columns_of_the_definition() {
    let body = object(&wanted(TABLE), &widget(), one(), NOW).unwrap();
    let table = json_of(&body);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["metadata"], json!({"resourceVersion": "297"}));
    let columns = table["columnDefinitions"].as_array().unwrap();
    let shown: Vec<_> = columns
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), &c["type"], &c["priority"]))
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            ["Name", "string", 0],
            ["Color", "string", 0],
            ["Size", "integer", 1],
            ["Age", "date", 0]
        ])
    );
    let row = &table["rows"][0];
    assert_eq!(row["cells"], json!(["one", "red", 3, "30s"]));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"].get("spec"), None);
}

#[test]
fn rows_carry_as_much_of_the_object_as_asked() {
    for (text, expect) in [("None", Value::Null), ("Object", one())] {
        let wanted = Wanted::negotiate(
            &headers(TABLE),
            &query(&format!("includeObject={text}")),
            &widget(),
            Purpose::List,
        );
        let items = std::iter::once(one());
        let body = list(&wanted.unwrap(), &widget(), &ListMeta::default(), items, NOW).unwrap();
        assert_eq!(json_of(&body)["rows"][0]["object"], expect, "{text}");
    }
}

#[test]
fn without_columns_a_table_shows_name_and_age() {
    let body = list(
        &wanted(TABLE),
        &gizmo(),
        &ListMeta::default(),
        std::iter::once(one()),
        NOW,
    )
    .unwrap();
    let table = json_of(&body);
    assert_eq!(table["rows"][0]["cells"], json!(["one", "30s"]));
    assert_eq!(table["columnDefinitions"][1]["name"], "Age");
}

#[test]
fn lists_carry_their_metadata_and_items() {
    let meta = ListMeta {
        resource_version: "7".to_owned(),
        continue_token: Some("abc".to_owned()),
        remaining: Some(2),
    };
    let items = || [json!({"a": 1}), json!({"b": 2})].into_iter();
    let body = list(&wanted("application/json"), &widget(), &meta, items(), NOW).unwrap();
    let expect = concat!(
        r#"{"apiVersion":"pubs.example.com/v1","items":[{"a":1},{"b":2}],"kind":"WidgetList","#,
        r#""metadata":{"continue":"abc","remainingItemCount":2,"resourceVersion":"7"}}"#,
        "\n"
    );
    assert_eq!(body.bytes, expect);
    let config_map = built_in("", "v1", "ConfigMap");
    let empty = ListMeta {
        resource_version: "7".to_owned(),
        ..ListMeta::default()
    };
    let body = list(
        &wanted("application/json"),
        &config_map,
        &empty,
        std::iter::empty(),
        NOW,
    )
    .unwrap();
    let expect = concat!(
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#,
        "\n"
    );
    assert_eq!(body.bytes, expect);
}

#[test]
fn partial_lists_drop_all_but_metadata() {
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let wanted = negotiate(accept, &widget(), Purpose::List).unwrap();
    let body = list(
        &wanted,
        &widget(),
        &ListMeta::default(),
        std::iter::once(one()),
        NOW,
    )
    .unwrap();
    let found = json_of(&body);
    assert_eq!(found["kind"], "PartialObjectMetadataList");
    assert_eq!(found["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(found["items"][0]["metadata"]["name"], "one");
    assert_eq!(found["items"][0].get("spec"), None);
}

#[test]
fn only_the_first_event_of_a_watched_table_names_columns() {
    let event = |first| -> Value {
        let line = watch_event(&wanted(TABLE), &widget(), "ADDED", &one(), first, NOW);
        assert!(line.ends_with(b"\n"));
        serde_json::from_slice(&line).unwrap()
    };
    assert_eq!(
        event(true)["object"]["columnDefinitions"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
    assert_eq!(event(false)["object"]["columnDefinitions"], Value::Null);
    assert_eq!(event(false)["object"]["rows"][0]["cells"][0], "one");
}

#[test]
fn the_bookmark_that_ends_initial_events_keeps_its_metadata() {
    let wanted = Wanted::negotiate(
        &headers(TABLE),
        &query("includeObject=None"),
        &widget(),
        Purpose::Watch,
    )
    .unwrap();
    let bookmark = json!({"apiVersion": "pubs.example.com/v1", "kind": "Widget", "metadata":
        {"resourceVersion": "297", "annotations": {"k8s.io/initial-events-end": "true"}}});
    let line = watch_event(&wanted, &widget(), "BOOKMARK", &bookmark, false, NOW);
    let event: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(event["object"]["rows"][0]["cells"], json!(["", null, null, null]));
    assert_eq!(
        event["object"]["rows"][0]["object"]["metadata"]["resourceVersion"],
        "297"
    );
}

#[test]
fn errors_in_a_watch_keep_their_form() {
    let error = Status::expired("too old resource version: 1 (296)").to_json();
    let line = watch_event(&wanted(TABLE), &widget(), "ERROR", &error, true, NOW);
    let event: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["kind"]),
        (&json!("ERROR"), &json!("Status"))
    );
}

#[test]
fn statuses_are_never_refused() {
    let group_resource = GroupResource {
        group: String::new(),
        resource: "configmaps".to_owned(),
    };
    let missing = Status::not_found(&group_resource, "nope");
    let plain = status(&headers("application/json"), &query(""), &missing);
    let expect = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#;
    assert!(plain.bytes.starts_with(expect.as_bytes()), "{:?}", plain.bytes);
    assert!(plain.bytes.ends_with(b"}\n"));
    let fallback = status(&headers(TABLE), &query(""), &missing);
    assert!(fallback.bytes.starts_with(b"{\n  \"kind\": \"Status\""));
    let protobuf = status(
        &headers("application/vnd.kubernetes.protobuf"),
        &query(""),
        &missing,
    );
    assert_eq!(protobuf.content_type, "application/vnd.kubernetes.protobuf");
    assert!(protobuf.bytes.starts_with(b"k8s\0"));
}

#[test]
fn large_bodies_are_packed_for_those_who_ask() {
    let mut gzip = headers("application/json");
    gzip.insert(ACCEPT_ENCODING, "br, gzip".parse().unwrap());
    let wanted = Wanted::negotiate(&gzip, &query(""), &widget(), Purpose::List).unwrap();
    let large = Bytes::from(vec![b'a'; 128 * 1024 + 1]);
    let (packed, is_packed) = gzip_if_large(&wanted, large.clone());
    assert!(is_packed && packed.len() < 2000);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.as_ref())
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, large);
    assert!(!gzip_if_large(&wanted, large.slice(1..)).1);
    assert!(!gzip_if_large(&self::wanted("application/json"), large).1);
}

fn decode(content_type: &str, body: &str, types: Types) -> Result<Value, Status> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type.parse().unwrap())]);
    decode_body(&headers, &Bytes::from(body.to_owned()), "Widget", types).map(|decoded| decoded.value)
}

#[test]
fn bodies_are_read_in_every_format() {
    assert_eq!(
        decode("application/json; charset=utf-8", r#"{"a":1}"#, Types::Optional),
        Ok(json!({"a": 1}))
    );
    assert_eq!(
        decode("application/yaml", "a: 1", Types::Optional),
        Ok(json!({"a": 1}))
    );
    assert_eq!(decode("", r#"{"a":1}"#, Types::Optional), Ok(json!({"a": 1})));
}

#[test]
fn bad_bodies_get_upstreams_words() {
    let missing = "the object provided is unrecognized (must be of type Widget): ";
    for (content_type, body, code, message) in [
        (
            "text/plain",
            "{}",
            415,
            "the body of the request was in an unknown format - accepted media types \
            include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
                .to_owned(),
        ),
        (
            "application/json",
            r#"{"metadata":{}}"#,
            400,
            format!(r#"{missing}Object 'Kind' is missing in '{{"metadata":{{}}}}' ({{"metadata":{{}}}})"#),
        ),
        (
            "application/json",
            "[]",
            400,
            format!(
                "{missing}couldn't get version/kind; json parse error: json: \
            cannot unmarshal array into Go value of type struct {{ APIVersion string \
            \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} (5b5d)"
            ),
        ),
        (
            "application/json",
            r#"{"a":"#,
            400,
            format!(
                "{missing}couldn't get version/kind; json parse error: \
            unexpected end of JSON input ({{\"a\":)"
            ),
        ),
        (
            "application/json",
            "",
            400,
            format!(
                "{missing}couldn't get version/kind; json parse error: \
            unexpected end of JSON input (<empty>)"
            ),
        ),
        (
            "application/json",
            r#"{"kind":7}"#,
            400,
            format!(
                "{missing}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go \
                 struct field .kind of type string ({{\"kind\":7}})"
            ),
        ),
        (
            "application/vnd.kubernetes.protobuf",
            "{}",
            400,
            format!(
                "{missing}provided data does not appear to be \
            a protobuf message, expected prefix [107 56 115 0] ({{}})"
            ),
        ),
    ] {
        let status = decode(content_type, body, Types::Required).unwrap_err();
        assert_eq!(
            (status.code, status.message),
            (code, message),
            "{content_type} {body}"
        );
    }
}

#[test]
fn statuses_and_watch_events_come_in_protobuf() {
    let refused = Status::not_acceptable("no");
    let body = status(
        &headers("application/vnd.kubernetes.protobuf"),
        &query(""),
        &refused,
    );
    let (gvk, value) = skopos_builtin::protobuf::decode(&body.bytes).unwrap();
    assert_eq!(
        (gvk.kind.as_str(), &value["message"], &value["code"]),
        ("Status", &json!("no"), &json!(406))
    );

    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let wanted = negotiate(accept, &widget(), Purpose::Watch).unwrap();
    assert_eq!(
        wanted.watch_content_type(),
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
    let frame = watch_event(&wanted, &widget(), "ADDED", &one(), true, NOW);
    assert_eq!(usize::from(frame[3]), frame.len() - 4);
    assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
    let start = frame.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
    let (gvk, value) = skopos_builtin::protobuf::decode(&frame[start..]).unwrap();
    assert_eq!(gvk.kind, "PartialObjectMetadata");
    assert_eq!(value["metadata"], one()["metadata"]);
}

#[test]
fn protobuf_lists_hold_every_item() {
    let config_map = built_in("", "v1", "ConfigMap");
    let wanted = negotiate("application/vnd.kubernetes.protobuf", &config_map, Purpose::List).unwrap();
    let item = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let meta = ListMeta {
        resource_version: "7".to_owned(),
        ..ListMeta::default()
    };
    let body = list(
        &wanted,
        &config_map,
        &meta,
        [item("a"), item("b")].into_iter(),
        NOW,
    )
    .unwrap();
    let (gvk, value) = skopos_builtin::protobuf::decode(&body.bytes).unwrap();
    assert_eq!(gvk.kind, "ConfigMapList");
    assert_eq!(value["metadata"]["resourceVersion"], "7");
    assert_eq!(value["items"][1]["metadata"]["name"], "b");
}
