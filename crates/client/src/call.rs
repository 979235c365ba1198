//! A request to be sent, before it is.

use bytes::Bytes;
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::Value;

use crate::Error;
use crate::resource::escape;
use crate::transport::LongLived;

/// Not compressed.
pub(crate) const IDENTITY: &str = "identity";

/// A request to be sent.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    query: String,
    accept: &'static str,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
    reading: Reading,
}

/// How an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// At once.
    Whole,
    /// Item by item; there may be much of it.
    List,
    /// For as long as the server goes on.
    Watch,
}

impl Call {
    /// Starts a request for JSON.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: String::new(),
            accept: "application/json",
            content_type: None,
            body: Bytes::new(),
            reading: Reading::Whole,
        }
    }

    /// Starts a GET for JSON.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Whether the server is asked to store nothing.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        // A delete says so in its options, where it has some.
        let in_options = || {
            let options: Option<Value> = serde_json::from_slice(&self.body).ok();
            options.is_some_and(|options| {
                options["dryRun"]
                    .as_array()
                    .is_some_and(|asked| !asked.is_empty())
            })
        };
        let parameters = self.query.trim_start_matches('?').split('&');
        let in_query = parameters
            .filter_map(|parameter| parameter.strip_prefix("dryRun="))
            .any(|value| !value.is_empty());
        in_query || self.method == Method::DELETE && in_options()
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(&escape(name));
        self.query.push('=');
        self.query.push_str(&escape(value));
        self
    }

    /// Adds a query parameter unless it is empty.
    #[must_use]
    pub fn query_if(self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            self
        } else {
            self.query(name, value)
        }
    }

    /// Asks for another media type than plain JSON.
    #[must_use]
    pub fn accept(mut self, media_type: &'static str) -> Self {
        self.accept = media_type;
        self
    }

    /// Sends a body.
    #[must_use]
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.content_type = Some(content_type);
        self.body = body.into();
        self
    }

    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path, without its query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Says how the answer is read.
    pub(crate) fn reading(mut self, reading: Reading) -> Self {
        self.reading = reading;
        self
    }

    /// Names the request in messages.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn request(
        &self,
        list_encoding: &str,
        acting_as: Option<&str>,
    ) -> Result<Request<Body>, Error> {
        let encoding = match self.reading {
            Reading::List => list_encoding,
            // Compressed watches are cut into one gzip member per event, which costs more than it saves.
            Reading::Whole | Reading::Watch => IDENTITY,
        };
        let mut builder = Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{}", self.path, self.query))
            .header(header::ACCEPT, self.accept)
            .header(header::ACCEPT_ENCODING, encoding);
        if let Some(user) = acting_as {
            builder = builder.header("Impersonate-User", user);
        }
        if let Some(content_type) = self.content_type {
            builder = builder.header(header::CONTENT_TYPE, content_type);
        }
        if self.reading == Reading::Watch {
            builder = builder.extension(LongLived);
        }
        builder
            .body(Body::from(self.body.clone()))
            .map_err(|error| Error::Unsendable {
                request: self.describe(),
                detail: error.to_string(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_runs_are_known_by_their_query_and_by_the_options_of_a_delete() {
        let delete = |options: &'static str| Call {
            body: options.into(),
            ..Call::new(Method::DELETE, "/x")
        };
        let check = |call: Call, expect: bool| assert_eq!(call.is_dry_run(), expect, "{call:?}");
        check(Call::new(Method::PUT, "/x").query("force", "true"), false);
        check(
            Call::new(Method::PUT, "/x")
                .query("w", "1")
                .query("dryRun", "All"),
            true,
        );
        check(Call::new(Method::DELETE, "/x").query("dryRun", "All"), true);
        check(delete(r#"{"dryRun": ["All"]}"#), true);
        check(delete(r#"{"dryRun": []}"#), false);
        check(delete(""), false);
    }

    #[test]
    fn query_is_escaped() {
        let call = Call::get("/x")
            .query("labelSelector", "a in (b,c)")
            .query_if("limit", "")
            .query("w", "1");
        assert_eq!(call.query, "?labelSelector=a%20in%20%28b%2Cc%29&w=1");
    }
}
