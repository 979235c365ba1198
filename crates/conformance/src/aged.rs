//! Makes an embedded server forget its first revisions, so that clients meet `410 Gone`.
//!
//! A busy server forgets in time; a test has none, so it writes more than the server keeps. The clients need not: for
//! them it takes many times as long. The real server needs nothing of this: it keeps no history from before a kind was
//! defined.

use anyhow::Context as _;
use http::Method;

use crate::transcript::scripts;
use crate::{Connection, Endpoint, Request};

/// Together more than the 32 MiB of replaced values that the embedded server keeps of one kind.
const N_CHANGES: usize = 28;
const FILLER_BYTES: usize = 5 << 18;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const APPS: &str = "/apis/myapps.example.com/v1/namespaces/default/applications";
/// Answers with metadata only, to spare both sides the filler.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Defines the kind `Application`, and forgets the beginning of its history.
pub(crate) fn forget_beginning(endpoint: &Endpoint) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime
        .block_on(write_much(endpoint))
        .context("write more than the server keeps")
}

async fn write_much(endpoint: &Endpoint) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await?;
    let definition = std::fs::read_to_string(scripts().join("fixtures/crd.yaml"))?;
    let definition = Request::new(Method::POST, DEFINITIONS).body("application/yaml", definition);
    connection.send(definition).await?.success()?;
    create_large(&mut connection).await?;
    let large = format!("{APPS}/large");
    for number in 0..N_CHANGES {
        let change = format!(r#"{{"spec":{{"replicas":{number}}}}}"#);
        let change = Request::patch(&large, "application/merge-patch+json", change);
        connection
            .send(change.header("accept", METADATA))
            .await?
            .success()?;
    }
    let delete = Request::new(Method::DELETE, large).header("accept", METADATA);
    connection.send(delete).await?.success()?;
    Ok(())
}

/// Creates the object as soon as its kind is served.
async fn create_large(connection: &mut Connection) -> anyhow::Result<()> {
    let filler = "x".repeat(FILLER_BYTES);
    let object = format!(
        r#"{{"apiVersion":"myapps.example.com/v1","kind":"Application","metadata":{{"name":"large"}},"spec":{{"image":"nginx","settings":{{"filler":"{filler}"}}}}}}"#
    );
    loop {
        let request = Request::post(APPS, object.clone()).header("accept", METADATA);
        let answer = connection.send(request).await?;
        if answer.status != 404 {
            return answer.success().map(drop);
        }
        tokio::task::yield_now().await;
    }
}
