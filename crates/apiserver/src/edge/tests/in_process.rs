//! The same chain without a socket, as `kube::Client` uses it.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use tower::Service as _;

use super::super::*;
use super::harness::Trivial;

fn edge() -> Edge<Arc<Trivial>> {
    Edge::new(Arc::new(Trivial::default()), EdgeConfig::default())
}

#[tokio::test]
async fn a_kube_client_works_without_a_socket() {
    let client = kube::Client::new(edge().in_process(User::admin()), "default");
    let version = client.apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    let request = http::Request::post("/echo").body(b"four".to_vec()).unwrap();
    assert_eq!(client.request_text(request).await.unwrap(), "kubernetes-admin 4");
}

#[tokio::test]
async fn the_given_user_counts_whatever_the_request_says() {
    let user = User {
        name: "me".into(),
        ..User::default()
    };
    let request = http::Request::get("/echo")
        .header("authorization", "Bearer x")
        .body(Full::<Bytes>::default());
    let response = edge().in_process(user).call(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn without_a_connection_the_edge_knows_tokens_only() {
    let request = http::Request::get("/echo")
        .body(Full::<Bytes>::default())
        .unwrap();
    assert_eq!(edge().call(request).await.unwrap().status(), 401);
}

#[tokio::test]
async fn draining_ends_streams_in_process_too() {
    use http_body_util::BodyExt as _;
    let edge = edge();
    let request = http::Request::get("/stream")
        .body(Full::<Bytes>::default())
        .unwrap();
    let mut body = edge
        .in_process(User::admin())
        .call(request)
        .await
        .unwrap()
        .into_body();
    assert!(body.frame().await.unwrap().is_ok());
    edge.drain();
    assert!(body.frame().await.is_none());
}
