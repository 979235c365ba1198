//! How requests travel, against a server that is only a socket.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skopos_client::{Api, Client, Error, Resource, Sources, WatchParams, connect};
use skopos_object::{GroupVersionKind, WatchEvent};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server that gives each request the same answer, whole, and then hangs up or not.
struct Socket {
    address: String,
    connections: Arc<AtomicUsize>,
    /// Heads of the requests, as they came.
    heads: mpsc::Receiver<String>,
}

#[derive(Clone, Copy)]
enum After {
    HangUp,
    GoOn,
}

impl Socket {
    async fn answering(answer: &'static str, after: After) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let (tell, heads) = mpsc::channel(100);
        let accepted = connections.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, answer, after, tell.clone()));
            }
        });
        Self {
            address,
            connections,
            heads,
        }
    }

    async fn client(&self) -> Client {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "it", "user": {"token": "secret"}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        let explicit = Some(path);
        connect(&Sources {
            explicit,
            ..Sources::default()
        })
        .await
        .unwrap()
    }

    async fn pods(&self) -> Api {
        let kind = GroupVersionKind::new("", "v1", "Pod");
        Api::all(&self.client().await, &Resource::known(&kind, "pods", true))
    }
}

async fn serve(stream: TcpStream, answer: &'static str, after: After, tell: mpsc::Sender<String>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        // Full means that nobody looks at them any more.
        let _ = tell.try_send(head);
        stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
        if let After::HangUp = after {
            // What is unread when a socket closes would make a reset of the end.
            stream.get_mut().shutdown().await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return;
        }
    }
}

const TWO_EVENTS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
    36\r\n{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"one\"}}}\n\r\n\
    36\r\n{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"two\"}}}\n\r\n";

async fn names(api: &Api, n: usize) -> (Vec<String>, skopos_client::WatchStream) {
    let mut watch = api.watch(&WatchParams::default()).await.unwrap();
    let mut names = Vec::new();
    for _ in 0..n {
        let Some(WatchEvent::Added(object)) = watch.next().await.unwrap() else {
            panic!("expected an addition");
        };
        names.push(object.name().to_owned());
    }
    (names, watch)
}

#[tokio::test]
async fn a_watch_is_read_from_a_connection_of_its_own() {
    let mut server = Socket::answering(TWO_EVENTS, After::GoOn).await;
    let pods = server.pods().await;
    let (first, _open) = names(&pods, 2).await;
    let (second, _open) = names(&pods, 2).await;
    assert_eq!(
        (first, second),
        (
            vec!["one".to_owned(), "two".to_owned()],
            vec!["one".to_owned(), "two".to_owned()]
        )
    );
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    let head = server.heads.recv().await.unwrap().to_lowercase();
    assert!(head.starts_with("get /api/v1/pods?watch=true"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", server.address)), "{head}");
    assert!(head.contains("authorization: bearer secret\r\n"), "{head}");
}

#[tokio::test]
async fn a_watch_that_is_cut_off_says_so() {
    let server = Socket::answering(TWO_EVENTS, After::HangUp).await;
    let (_, mut watch) = names(&server.pods().await, 2).await;
    assert!(matches!(watch.next().await, Err(Error::Interrupted { .. })));
}

#[tokio::test]
async fn a_watch_that_the_server_ends_ends() {
    let ended = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    for after in [After::GoOn, After::HangUp] {
        let server = Socket::answering(ended, after).await;
        let (_, mut watch) = names(&server.pods().await, 0).await;
        assert!(matches!(watch.next().await, Ok(None)));
    }
}

#[tokio::test]
async fn a_watch_that_is_refused_tells_why() {
    let refused = "HTTP/1.1 410 Gone\r\ncontent-length: 6\r\nretry-after: 3\r\n\r\nis old";
    let server = Socket::answering(refused, After::GoOn).await;
    let Err(Error::Refused(status)) = server.pods().await.watch(&WatchParams::default()).await else {
        panic!("expected a refusal");
    };
    assert_eq!((status.code, status.retry_after_seconds()), (410, Some(3)));
}

#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_unreachable() {
    let server = Socket::answering("", After::HangUp).await;
    let refused = server.pods().await.watch(&WatchParams::default()).await;
    assert!(matches!(refused, Err(Error::Unreachable { .. })));
}

#[tokio::test]
async fn other_requests_share_a_connection() {
    let empty = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let server = Socket::answering(empty, After::GoOn).await;
    let client = server.client().await;
    for _ in 0..3 {
        client.call(&skopos_client::Call::get("/version")).await.unwrap();
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}
