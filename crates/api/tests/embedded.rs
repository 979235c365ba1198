//! The embedded server takes the definitions, and objects of them.

use serde_json::json;
use skopos_testkit::TestServer;

#[tokio::test]
async fn embedded_server_takes_definitions_and_objects() {
    let server = TestServer::start().await;
    for definition in skopos_api::definitions() {
        server.put(&definition).await;
    }
    let rule = json!({
        "apiVersion": "skopos.dev/v1alpha1", "kind": "Rule", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"watch": {"kind": "Pod"}, "do": [{"sink": "s", "template": {"n": [1]}}]},
    });
    let read: skopos_api::Rule = serde_json::from_value(server.put(&rule).await).unwrap();
    assert_eq!(read.spec.actions[0].template.as_ref().unwrap()["n"][0], 1);
    assert_eq!(read.spec.existing, skopos_api::Existing::Ignore);
}
