//! Watches over WebSocket.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::{ClientRequestBuilder, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::super::*;
use super::harness::{Server, until};

const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

async fn open(server: &Server) -> WebSocketStream<TlsStream<TcpStream>> {
    let stream = server.connect("http/1.1").await;
    let uri = "wss://localhost/events".parse().unwrap();
    let bearer = format!("Bearer {}", server.pki.token());
    let request = ClientRequestBuilder::new(uri).with_header("Authorization", bearer);
    client_async(request, stream).await.unwrap().0
}

async fn next(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> Option<Message> {
    socket.next().await.transpose().unwrap()
}

#[tokio::test]
async fn a_watch_over_websocket_sends_each_event_as_a_message() {
    let server = Server::start(Limits::default()).await;
    let mut socket = open(&server).await;
    assert_eq!(next(&mut socket).await, Some(Message::text("{\"n\":1}\n")));
    assert_eq!(next(&mut socket).await, Some(Message::text("{\"n\":2}\n")));
    socket.send(Message::Ping("hello".into())).await.unwrap();
    assert_eq!(next(&mut socket).await, Some(Message::Pong("hello".into())));
    socket.close(None).await.unwrap();
    assert!(matches!(next(&mut socket).await, Some(Message::Close(_))));
    until(|| server.open_connections() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_watch_over_websocket_ends_with_the_server() {
    let server = Server::start(Limits::default()).await;
    let mut socket = open(&server).await;
    assert_eq!(next(&mut socket).await, Some(Message::text("{\"n\":1}\n")));
    assert_eq!(next(&mut socket).await, Some(Message::text("{\"n\":2}\n")));
    let stopped = tokio::spawn(server.stop());
    assert!(matches!(next(&mut socket).await, Some(Message::Close(_))));
    stopped.await.unwrap();
}

#[tokio::test]
async fn what_is_no_watch_is_answered_without_websocket() {
    let server = Server::start(Limits::default()).await;
    let headers = format!("{}{HANDSHAKE}", server.authorization());
    assert_eq!(server.get("/echo", &headers).await.code, 200);
    assert_eq!(server.get("/events", HANDSHAKE).await.code, 401);
    server.stop().await;
}
