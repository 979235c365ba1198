//! Watches that share connections, by HTTP/2 where the server speaks it.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response, Uri, Version};
use hyper::client::conn::http2;
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;

use super::own::{self, AnswerBody};
use super::{BoxError, Connector, Stream};

/// After what silence the peer is asked whether it is there, and how long it may take to answer.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The most watches on a connection, if the server does not allow fewer: more would wait for each other.
const MAX_STREAMS: usize = 100;
/// Over how many connections a request is tried that the one before did not take.
const ATTEMPTS: usize = 3;

/// The connections that watches share.
#[derive(Debug)]
pub(super) struct Streams {
    connector: Connector,
    /// Each lives for as long as a watch on it does.
    open: Mutex<Vec<Weak<Shared>>>,
    /// Held while a connection is made, so that others wait for it instead of making more.
    connecting: tokio::sync::Mutex<()>,
    /// The server does not speak HTTP/2: nothing can be shared.
    only_http1: AtomicBool,
}

/// One connection. Its task ends when the last watch on it is gone.
#[derive(Debug)]
pub(super) struct Shared {
    sender: http2::SendRequest<Body>,
    /// How many streams the server allows.
    max_streams: Arc<AtomicUsize>,
    /// Nothing more is to be sent over it.
    retired: AtomicBool,
}

enum Link {
    Shared(Arc<Shared>),
    /// The server speaks only HTTP/1.1.
    Own(Box<Stream>),
}

/// A request that was not answered, and itself if it was not even sent.
struct Unsent {
    error: hyper::Error,
    back: Option<Box<Request<Body>>>,
}

impl Streams {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            open: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            only_http1: AtomicBool::new(false),
        }
    }

    /// Sends a request over a connection that has room, or over a new one.
    pub(super) async fn send(&self, mut request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        for _ in 0..ATTEMPTS {
            let shared = match self.link(request.uri()).await? {
                Link::Own(stream) => return own::send(*stream, request, None).await,
                Link::Shared(shared) => shared,
            };
            match shared.send(request).await {
                Ok(answer) => return Ok(answer),
                Err(Unsent { back: Some(back), .. }) => request = *back,
                Err(Unsent { error, back: None }) => return Err(error.into()),
            }
        }
        Err("the server takes no requests over its connections".into())
    }

    async fn link(&self, server: &Uri) -> Result<Link, BoxError> {
        if self.only_http1.load(Ordering::Relaxed) {
            return Ok(Link::Own(Box::new(self.connector.connect(server).await?)));
        }
        if let Some(shared) = self.with_room() {
            return Ok(Link::Shared(shared));
        }
        let _connecting = self.connecting.lock().await;
        if let Some(shared) = self.with_room() {
            return Ok(Link::Shared(shared));
        }
        let stream = self.connector.connect(server).await?;
        if !stream.connected().is_negotiated_h2() {
            self.only_http1.store(true, Ordering::Relaxed);
            return Ok(Link::Own(Box::new(stream)));
        }
        let shared = Arc::new(Shared::over(stream).await?);
        self.lock().push(Arc::downgrade(&shared));
        Ok(Link::Shared(shared))
    }

    fn with_room(&self) -> Option<Arc<Shared>> {
        let mut open = self.lock();
        open.retain(|shared| shared.strong_count() > 0);
        // Only here, under the lock, do the counts grow.
        open.iter().filter_map(Weak::upgrade).find(Shared::has_room)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Shared>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    async fn over(stream: Stream) -> Result<Self, BoxError> {
        let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(stream)
            .await?;
        let max_streams = Arc::new(AtomicUsize::new(MAX_STREAMS));
        let allowed = max_streams.clone();
        tokio::spawn(async move {
            let driving = poll_fn(|cx| {
                let ended = Pin::new(&mut connection).poll(cx);
                allowed.store(connection.current_max_send_streams(), Ordering::Relaxed);
                ended
            });
            // How a connection ended is seen by the watches that were on it.
            let _ = driving.await;
        });
        Ok(Self {
            sender,
            max_streams,
            retired: AtomicBool::new(false),
        })
    }

    /// Whether one more watch may be opened, the one who asks being counted.
    fn has_room(self: &Arc<Self>) -> bool {
        let max = self.max_streams.load(Ordering::Relaxed).min(MAX_STREAMS);
        let is_over = self.retired.load(Ordering::Relaxed) || self.sender.is_closed();
        Arc::strong_count(self) <= max && !is_over
    }

    async fn send(self: Arc<Self>, mut request: Request<Body>) -> Result<Response<AnswerBody>, Unsent> {
        *request.version_mut() = Version::HTTP_2;
        match self.sender.clone().try_send_request(request).await {
            Ok(answer) => Ok(answer.map(|body| AnswerBody::Stream(body, self))),
            Err(mut error) => {
                let back = error.take_message().map(Box::new);
                // It will not take another one either: the server has said that it is going.
                self.retired.fetch_or(back.is_some(), Ordering::Relaxed);
                let error = error.into_error();
                Err(Unsent { error, back })
            }
        }
    }
}
