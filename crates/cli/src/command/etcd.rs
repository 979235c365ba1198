//! Stands in for etcd where envtest insists on starting one: answers its health check and does nothing else.

use std::net::SocketAddr;

use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::failure::{Code, Failure};
use crate::{signal, terminal};

/// Answer envtest's health check of etcd; the store is in the API server
#[derive(Debug, Args)]
pub(crate) struct Etcd {
    /// Where to listen
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:2379")]
    listen_client_urls: String,
}

/// How many health checks are answered at once; more wait in the backlog.
const MAX_CONNECTIONS: usize = 16;

impl Etcd {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let address = self.address()?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Failure::new(Code::NoStart, format!("cannot listen on {address}: {error}")))?;
        let bound = listener.local_addr().unwrap_or(address);
        terminal::note(&format!("answering etcd's health check at http://{bound}"));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                Ok((stream, _)) = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    connections.spawn(answer(stream));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        let first = self.listen_client_urls.split(',').next().unwrap_or_default();
        let host = first
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .replace("localhost", "127.0.0.1");
        host.parse()
            .map_err(|_| Failure::usage(format!("--listen-client-urls {first} is not http://IP:PORT")))
    }
}

/// Reads one request and says that all is well.
async fn answer(mut stream: TcpStream) {
    let mut request = [0; 4096];
    if !matches!(stream.read(&mut request).await, Ok(n) if n > 0) {
        return;
    }
    let body = r#"{"health":"true","reason":""}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    let response = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // The one who asked may have gone.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_where_envtest_says() {
        let address = |text: &str| {
            Etcd {
                listen_client_urls: text.to_owned(),
            }
            .address()
            .map(|a| a.to_string())
            .ok()
        };
        assert_eq!(
            address("http://127.0.0.1:7000").as_deref(),
            Some("127.0.0.1:7000")
        );
        assert_eq!(
            address("http://localhost:0,http://127.0.0.1:1").as_deref(),
            Some("127.0.0.1:0")
        );
        assert_eq!(address("unix:///x"), None);
    }
}
