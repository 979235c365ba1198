//! What is sent.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use sha2::Sha256;
use skopos_api::Webhook as Spec;

use crate::{
    Context, Event,
    cloud_event::{attributes, to_batch},
    connect::BadSink,
    secrets::{Hidden, Identity, Secret, identity, parts_of_address, resolve, text, without},
};

use super::is_public;

/// What all requests have in common.
pub(super) struct Form {
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    hmac: Option<Secret>,
    /// What must not be shown if the server repeats it.
    hidden: Vec<Hidden>,
}

/// An attribute of an event that cannot be a header.
#[derive(Debug, thiserror::Error)]
#[error("{attribute} of the event does not fit in a header")]
pub(super) struct Unsendable {
    attribute: &'static str,
}

impl Form {
    pub(super) async fn new(spec: &Spec, uri: Uri, context: Context<'_>) -> Result<Self, BadSink> {
        let hidden = match &spec.url_from {
            Some(source) if !is_public(source) => parts_of_address(&uri),
            _ => Vec::new(),
        };
        let mut form = Self {
            uri,
            headers: Vec::new(),
            hmac: None,
            hidden,
        };
        form.add_headers(spec, context).await?;
        form.add_identity(spec, context).await?;
        if let Some(hmac) = &spec.hmac {
            let secret = resolve(context.secrets, "hmac.secret", &hmac.secret).await?;
            let secret = secret.text("hmac.secret").map_or(secret, Secret::from);
            if secret.bytes().is_empty() {
                return Err(BadSink::value("hmac.secret", "is empty"));
            }
            form.hmac = Some(secret);
        }
        Ok(form)
    }

    async fn add_headers(&mut self, spec: &Spec, context: Context<'_>) -> Result<(), BadSink> {
        for header in &spec.headers {
            let bad = |problem: &str| BadSink::value("headers", format!("{:?} {problem}", header.name));
            let name: HeaderName = header
                .name
                .parse()
                .map_err(|_| bad("is not the name of a header"))?;
            if is_ours(&name) {
                return Err(bad("is set by Skopos itself"));
            }
            let value = text(context.secrets, "headers", &header.value).await?;
            let mut header_value = HeaderValue::from_str(&value.0)
                .map_err(|_| bad("has a value that does not fit in a header"))?;
            if !is_public(&header.value) {
                header_value.set_sensitive(true);
                self.hidden.push(value);
            }
            self.headers.push((name, header_value));
        }
        Ok(())
    }

    async fn add_identity(&mut self, spec: &Spec, context: Context<'_>) -> Result<(), BadSink> {
        let (credentials, secret) = match identity(context.secrets, spec.auth.as_ref()).await? {
            None => return Ok(()),
            Some(Identity::Token(token)) => (format!("Bearer {}", token.0), token),
            Some(Identity::Password { username, password }) => {
                let pair = format!("{username}:{}", password.0);
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                self.hidden.push(Hidden(pair.clone()));
                (format!("Basic {pair}"), password)
            }
        };
        let mut value = HeaderValue::from_str(&credentials)
            .map_err(|_| BadSink::value("auth", "does not fit in a header"))?;
        value.set_sensitive(true);
        self.hidden.push(secret);
        self.headers.push((header::AUTHORIZATION, value));
        Ok(())
    }

    /// Scheme, host and port.
    pub(super) fn server(&self) -> String {
        let authority = self.uri.authority().map_or("", http::uri::Authority::as_str);
        format!("{}://{authority}", self.uri.scheme_str().unwrap_or_default())
    }

    /// A text of the server, without what must stay hidden.
    pub(super) fn shown(&self, text: &str) -> String {
        without(self.hidden.iter(), text)
    }

    /// One event in binary mode: the attributes are headers, the data is the body.
    pub(super) fn one(&self, event: &Event, now: SystemTime) -> Result<Request<Full<Bytes>>, Unsendable> {
        let mut request = self.request(event.data.clone(), event.content_type, now);
        for (attribute, value) in attributes(event) {
            let name =
                HeaderName::try_from(format!("ce-{attribute}")).expect("attributes are lower case letters");
            let value = HeaderValue::try_from(escape(value)).map_err(|_| Unsendable { attribute })?;
            request.headers_mut().insert(name, value);
        }
        let key = HeaderValue::try_from(escape(&event.id)).map_err(|_| Unsendable { attribute: "id" })?;
        request.headers_mut().insert("idempotency-key", key);
        if let Some(traceparent) = &event.traceparent {
            let attribute = "traceparent";
            let value = HeaderValue::try_from(traceparent).map_err(|_| Unsendable { attribute })?;
            request.headers_mut().insert(attribute, value);
        }
        Ok(request)
    }

    /// Several events in the batch format. Each has a trace of its own, so that there is none for the request.
    pub(super) fn batch(&self, events: &[Event], now: SystemTime) -> Request<Full<Bytes>> {
        self.request(to_batch(events).into(), "application/cloudevents-batch+json", now)
    }

    fn request(&self, body: Bytes, content_type: &'static str, now: SystemTime) -> Request<Full<Bytes>> {
        let signature = self.hmac.as_ref().map(|secret| sign(secret, &body, now));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers
            .entry(header::USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!(
                "skopos/",
                env!("CARGO_PKG_VERSION")
            )));
        if let Some(signature) = signature {
            headers.insert("skopos-signature", signature);
        }
        request
    }
}

/// Headers that a spec may not set.
fn is_ours(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("ce-")
        || [
            "content-type",
            "content-length",
            "host",
            "idempotency-key",
            "skopos-signature",
            "traceparent",
            "transfer-encoding",
        ]
        .contains(&name)
}

/// `t=<seconds>,v1=<hex of HMAC-SHA256 over "t.body">`.
fn sign(secret: &Secret, body: &[u8], now: SystemTime) -> HeaderValue {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body);
    let hex: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    HeaderValue::try_from(format!("t={seconds},v1={hex}")).expect("digits and letters")
}

/// As CloudEvents say for headers: space, quotation mark, per cent and all that is not printable ASCII.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b' ' | b'"' | b'%' | 0..=0x20 | 0x7f.. => escaped.push_str(&format!("%{byte:02X}")),
            printable => escaped.push(char::from(printable)),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn signature_is_over_time_and_body() {
        let secret = Secret::from("key".to_owned());
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        assert_eq!(sign(&secret, b"{}", now), SIGNATURE);
    }

    const SIGNATURE: &str =
        "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";

    #[test]
    fn attributes_are_escaped_for_headers() {
        assert_eq!(escape("a/b \"ü\" 5%"), "a/b%20%22%C3%BC%22%205%25");
    }
}
