//! Every bound of the edge in one place.

use std::time::Duration;

/// Bounds and timeouts of the edge. The defaults are kube-apiserver's where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that read, at once; more get 429 with `Retry-After: 1`. Watches are not counted. Default 400.
    pub max_requests_in_flight: usize,
    /// Requests that write, at once; more get 429 with `Retry-After: 1`. Default 200.
    pub max_mutating_in_flight: usize,
    /// How many requests of `system:masters` may go on beyond either limit, so that an administrator
    /// still gets an answer from a busy server; more get 429. Default 2000.
    pub max_privileged_overflow: usize,
    /// Longest request body; more gets 413. Default 3 MiB.
    pub max_body_bytes: usize,
    /// Bodies of all requests being handled, together; more wait for their turn until the request
    /// times out. Default 256 MiB.
    pub max_body_bytes_in_flight: usize,
    /// Time for a request that is no watch; then 504. And as much again for the client to take the answer;
    /// then the answer is cut. Default 60 s.
    pub request_timeout: Duration,
    /// The same for writes. Default 34 s.
    pub write_timeout: Duration,
    /// Time for the client to send the body; then 504. Default 30 s.
    pub body_read_timeout: Duration,
    /// Open connections. When full, idle ones are closed and new ones wait in the kernel's queue. Default 4096.
    pub max_connections: usize,
    /// Time for a TLS handshake. Default 10 s.
    pub handshake_timeout: Duration,
    /// Time for the head of an HTTP/1.1 request, and for the next one on a kept connection. Default 32 s.
    pub header_read_timeout: Duration,
    /// Bytes of a request head. More gets 431 (HTTP/1.1) or a reset stream (HTTP/2). Default 128 KiB.
    pub max_header_bytes: u32,
    /// A connection without requests for so long is closed. Default 90 s.
    pub idle_timeout: Duration,
    /// A connection whose peer takes no bytes for so long while some wait is closed. Default 60 s.
    pub write_stall_timeout: Duration,
    /// Requests at once on one HTTP/2 connection. Default 250.
    pub max_concurrent_streams: u32,
    /// Bytes a client may send ahead on one HTTP/2 stream. Default 256 KiB.
    pub stream_window_bytes: u32,
    /// Bytes a client may send ahead on one HTTP/2 connection. Default 1 MiB.
    pub connection_window_bytes: u32,
    /// Response bytes held for one stream whose peer is slow. Default 128 KiB.
    pub max_send_buffer_bytes: usize,
    /// An HTTP/2 peer silent for so long is pinged. Default 30 s.
    pub ping_interval: Duration,
    /// A ping unanswered for so long closes the connection. Default 20 s.
    pub ping_timeout: Duration,
    /// Time for open requests to end after shutdown begins; then connections are cut. Default 10 s.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_requests_in_flight: 400,
            max_mutating_in_flight: 200,
            max_privileged_overflow: 2000,
            max_body_bytes: 3 * 1024 * 1024,
            max_body_bytes_in_flight: 256 * 1024 * 1024,
            request_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(34),
            body_read_timeout: Duration::from_secs(30),
            max_connections: 4096,
            handshake_timeout: Duration::from_secs(10),
            header_read_timeout: Duration::from_secs(32),
            max_header_bytes: 128 * 1024,
            idle_timeout: Duration::from_secs(90),
            write_stall_timeout: Duration::from_secs(60),
            max_concurrent_streams: 250,
            stream_window_bytes: 256 * 1024,
            connection_window_bytes: 1024 * 1024,
            max_send_buffer_bytes: 128 * 1024,
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(20),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
