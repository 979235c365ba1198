//! Forms of an answer: JSON, YAML, tables, metadata only, compressed.

use std::io::Read as _;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{MAPS, Server, WIDGETS, config_map, definition, widget, with_meta};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn an_absent_object_is_not_found() {
    let server = Server::with_widgets().await;
    let answer = server.get(&format!("{WIDGETS}/none")).await;
    answer.refused(404, "NotFound", "widgets.example.com \"none\" not found");
    let details = json!({"name": "none", "group": "example.com", "kind": "widgets"});
    assert_eq!(answer.body["details"], details);
}

#[tokio::test]
async fn objects_and_lists_come_as_yaml_on_request() {
    let server = Server::with_widgets().await;
    let object = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let answer = server.get_as(&format!("{WIDGETS}/a"), "application/yaml").await;
    assert_eq!(answer.header("content-type"), "application/yaml");
    let mut shown = skopos_object::yaml::decode(&answer.bytes).unwrap().value;
    Server::forget_managers(&mut shown);
    assert_eq!(shown, object);
    let list = server.get_as(WIDGETS, "application/yaml").await;
    assert_eq!(
        skopos_object::yaml::decode(&list.bytes).unwrap().value["kind"],
        "WidgetList"
    );
}

#[tokio::test]
async fn custom_resources_come_as_tables_with_their_columns() {
    let server = Server::with_widgets().await;
    let created = server
        .post(WIDGETS, widget("a", json!({"color": "red"})))
        .await
        .ok();
    let table = server.get_as(WIDGETS, TABLE).await.ok();
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    let columns: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(columns, ["Name", "Color", "Size"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "red", 1]));
    let object = &table["rows"][0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(object["metadata"], created["metadata"]);
    let one = server.get_as(&format!("{WIDGETS}/a"), TABLE).await.ok();
    assert_eq!(one["rows"], table["rows"]);
    let whole = server
        .get_as(&format!("{WIDGETS}?includeObject=Object"), TABLE)
        .await
        .ok();
    assert_eq!(whole["rows"][0]["object"], created);
    let bare = server
        .get_as(&format!("{WIDGETS}?includeObject=None"), TABLE)
        .await
        .ok();
    assert_eq!(bare["rows"][0]["object"], Value::Null);
}

#[tokio::test]
async fn without_columns_a_table_shows_the_age() {
    let server = Server::start().await;
    server.install(definition("opens", "Open")).await;
    let table = server.get_as("/apis/example.com/v1/opens", TABLE).await.ok();
    let columns: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(
        (columns, &table["rows"]),
        (vec![&json!("Name"), &json!("Age")], &json!([]))
    );
}

#[tokio::test]
async fn built_in_kinds_have_the_columns_kubectl_shows() {
    let server = Server::start().await;
    server
        .post(
            MAPS,
            with_meta(
                config_map("a", json!({"x": "1", "y": "2"})),
                json!({"labels": {"l": "1"}}),
            ),
        )
        .await
        .ok();
    let table = server
        .get_as(&format!("{MAPS}?labelSelector=l"), TABLE)
        .await
        .ok();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..2], [json!("a"), json!(2)]);
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let one = server.get_as(&format!("{WIDGETS}/a"), METADATA).await.ok();
    let expected = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": created["metadata"],
    });
    assert_eq!(one, expected);
    let list = server.get_as(WIDGETS, METADATA_LIST).await.ok();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"], created["metadata"]);
    assert_eq!(list["items"][0].get("spec"), None);
    let mut watch = server.watch_as(WIDGETS, METADATA).await;
    assert_eq!(watch.next().await.object, expected);
}

#[tokio::test]
async fn the_first_acceptable_form_is_chosen_and_none_is_an_error() {
    let server = Server::with_widgets().await;
    let accept = format!("{TABLE},application/json");
    assert_eq!(server.get_as(WIDGETS, &accept).await.ok()["kind"], "Table");
    let protobuf_first = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(
        server.get_as(WIDGETS, protobuf_first).await.ok()["kind"],
        "WidgetList"
    );
    let answer = server.get_as(WIDGETS, "image/png").await;
    assert_eq!(
        (answer.code, answer.body["reason"].as_str()),
        (406, Some("NotAcceptable")),
        "{}",
        answer.text()
    );
    assert_eq!(server.get_as(WIDGETS, "*/*").await.code, 200);
}

#[tokio::test]
async fn only_large_answers_are_compressed_and_only_on_request() {
    let server = Server::with_widgets().await;
    let filler = "x".repeat(60_000);
    for name in ["a", "b", "c"] {
        server
            .post(WIDGETS, widget(name, json!({"title": filler})))
            .await
            .ok();
    }
    let gzip = [("accept-encoding", "gzip")];
    let plain = server.get(WIDGETS).await;
    assert_eq!(plain.header("content-encoding"), "");
    let packed = server.send(Method::GET, WIDGETS, &gzip, "").await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.bytes.len() < 20_000, "{}", packed.bytes.len());
    let mut unpacked = String::new();
    flate2::read::MultiGzDecoder::new(&packed.bytes[..])
        .read_to_string(&mut unpacked)
        .unwrap();
    if !server.is_real() {
        assert_eq!(unpacked, plain.text());
    }
    let small = server
        .send(Method::GET, &format!("{WIDGETS}?limit=2"), &gzip, "")
        .await;
    assert_eq!(
        small.header("content-encoding"),
        "",
        "up to 128 KiB is not worth it"
    );
    let yaml = [("accept-encoding", "gzip"), ("accept", "application/yaml")];
    assert_eq!(
        server
            .send(Method::GET, WIDGETS, &yaml, "")
            .await
            .header("content-encoding"),
        "gzip"
    );
}

#[tokio::test]
async fn writes_answer_in_the_form_asked_for() {
    let server = Server::with_widgets().await;
    let headers = [("content-type", "application/json"), ("accept", TABLE)];
    let body = widget("a", json!({"color": "blue"})).to_string();
    let table = server.send(Method::POST, WIDGETS, &headers, &body).await;
    assert_eq!(
        (table.code, &table.body["rows"][0]["cells"]),
        (201, &json!(["a", "blue", 1]))
    );
    let headers = [
        ("content-type", "application/merge-patch+json"),
        ("accept", "application/yaml"),
    ];
    let patched = server
        .send(
            Method::PATCH,
            &format!("{WIDGETS}/a"),
            &headers,
            r#"{"spec":{"size":4}}"#,
        )
        .await;
    assert_eq!(
        skopos_object::yaml::decode(&patched.bytes).unwrap().value["spec"]["size"],
        4
    );
}

#[tokio::test]
async fn shapes_of_paths_that_are_not_served_are_refused() {
    let server = Server::with_widgets().await;
    let page = |path: &'static str| (path, 404, "404 page not found\n");
    let cases = [
        page("/apis/example.com/v2/widgets"),
        page("/apis/example.com/v1/gadgets"),
        page("/apis/nothing.io/v1/widgets"),
        page("/apis/example.com/v1/widgets/a"),
    ];
    for (path, code, text) in cases {
        let answer = server.get(path).await;
        assert_eq!((answer.code, answer.text().as_str()), (code, text), "{path}");
    }
    let unknown = server.get("/api/v1/namespaces/home/things").await;
    unknown.refused(
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
}
