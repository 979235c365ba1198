//! A server that plays a script: each test says which requests must come and what is answered.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use skopos_client::{Client, Resource};
use skopos_object::GroupVersionKind;

/// One request that must come, and its answer.
pub(crate) struct Exchange {
    asks: Vec<&'static str>,
    answer: Answer,
    headers: Vec<(&'static str, &'static str)>,
}

enum Answer {
    /// Code, body and the size of its chunks.
    Body(u16, Bytes, usize),
    /// The connection is refused.
    Refused,
    /// The connection breaks after the request was sent.
    Broken,
    /// Nothing comes.
    Silent,
}

/// Answers a request that has these parts in its line or `Accept` header. The body comes in small chunks, so that
/// borders fall everywhere.
pub(crate) fn exchange(asks: &[&'static str], code: u16, body: impl AsRef<[u8]>) -> Exchange {
    Exchange {
        asks: asks.to_vec(),
        answer: Answer::Body(code, Bytes::copy_from_slice(body.as_ref()), 7),
        headers: Vec::new(),
    }
}

/// The connection is refused.
pub(crate) fn refused(asks: &[&'static str]) -> Exchange {
    Exchange {
        answer: Answer::Refused,
        ..exchange(asks, 0, "")
    }
}

/// The connection breaks after the request was sent.
pub(crate) fn broken(asks: &[&'static str]) -> Exchange {
    Exchange {
        answer: Answer::Broken,
        ..exchange(asks, 0, "")
    }
}

/// The request is sent, and nothing comes.
pub(crate) fn silent(asks: &[&'static str]) -> Exchange {
    Exchange {
        answer: Answer::Silent,
        ..exchange(asks, 0, "")
    }
}

impl Exchange {
    /// The same with a header in the answer.
    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same with the body in chunks of this size.
    pub(crate) fn chunked(mut self, size: usize) -> Self {
        if let Answer::Body(_, _, chunk) = &mut self.answer {
            *chunk = size;
        }
        self
    }
}

/// What is left of a script.
pub(crate) type Left = Arc<Mutex<VecDeque<Exchange>>>;

/// A client whose server plays the script.
pub(crate) fn scripted(script: Vec<Exchange>) -> (Client, Left) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let left = Arc::clone(&script);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let accept = request.headers().get("accept").and_then(|v| v.to_str().ok());
        let asked = format!(
            "{} {} {}",
            request.method(),
            request.uri(),
            accept.unwrap_or_default()
        );
        let next = script.lock().unwrap().pop_front();
        async move {
            let next = next.unwrap_or_else(|| panic!("unexpected {asked}"));
            for part in &next.asks {
                assert!(asked.contains(part), "{part} is not in {asked}");
            }
            let (code, chunks) = match &next.answer {
                Answer::Body(code, body, size) => (
                    *code,
                    body.chunks(*size).map(Bytes::copy_from_slice).collect::<Vec<_>>(),
                ),
                Answer::Refused => {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
                }
                Answer::Silent => std::future::pending().await,
                Answer::Broken => {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
                }
            };
            let frames = chunks
                .into_iter()
                .map(|chunk| Ok::<_, Infallible>(http_body::Frame::data(chunk)));
            let mut response = Response::builder().status(code);
            for (name, value) in next.headers {
                response = response.header(name, value);
            }
            Ok::<_, tower::BoxError>(response.body(StreamBody::new(stream::iter(frames))).unwrap())
        }
    });
    (
        Client::new(kube::Client::new(service, "default"), "scripted"),
        left,
    )
}

/// The resource of the scripts.
pub(crate) fn resource() -> Resource {
    Resource::known(&GroupVersionKind::new("x.io", "v1", "Thing"), "things", true)
}

/// One of its objects.
pub(crate) fn thing(name: &str, version: u32) -> String {
    format!(
        r#"{{"apiVersion":"x.io/v1","kind":"Thing","metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}","resourceVersion":"{version}"}}}}"#
    )
}

/// A page of a list.
pub(crate) fn list(items: &[String], version: u32, token: &str) -> String {
    let items = items.join(",");
    format!(
        r#"{{"apiVersion":"x.io/v1","items":[{items}],"kind":"ThingList","metadata":{{"continue":"{token}","resourceVersion":"{version}"}}}}"#
    )
}

/// A line of a watch.
pub(crate) fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// A status that the history is gone.
pub(crate) const GONE: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version: 7 (9)","reason":"Expired","code":410}"#;
