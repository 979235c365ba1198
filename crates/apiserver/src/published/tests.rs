//! What the server says about itself: discovery documents, tags, OpenAPI.

use std::io::Read as _;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION,
    VARY,
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::present::fixture::{registry, widget_definition};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

struct Server {
    published: Published,
    registry: Registry,
}

impl Server {
    fn new() -> Server {
        Server {
            published: Published::default(),
            registry: registry(&widget_definition(), 1),
        }
    }

    fn ask(&self, method: &Method, uri: &str, headers: &[(HeaderName, &str)]) -> Option<Response<Bytes>> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        self.published
            .handle(&self.registry, method, &uri.parse().unwrap(), &headers)
    }

    fn get(&self, uri: &str, headers: &[(HeaderName, &str)]) -> Response<Bytes> {
        self.ask(&Method::GET, uri, headers).unwrap()
    }

    fn json(&self, uri: &str) -> Value {
        json_of(&self.get(uri, &[]))
    }
}

fn json_of(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

fn header(response: &Response<Bytes>, name: HeaderName) -> &str {
    response
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[test]
fn lists_groups_and_versions() {
    let server = Server::new();
    assert_eq!(
        server.get("/apis/pubs.example.com", &[]).body(),
        concat!(
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"pubs.example.com","versions":["#,
            r#"{"groupVersion":"pubs.example.com/v1","version":"v1"}],"#,
            r#""preferredVersion":{"groupVersion":"pubs.example.com/v1","version":"v1"}}"#,
            "\n"
        )
    );
    let names: Vec<Value> = server.json("/apis")["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["name"].clone())
        .collect();
    assert_eq!(names, ["apps", "pubs.example.com"]);
    assert_eq!(server.json("/api")["versions"], json!(["v1"]));
}

#[test]
fn lists_resources_of_a_custom_group_as_upstream() {
    let verbs = r#"["delete","deletecollection","get","list","patch","create","update","watch"]"#;
    let expect = [
        r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"pubs.example.com/v1","resources":["#,
        r#"{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":"#,
        verbs,
        r#","shortNames":["wd"],"categories":["all","pubs"],"storageVersionHash":"Wq9eMufILi8="},"#,
        r#"{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","#,
        r#""verbs":["get","patch","update"]},"#,
        r#"{"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","#,
        r#""kind":"Scale","verbs":["get","patch","update"]},"#,
        r#"{"name":"gizmos","singularName":"gizmo","namespaced":false,"kind":"Gizmo","verbs":"#,
        verbs,
        r#","storageVersionHash":"WDaTNAn0igA="}]}"#,
        "\n",
    ];
    assert_eq!(
        Server::new().get("/apis/pubs.example.com/v1/", &[]).body(),
        &expect.concat()
    );
}

#[test]
fn lists_built_in_resources_with_their_storage_hash() {
    let server = Server::new();
    let list = server.json("/api/v1");
    assert_eq!(list.get("apiVersion"), None);
    assert_eq!(list["resources"][0]["storageVersionHash"], "qFsyl6wFWjQ=");
    let list = server.json("/apis/apps/v1");
    let names: Vec<&Value> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["name"])
        .collect();
    assert_eq!(
        json!(names),
        json!(["deployments", "deployments/scale", "deployments/status"])
    );
    assert_eq!(list["resources"][1]["group"], "autoscaling");
}

#[test]
fn aggregated_discovery_spells_out_custom_kinds_only() {
    let server = Server::new();
    let response = server.get("/apis", &[(ACCEPT, AGGREGATED)]);
    assert_eq!(header(&response, CONTENT_TYPE), AGGREGATED);
    let list = json_of(&response);
    let kind_of = |group: usize, resource: usize| &list["items"][group]["versions"][0]["resources"][resource];
    assert_eq!(
        kind_of(0, 0)["responseKind"],
        json!({"group": "", "version": "", "kind": "Deployment"})
    );
    assert_eq!(kind_of(1, 0)["resource"], "gizmos");
    assert_eq!(
        kind_of(1, 1)["responseKind"],
        json!({"group": "pubs.example.com", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(
        kind_of(1, 1)["subresources"][1]["responseKind"]["group"],
        "autoscaling"
    );
    assert_eq!(list["items"][1]["versions"][0]["freshness"], "Current");
}

#[test]
fn aggregated_discovery_is_not_sent_twice() {
    let server = Server::new();
    let first = server.get("/apis", &[(ACCEPT, AGGREGATED)]);
    let tag = header(&first, ETAG);
    assert_eq!(
        (header(&first, VARY), header(&first, CACHE_CONTROL)),
        ("Accept", "public")
    );
    assert_eq!((tag.len(), tag.starts_with('"')), (130, true));
    let again = server.get("/apis", &[(ACCEPT, AGGREGATED), (IF_NONE_MATCH, tag)]);
    assert_eq!(
        (again.status(), again.body().len()),
        (StatusCode::NOT_MODIFIED, 0)
    );
    let core = server.get("/api", &[(ACCEPT, AGGREGATED), (IF_NONE_MATCH, tag)]);
    assert_eq!(core.status(), StatusCode::OK);
}

#[test]
fn old_aggregated_form_falls_back_to_the_plain_one() {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let response = Server::new().get("/apis", &[(ACCEPT, accept)]);
    assert_eq!(json_of(&response)["kind"], "APIGroupList");
    assert_eq!(header(&response, CONTENT_TYPE), "application/json");
}

#[test]
fn what_does_not_exist_is_not_found_as_upstream_says_it() {
    let server = Server::new();
    let text = "404 page not found\n";
    let status = "the server could not find the requested resource";
    for (uri, expect) in [
        ("/apis/nope", text),
        ("/apis/nope/v1", text),
        ("/apis/pubs.example.com/v9", text),
        ("/apis/apps/v9", status),
        ("/api/v2", status),
        ("/openapi/v3/apis/nope/v1", ""),
    ] {
        let response = server.get(uri, &[]);
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{uri}");
        let body = String::from_utf8_lossy(response.body()).into_owned();
        assert!(
            body.contains(expect) && (!expect.is_empty() || body.is_empty()),
            "{uri}: {body}"
        );
    }
    for uri in [
        "/",
        "/healthz",
        "/apis/apps/v1/deployments",
        "/openapi",
        "/openapi/v2/",
        "/apisx",
    ] {
        assert!(server.ask(&Method::GET, uri, &[]).is_none(), "{uri}");
    }
}

#[test]
fn only_some_endpoints_look_at_the_method() {
    let server = Server::new();
    let post = |uri| server.ask(&Method::POST, uri, &[]).unwrap().status();
    assert_eq!(post("/api"), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(post("/apis/apps/v1"), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(post("/apis"), StatusCode::OK);
    assert_eq!(post("/apis/pubs.example.com/v1"), StatusCode::OK);
}

#[test]
fn discovery_speaks_protobuf() {
    let accept = "application/vnd.kubernetes.protobuf";
    let response = Server::new().get("/apis/apps", &[(ACCEPT, accept)]);
    let expect = [
        &b"k8s\0\x0a\x0e\x0a\x02v1\x12\x08APIGroup\x12\x24\x0a\x04apps"[..],
        b"\x12\x0d\x0a\x07apps/v1\x12\x02v1\x1a\x0d\x0a\x07apps/v1\x12\x02v1\x1a\x00\x22\x00",
    ]
    .concat();
    assert_eq!(response.body(), &expect);
}

#[test]
fn openapi_documents_are_found_by_their_hash() {
    let server = Server::new();
    let index = server.json("/openapi/v3");
    let url = index["paths"]["apis/pubs.example.com/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    assert!(url.starts_with("/openapi/v3/apis/pubs.example.com/v1?hash="));
    let hit = server.get(url, &[]);
    assert_eq!(header(&hit, CACHE_CONTROL), "public, immutable");
    assert_eq!(json_of(&hit)["openapi"], "3.0.0");
    let miss = server.get("/openapi/v3/apis/pubs.example.com/v1?hash=old", &[]);
    assert_eq!(
        (miss.status(), header(&miss, LOCATION)),
        (StatusCode::MOVED_PERMANENTLY, url)
    );
    let known = server.get(
        "/openapi/v3/apis/pubs.example.com/v1",
        &[(IF_NONE_MATCH, header(&hit, ETAG))],
    );
    assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
}

#[test]
fn the_hash_follows_the_definition_but_not_its_status() {
    let mut server = Server::new();
    let hash = |server: &Server| server.json("/openapi/v3")["paths"]["apis/pubs.example.com/v1"].to_string();
    let first = hash(&server);
    let mut definition = widget_definition();
    definition["status"] = json!({"conditions": []});
    server.registry = registry(&definition, 2);
    assert_eq!(hash(&server), first);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another.".into();
    server.registry = registry(&definition, 3);
    assert_ne!(hash(&server), first);
}

#[test]
fn openapi_is_packed_for_those_who_take_it() {
    let server = Server::new();
    let packed = server.get("/openapi/v3/api/v1", &[(ACCEPT_ENCODING, "gzip")]);
    assert_eq!(header(&packed, CONTENT_ENCODING), "gzip");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.body().as_ref())
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(server.get("/openapi/v3/api/v1", &[]).body(), &unpacked);
    let html = server.get("/openapi/v3/api/v1", &[(ACCEPT, "text/html")]);
    assert_eq!(html.status(), StatusCode::NOT_ACCEPTABLE);
}

#[test]
fn patches_name_the_parameters_kubectl_looks_for() {
    let server = Server::new();
    for (document, path, group, kind) in [
        (
            "apis/pubs.example.com/v1",
            "namespaces/{namespace}/widgets/{name}",
            "pubs.example.com",
            "Widget",
        ),
        (
            "api/v1",
            "namespaces/{namespace}/configmaps/{name}",
            "",
            "ConfigMap",
        ),
    ] {
        let document_json = server.json(&format!("/openapi/v3/{document}"));
        let patch = &document_json["paths"][&format!("/{document}/{path}")]["patch"];
        let expect = json!({"group": group, "version": "v1", "kind": kind});
        assert_eq!(patch["x-kubernetes-group-version-kind"], expect);
        let names: Vec<&Value> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| &p["name"])
            .collect();
        assert_eq!(
            json!(names),
            json!(["dryRun", "fieldManager", "fieldValidation", "force"])
        );
    }
}

#[test]
fn a_custom_schema_is_published_as_its_author_wrote_it() {
    let document = Server::new().json("/openapi/v3/apis/pubs.example.com/v1");
    let schemas = &document["components"]["schemas"];
    let widget = &schemas["com.example.pubs.v1.Widget"];
    assert_eq!(widget["description"], "A widget.");
    let reference = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(
        widget["properties"]["metadata"]["allOf"],
        json!([{"$ref": reference}])
    );
    assert_eq!(
        widget["x-kubernetes-selectable-fields"],
        json!([{"fieldPath": "spec.color"}])
    );
    let spec = &widget["properties"]["spec"]["properties"];
    assert_eq!(
        spec["port"]["anyOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    assert_eq!(spec["template"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(spec["choice"]["oneOf"], json!([{"required": ["a"]}]));
    let list = &schemas["com.example.pubs.v1.WidgetList"];
    let item = "#/components/schemas/com.example.pubs.v1.Widget";
    assert_eq!(list["properties"]["items"]["items"], json!({"$ref": item}));
    // The fixture stores no definition for gizmos, so nothing is known about their fields.
    assert_eq!(schemas["com.example.pubs.v1.Gizmo"].get("properties"), None);
    for name in ["ObjectMeta", "ListMeta", "DeleteOptions", "Status", "Patch"] {
        assert!(
            schemas
                .get(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"))
                .is_some(),
            "{name}"
        );
    }
}

#[test]
fn version_2_leaves_out_what_it_has_no_words_for() {
    let document = Server::new().json("/openapi/v2");
    let widget = &document["definitions"]["com.example.pubs.v1.Widget"];
    assert_eq!(
        widget["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let spec = &widget["properties"]["spec"];
    assert_eq!(spec["required"], json!(["color"]));
    assert_eq!(spec["properties"]["size"], json!({"minimum": 0}));
    assert_eq!(
        spec["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
    assert_eq!(
        spec["properties"]["blob"],
        json!({"x-kubernetes-preserve-unknown-fields": true})
    );
    assert_eq!(spec["properties"]["choice"].get("oneOf"), None);
    assert!(!document.to_string().contains("#/components/"));
}

#[test]
fn every_reference_leads_somewhere() {
    let server = Server::new();
    for (uri, place, prefix) in [
        (
            "/openapi/v3/api/v1",
            "/components/schemas",
            "#/components/schemas/",
        ),
        (
            "/openapi/v3/apis/apps/v1",
            "/components/schemas",
            "#/components/schemas/",
        ),
        (
            "/openapi/v3/apis/pubs.example.com/v1",
            "/components/schemas",
            "#/components/schemas/",
        ),
        ("/openapi/v2", "/definitions", "#/definitions/"),
    ] {
        let document = server.json(uri);
        let schemas = document.pointer(place).unwrap();
        let mut references = Vec::new();
        collect_references(&document, &mut references);
        assert!(!references.is_empty());
        for reference in references {
            let name = reference.strip_prefix(prefix).unwrap();
            assert!(schemas.get(name).is_some(), "{uri}: {reference}");
        }
    }
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| collect_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_references(value, found)),
        _ => {}
    }
}

#[test]
fn version_2_comes_in_protobuf_too() {
    let server = Server::new();
    for accept in [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        OPENAPI_V2_TYPE,
    ] {
        let response = server.get("/openapi/v2", &[(ACCEPT, accept)]);
        assert_eq!(header(&response, CONTENT_TYPE), OPENAPI_V2_TYPE);
        assert!(response.body().starts_with(b"\x0a\x032.0"));
    }
    assert_eq!(
        server.get("/openapi/v2", &[(ACCEPT, "text/html")]).status(),
        StatusCode::NOT_ACCEPTABLE
    );
}

#[test]
fn kept_documents_stay_below_their_bound() {
    let published = Published::default();
    for i in 0..5 {
        let name = i.to_string();
        published
            .packed(&name, "tag", || Ok(vec![0; MAX_KEPT_BYTES / 3]))
            .unwrap();
    }
    let kept: usize = published
        .cache
        .lock()
        .unwrap()
        .documents
        .iter()
        .map(|d| d.bytes.len())
        .sum();
    assert!(kept <= MAX_KEPT_BYTES);
    assert!(published.take_kept("4", "tag").is_some());
    assert!(published.take_kept("4", "newer").is_none());
    assert!(published.take_kept("0", "tag").is_none());
}
