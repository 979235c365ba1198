//! Watches over WebSocket, as kube-apiserver serves them: each event is a text message.
//!
//! Browsers can read a stream in no other way that tells them its pieces, and Java's fabric8 client tries this first.
//! Anything that is not a watch, or is refused, is answered as if the upgrade had not been asked for.

use std::io;
use std::mem;

use bytes::BytesMut;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::body::ResponseBody;

/// What a client may say in one message: nothing it says matters here, apart from pings and the goodbye.
const MAX_HEARD_BYTES: usize = 4096;

/// A client's wish to have the answer over WebSocket.
pub(super) struct Wish {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
}

/// A watch that goes on over WebSocket once the head of the answer is out.
pub(super) struct Watch {
    upgrade: OnUpgrade,
    events: ResponseBody,
}

impl Wish {
    /// The wish in a request, if it has a sound one.
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Wish> {
        let headers = request.headers();
        let is_asked = has_token(headers, CONNECTION, "upgrade") && has_token(headers, UPGRADE, "websocket");
        if !is_asked || headers.get(SEC_WEBSOCKET_VERSION)? != "13" {
            return None;
        }
        let accept = derive_accept_key(headers.get(SEC_WEBSOCKET_KEY)?.as_bytes());
        Some(Wish {
            accept: HeaderValue::try_from(accept).ok()?,
            protocol: headers
                .get(SEC_WEBSOCKET_PROTOCOL)
                .filter(|value| is_single(value))
                .cloned(),
            upgrade: hyper::upgrade::on(request),
        })
    }

    /// Turns the answer to a watch into one that switches protocols.
    pub(super) fn grant(self, response: Response<ResponseBody>) -> (Response<ResponseBody>, Watch) {
        let (mut parts, events) = response.into_parts();
        parts.status = StatusCode::SWITCHING_PROTOCOLS;
        let headers = &mut parts.headers;
        headers.remove(CONTENT_TYPE);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        let watch = Watch {
            upgrade: self.upgrade,
            events,
        };
        (Response::from_parts(parts, ResponseBody::empty()), watch)
    }
}

/// Whether an answer is events in text.
pub(super) fn can_carry(response: &Response<ResponseBody>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_json = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    response.status() == StatusCode::OK && is_json
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(token))
}

fn is_single(protocol: &HeaderValue) -> bool {
    !protocol.as_bytes().contains(&b',')
}

impl Watch {
    /// Sends the events until the watch or the client ends.
    pub(super) async fn run(self) {
        if let Err(error) = self.send_all().await {
            tracing::debug!(%error, "watch over WebSocket ended");
        }
    }

    async fn send_all(self) -> Result<(), tungstenite::Error> {
        let upgraded = self.upgrade.await.map_err(io::Error::other)?;
        let config = WebSocketConfig::default()
            .read_buffer_size(MAX_HEARD_BYTES)
            .max_message_size(Some(MAX_HEARD_BYTES))
            .max_frame_size(Some(MAX_HEARD_BYTES));
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config));
        let (mut sender, mut receiver) = socket.await.split();
        let mut events = self.events;
        let mut lines = Lines::default();
        loop {
            tokio::select! {
                heard = receiver.next() => match heard {
                    // Pings are answered by the library, with the next event or here.
                    Some(Ok(Message::Ping(_))) => sender.flush().await?,
                    Some(Ok(Message::Close(_))) | None => break,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error),
                },
                frame = events.frame() => match frame {
                    Some(frame) => {
                        lines.push(&frame?.into_data().unwrap_or_default());
                        while let Some(event) = lines.next()? {
                            sender.feed(Message::Text(event)).await?;
                        }
                        sender.flush().await?;
                    }
                    None => {
                        let goodbye = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
                        sender.send(Message::Close(Some(goodbye))).await?;
                        break;
                    }
                },
            }
        }
        // What is left is the answer to the client's goodbye.
        sender.close().await
    }
}

/// Cuts a stream into lines, each with its end, as kube-apiserver sends them.
#[derive(Default)]
struct Lines {
    data: BytesMut,
    // Nothing before this is the end of a line.
    searched: usize,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        self.data.extend_from_slice(data);
    }

    fn next(&mut self) -> io::Result<Option<Utf8Bytes>> {
        let rest = &self.data[self.searched..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.data.len();
            return Ok(None);
        };
        let line = self.data.split_to(mem::take(&mut self.searched) + end + 1);
        let text = Utf8Bytes::try_from(line.freeze());
        text.map(Some).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_a_stream_into_lines_whatever_its_pieces() {
        let mut lines = Lines::default();
        let mut cut = Vec::new();
        for piece in ["{\"a\":", "1}\n{\"b\":2}\n", "{\"c\"", ":3}", "\n"] {
            lines.push(piece.as_bytes());
            while let Some(line) = lines.next().unwrap() {
                cut.push(line.to_string());
            }
        }
        assert_eq!(cut, ["{\"a\":1}\n", "{\"b\":2}\n", "{\"c\":3}\n"]);
    }

    #[test]
    fn takes_only_a_sound_handshake_as_a_wish() {
        let check = |changed: &'static str, value: Option<&'static str>, expect: bool| {
            let mut request = Request::new(());
            let sound = [
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "WebSocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ];
            for (name, value) in sound {
                request
                    .headers_mut()
                    .insert(name, HeaderValue::from_static(value));
            }
            match value {
                Some(value) => request
                    .headers_mut()
                    .insert(changed, HeaderValue::from_static(value)),
                None => request.headers_mut().remove(changed),
            };
            assert_eq!(Wish::of(&mut request).is_some(), expect, "{changed}: {value:?}");
        };
        check("accept", None, true);
        check("connection", Some("keep-alive"), false);
        check("upgrade", Some("h2c"), false);
        check("sec-websocket-version", Some("8"), false);
        check("sec-websocket-key", None, false);
    }
}
