//! Ports of processes, and what those say of their health.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A port that nobody has now, and that no connection gets: somebody who knocks while nobody listens could otherwise be
/// given this very port for his own end, and then the listener finds it taken.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Asks a process how it is; its whole answer.
pub(crate) fn health(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
