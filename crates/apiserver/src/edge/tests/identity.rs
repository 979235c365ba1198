//! Who gets in, and as whom.

use super::super::*;
use super::harness::{Server, exchange, head};

#[tokio::test]
async fn a_client_certificate_names_the_user() {
    let server = Server::start(Limits::default()).await;
    let mut stream = server
        .connect_as("http/1.1", Some(server.pki.admin()))
        .await
        .unwrap();
    let reply = exchange(&mut stream, &head("GET", "/echo", "")).await;
    assert_eq!(reply.body, "kubernetes-admin 0");
    let mut stream = server
        .connect_as("http/1.1", Some(server.pki.admin()))
        .await
        .unwrap();
    let reply = exchange(
        &mut stream,
        &head("GET", "/echo", "Authorization: Bearer wrong\r\n"),
    )
    .await;
    assert_eq!(reply.code, 200, "a valid certificate wins over a wrong token");
    server.stop().await;
}

#[tokio::test]
async fn a_strangers_certificate_is_401_not_a_broken_handshake() {
    let server = Server::start(Limits::default()).await;
    let stranger = Pki::load_or_create(None, &[]).unwrap();
    let mut stream = server
        .connect_as("http/1.1", Some(stranger.admin()))
        .await
        .unwrap();
    assert_eq!(exchange(&mut stream, &head("GET", "/echo", "")).await.code, 401);
    let mut stream = server
        .connect_as("http/1.1", Some(stranger.admin()))
        .await
        .unwrap();
    let reply = exchange(&mut stream, &head("GET", "/echo", &server.authorization())).await;
    assert_eq!(reply.code, 200, "a good token makes up for it");
    server.stop().await;
}

#[tokio::test]
async fn a_serving_certificate_is_no_client_certificate() {
    let server = Server::start(Limits::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let (certificate, key) = (read("apiserver.crt"), read("apiserver.key"));
    let chain = tls::certificates(certificate.as_bytes(), dir.path()).unwrap();
    let identity = pki.client_authority(None).unwrap().identify(&chain);
    assert!(identity.user().is_err());
    assert!(!key.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn wrong_or_missing_tokens_get_401() {
    let server = Server::start(Limits::default()).await;
    let unauthorized = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
                        \"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n";
    for (path, headers) in [
        ("/echo", ""),
        ("/readyz/ping", ""),
        ("/metrics", ""),
        ("/", ""),
        ("/echo", "Authorization: Bearer wrong\r\n"),
        ("/healthz", "Authorization: Bearer wrong\r\n"),
        ("/echo", "Authorization: Basic eDp5\r\n"),
    ] {
        let reply = server.get(path, headers).await;
        assert_eq!(
            (reply.code, reply.body.as_str()),
            (401, unauthorized),
            "{path} {headers}"
        );
        assert!(reply.has_header("content-type: application/json"));
    }
    server.stop().await;
}

#[tokio::test]
async fn impersonation_is_for_the_administrator() {
    let server = Server::start(Limits::default()).await;
    let headers = format!("{}Impersonate-User: bob\r\n", server.authorization());
    assert_eq!(server.get("/echo", &headers).await.body, "bob 0");
    let reply = server
        .get(
            "/echo",
            "Authorization: Bearer eves-token\r\nImpersonate-User: bob\r\n",
        )
        .await;
    assert_eq!(reply.code, 403);
    let message = "users \\\"bob\\\" is forbidden: User \\\"eve\\\" cannot impersonate resource";
    assert!(reply.body.contains(message), "{}", reply.body);
    server.stop().await;
}

#[test]
fn kubeconfigs_embed_everything_and_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::load_or_create(None, &[]).unwrap();
    let path = dir.path().join("admin.kubeconfig");
    Kubeconfig::admin("https://127.0.0.1:6443", &pki)
        .write(&path)
        .unwrap();
    let config = kube::config::Kubeconfig::read_from(&path).unwrap();
    let cluster = config.clusters[0].cluster.as_ref().unwrap();
    assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
    let user = config.auth_infos[0].auth_info.as_ref().unwrap();
    assert!(user.token.is_some() && user.client_certificate_data.is_none());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let nowhere = Kubeconfig::admin("x", &pki)
        .write(std::path::Path::new("/nonexistent/x"))
        .unwrap_err();
    assert!(nowhere.to_string().contains("/nonexistent/x"));
}

#[test]
fn serving_files_from_outside_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    let authority = pki.client_authority(Some(&dir.path().join("ca.crt"))).unwrap();
    let serving = ServingCertificate::from_files(
        &dir.path().join("apiserver.crt"),
        &dir.path().join("apiserver.key"),
    )
    .unwrap();
    assert!(serving.server_config(&authority).is_ok());
    let mixed =
        ServingCertificate::from_files(&dir.path().join("apiserver.crt"), &dir.path().join("admin.key"))
            .unwrap();
    let message = mixed.server_config(&authority).unwrap_err().to_string();
    assert!(
        message.contains("admin.key") && message.contains("belong together"),
        "{message}"
    );
    let message = pki
        .client_authority(Some(&dir.path().join("token")))
        .unwrap_err()
        .to_string();
    assert!(message.contains("token is not a certificate"), "{message}");
}
