//! Receives events over HTTP, and is not to be relied on.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// An endpoint that fails, forgets to answer, and goes away.
pub(crate) struct Receiver {
    port: u16,
    shared: Arc<Shared>,
    /// While it is up.
    serving: Option<JoinSet<()>>,
}

struct Shared {
    received: Mutex<Vec<Value>>,
    rng: Mutex<fastrand::Rng>,
}

impl Receiver {
    pub(crate) async fn start(seed: u64) -> Self {
        let mut receiver = Self {
            port: crate::free_port(),
            shared: Arc::new(Shared {
                received: Mutex::default(),
                rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            }),
            serving: None,
        };
        receiver.up().await;
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) async fn toggle(&mut self) {
        match self.serving.take() {
            // Everything that is under way breaks.
            Some(mut serving) => serving.shutdown().await,
            None => self.up().await,
        }
    }

    pub(crate) async fn up(&mut self) {
        if self.serving.is_some() {
            return;
        }
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        let shared = self.shared.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        self.serving = Some(serving);
    }

    /// Waits until what was received is enough.
    pub(crate) async fn until(&self, patience: Duration, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let wait = async {
            loop {
                let received = self.shared.received.lock().unwrap().clone();
                if enough(&received) {
                    return received;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        match tokio::time::timeout(patience, wait).await {
            Ok(received) => received,
            // Let the check say what is missing.
            Err(_) => self.shared.received.lock().unwrap().clone(),
        }
    }
}

/// Takes requests of one connection until it breaks.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    while let Some(event) = read(&mut stream).await {
        let fate = shared.rng.lock().unwrap().u32(..20);
        // An event that is refused was not received; one whose answer is lost was.
        if fate != 0 {
            shared.received.lock().unwrap().push(event);
        }
        let answer: &[u8] = match fate {
            0 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            1 => return,
            _ => b"HTTP/1.1 204 No Content\r\n\r\n",
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// One CloudEvent in binary mode: its attributes are headers.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut event = json!({});
    let mut n_body = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let name = name.to_ascii_lowercase();
        if name == "content-length" {
            n_body = value.parse().ok()?;
        }
        if let Some(attribute) = name.strip_prefix("ce-") {
            event[attribute] = value.into();
        }
    }
    let mut body = vec![0; n_body];
    stream.read_exact(&mut body).await.ok()?;
    event["data"] = serde_json::from_slice(&body).ok()?;
    Some(event)
}
