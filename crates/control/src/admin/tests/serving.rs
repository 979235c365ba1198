//! The same over HTTP, and what is not let in.

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::Stage;
use crate::{ADMIN_FILE, AdminServer, Door};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

async fn call(door: &Door, head: &str, token: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn questions_are_answered_to_who_knows_the_token() {
    let mut stage = Stage::start().await;
    stage.put(10, "home/a", 1).await;
    let server = AdminServer::bind(stage.admin(), SocketAddr::from(LOOPBACK), stage.dir())
        .await
        .unwrap();
    let stop = CancellationToken::new();
    let file = stage.dir().join(ADMIN_FILE);
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let door = Door::read(stage.dir()).unwrap().unwrap();
    assert_eq!(&door, server.door());
    assert!(!format!("{server:?}").contains(&door.token));
    let task = tokio::spawn(server.run(stop.clone()));

    let (code, body) = call(
        &door,
        "POST /v1/changes",
        &door.token,
        r#"{"resource":"widgets"}"#,
    )
    .await;
    assert_eq!(code, 200, "{body}");
    assert!(body.contains(r#""name":"a""#), "{body}");
    let (code, _) = call(&door, "POST /v1/collections", &door.token, "").await;
    assert_eq!(code, 200);

    let large = format!("\"{}\"", "x".repeat(2 << 20));
    for (head, token, body, code, part) in [
        ("POST /v1/changes", "wrong", "{}", 401, "Unauthorized"),
        ("POST /v1/changes", "", "{}", 401, "admin.json"),
        ("POST /v1/nothing", &door.token, "{}", 404, "there is no question"),
        ("GET /v1/changes", &door.token, "", 400, "POST"),
        ("POST /v1/changes", &door.token, "{", 400, "cannot be read"),
        ("POST /v1/changes", &door.token, r#"{"sinse":1}"#, 400, "sinse"),
        (
            "POST /v1/changes",
            &door.token,
            r#"{"resource":"x"}"#,
            404,
            "UnknownResource",
        ),
        ("POST /v1/changes", &door.token, &large, 400, "cannot be read"),
    ] {
        let (found, text) = call(&door, head, token, body).await;
        assert!(
            found == code && text.contains(part),
            "{head} {code}: {found} {text}"
        );
    }
    stop.cancel();
    task.await.unwrap();
    assert!(!file.exists());
    stage.stop().await;
}

#[tokio::test]
async fn the_file_of_another_process_is_left_alone() {
    let mut stage = Stage::start().await;
    let first = AdminServer::bind(stage.admin(), SocketAddr::from(LOOPBACK), stage.dir())
        .await
        .unwrap();
    let second = AdminServer::bind(stage.admin(), SocketAddr::from(LOOPBACK), stage.dir())
        .await
        .unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    first.run(stop.clone()).await;
    assert_eq!(Door::read(stage.dir()).unwrap().as_ref(), Some(second.door()));
    second.run(stop).await;
    assert_eq!(Door::read(stage.dir()).unwrap(), None);
    stage.stop().await;
}
