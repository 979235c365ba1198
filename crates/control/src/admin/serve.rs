//! The port behind which [`Admin`] answers: `POST /v1/<question>` with a bearer token, JSON in and out.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{Admin, Door, DoorError, Reason, Refusal, question::answerer};

/// How many connections there may be. Further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// How long a peer may take for the head of a request, also the next one on the same connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take: a long journal takes its time to go through.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// How much a head may take.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How much a question may take.
const MAX_BODY_BYTES: usize = 1 << 20;
/// How long answers under way may take at the end.
const GOODBYE: Duration = Duration::from_secs(2);
/// After the kernel refused to accept, for example because there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves an [`Admin`] over plain HTTP, to who knows the token. Meant for loopback.
#[derive(Debug)]
pub struct AdminServer {
    listener: TcpListener,
    shared: Arc<Shared>,
    data_dir: PathBuf,
}

#[derive(Debug)]
struct Shared {
    admin: Admin,
    door: Door,
}

/// The server did not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("listen on {address} for questions")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file that says where could not be written.
    #[error(transparent)]
    Door(#[from] DoorError),
}

impl AdminServer {
    /// Takes a port (0 for a free one) and writes address and token to `admin.json` in the data directory.
    ///
    /// # Errors
    /// If the port cannot be had, or the file not written.
    pub async fn bind(admin: Admin, address: SocketAddr, data_dir: &Path) -> Result<Self, BindError> {
        let failed = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let door = Door::new(listener.local_addr().map_err(failed)?);
        door.write(data_dir)?;
        Ok(Self {
            listener,
            shared: Arc::new(Shared { admin, door }),
            data_dir: data_dir.to_owned(),
        })
    }

    /// Where it listens, and the token that it wants.
    pub fn door(&self) -> &Door {
        &self.shared.door
    }

    /// Serves until `shutdown`, then ends what is under way and removes the file.
    pub async fn run(self, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let accepting = async {
            loop {
                let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let (shared, shutdown) = (Arc::clone(&self.shared), shutdown.clone());
                        connections.spawn(async move {
                            serve(stream, &shared, &shutdown).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        shutdown.run_until_cancelled(accepting).await;
        self.shared.door.remove(&self.data_dir);
        connections.close();
        connections.wait().await;
    }
}

async fn serve(stream: TcpStream, shared: &Shared, shutdown: &CancellationToken) {
    let service = service_fn(|request| async {
        let response = match answer(request, shared).await {
            Ok(text) => respond(StatusCode::OK, text),
            Err(refusal) => refuse(&refusal),
        };
        Ok::<_, Infallible>(response)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // Whether a peer was rude or went away is nobody's concern.
        _ = &mut connection => return,
        () = shutdown.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GOODBYE, connection).await;
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Result<Vec<u8>, Refusal> {
    if !is_allowed(request.headers(), &shared.door.token) {
        let hint = "send the token of admin.json as `Authorization: Bearer …`";
        return Err(Refusal::new(Reason::Unauthorized, "the token is missing or wrong").hint(hint));
    }
    let path = request.uri().path().to_owned();
    let answerer = path.strip_prefix("/v1/").and_then(answerer);
    let answerer = answerer.ok_or_else(|| Refusal::not_found(format!("there is no question {path:?}")))?;
    if request.method() != Method::POST {
        return Err(Refusal::bad("questions are asked with POST"));
    }
    let body = read(request.into_body()).await?;
    let answered = timeout(ANSWER_TIMEOUT, answerer(&shared.admin, &body)).await;
    answered.unwrap_or_else(|_| {
        let hint = "ask for less: a shorter time, or one object";
        Err(Refusal::new(Reason::TimedOut, "the answer took too long").hint(hint))
    })
}

#[expect(clippy::disallowed_methods, reason = "what is read is limited")]
async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let body = Limited::new(body, MAX_BODY_BYTES);
    match timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(Refusal::bad(format!("the body cannot be read: {error}"))),
        Err(_) => Err(Refusal::new(Reason::TimedOut, "the body did not come in time")),
    }
}

fn is_allowed(headers: &HeaderMap, token: &str) -> bool {
    let given = headers
        .get(AUTHORIZATION)
        .map(hyper::header::HeaderValue::as_bytes);
    let given = given
        .and_then(|value| value.strip_prefix(b"Bearer "))
        .unwrap_or_default();
    given.ct_eq(token.as_bytes()).into()
}

fn refuse(refusal: &Refusal) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(refusal.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = serde_json::to_vec(refusal).expect("three strings make JSON");
    respond(status, text)
}

fn respond(status: StatusCode, text: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
