//! A server of one kind that costs next to nothing: its objects are made while they are sent.
//!
//! It answers lists in pages and watches, streaming lists included, over plain HTTP. Asked for `--events` it goes on
//! to report changes of its objects, as fast as the client reads them.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::json;

use crate::shape::Template;

/// What to serve.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Where to write a kubeconfig that leads here.
    kubeconfig: PathBuf,
    /// Report changes without end.
    #[arg(long)]
    events: bool,
    /// Send events in blocks of so many bytes instead of each by itself.
    #[arg(long, default_value_t = 0)]
    block: usize,
}

/// Bytes of a list that are sent at once, as a server with a buffer does.
const LIST_CHUNK: usize = 32 << 10;

/// Serves until standard input ends.
pub(crate) async fn run(args: &Args, objects: usize) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let server = format!("http://{}", listener.local_addr()?);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "replay",
        "clusters": [{"name": "replay", "cluster": {"server": server}}],
        "users": [{"name": "replay", "user": {}}],
        "contexts": [{"name": "replay", "context": {"cluster": "replay", "user": "replay"}}],
    });
    std::fs::write(&args.kubeconfig, config.to_string())?;
    println!("ready");
    let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    tokio::select! {
        served = serve(&listener, objects, args) => served,
        _ = ended => Ok(()),
    }
}

async fn serve(listener: &tokio::net::TcpListener, objects: usize, args: &Args) -> anyhow::Result<()> {
    loop {
        let stream = listener.accept().await?.0;
        stream.set_nodelay(true)?;
        let (events, block) = (args.events, args.block);
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(async |request| {
                Ok::<_, Infallible>(answer(&request, objects, events, block))
            });
            // The client hangs up when it is done: that is no error here.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    objects: usize,
    events: bool,
    block: usize,
) -> Response<BoxBody<Bytes, Infallible>> {
    let query = request.uri().query().unwrap_or_default();
    let parameter = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value)
            .next()
    };
    let is_on = |name: &str| matches!(parameter(name), Some("true" | "1"));
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    let body = if !request.uri().path().ends_with("/applications") {
        Full::new(Bytes::from_static(b"{}")).boxed()
    } else if is_on("watch") {
        let initial = is_on("sendInitialEvents").then_some(objects);
        Watch::new(initial, if events { objects } else { 0 }, block).boxed()
    } else {
        let number = |name: &str| parameter(name).and_then(|value| value.parse().ok());
        let from = number("continue").unwrap_or(0);
        let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(objects);
        List::new(from, objects.min(from + limit), objects).boxed()
    };
    response.body(body).expect("the headers are constants")
}

/// One page of a list.
struct List {
    template: Template,
    next: usize,
    end: usize,
    objects: usize,
    begun: bool,
    ended: bool,
}

impl List {
    fn new(next: usize, end: usize, objects: usize) -> Self {
        Self {
            template: Template::new(),
            next,
            end,
            objects,
            begun: false,
            ended: false,
        }
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut chunk = Vec::with_capacity(LIST_CHUNK + self.template.size());
        if !std::mem::replace(&mut self.begun, true) {
            chunk.extend(br#"{"apiVersion":"myapps.example.com/v1","items":["#);
        }
        while self.next < self.end && chunk.len() < LIST_CHUNK {
            self.template.write(self.next, self.next, &mut chunk);
            self.next += 1;
            if self.next < self.end {
                chunk.push(b',');
            }
        }
        if self.next >= self.end {
            self.ended = true;
            let left = self.objects - self.end;
            let rest = if left > 0 {
                format!(r#","continue":"{}","remainingItemCount":{left}"#, self.end)
            } else {
                String::new()
            };
            let version = Template::version(self.objects);
            let end =
                format!(r#"],"kind":"ApplicationList","metadata":{{"resourceVersion":"{version}"{rest}}}}}"#);
            chunk.extend(end.into_bytes());
        }
        Some(chunk)
    }
}

/// A watch: first what is there, if that is asked for, then changes without end or nothing.
struct Watch {
    template: Template,
    next: usize,
    initial: usize,
    bookmark: bool,
    /// How many objects change in turn.
    changing: usize,
    /// Bytes that are sent at once, at least.
    block: usize,
}

impl Watch {
    fn new(initial: Option<usize>, changing: usize, block: usize) -> Self {
        Self {
            template: Template::new(),
            next: 0,
            initial: initial.unwrap_or(0),
            bookmark: initial.is_some(),
            changing,
            block,
        }
    }

    /// One event, or as many as make a block.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut chunk = Vec::with_capacity(self.block + self.template.size() + 64);
        while self.event(&mut chunk) && chunk.len() < self.block {}
        Some(chunk).filter(|chunk| !chunk.is_empty())
    }

    /// Appends the next event; false if there is none.
    fn event(&mut self, out: &mut Vec<u8>) -> bool {
        if self.next < self.initial {
            self.change("ADDED", self.next, self.next, out);
        } else if std::mem::take(&mut self.bookmark) {
            out.extend(bookmark(&Template::version(self.initial)).into_bytes());
            return true;
        } else if self.changing > 0 {
            let version = self.initial.max(self.changing) + 1 + self.next;
            self.change("MODIFIED", self.next % self.changing, version, out);
        } else {
            return false;
        }
        self.next += 1;
        true
    }

    fn change(&self, kind: &str, number: usize, version: usize, out: &mut Vec<u8>) {
        out.extend(br#"{"type":""#);
        out.extend(kind.as_bytes());
        out.extend(br#"","object":"#);
        self.template.write(number, version, out);
        out.extend(b"}\n");
    }
}

fn bookmark(version: &str) -> String {
    let event = json!({"type": "BOOKMARK", "object": {
        "apiVersion": "myapps.example.com/v1", "kind": "Application",
        "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}},
    }});
    format!("{event}\n")
}

impl Body for List {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.chunk().map(|chunk| Ok(Frame::data(chunk.into()))))
    }
}

impl Body for Watch {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.chunk() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk.into())))),
            // An idle watch: the client hangs up.
            None => Poll::Pending,
        }
    }
}
