//! Where traces go, and what is said with them.

use std::{fmt, path::PathBuf, time::Duration};

use http::{HeaderName, HeaderValue, Uri};
use skopos_journal::Sampling;

/// How traces are exported.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to.
    pub endpoint: Endpoint,
    /// Headers of each request. Those with secrets should be marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What is said about this process, such as `service.name`.
    pub resource: Vec<(String, String)>,
    /// Whom to trust, and who we are.
    pub tls: TlsFiles,
    /// How long a request may take (default 10 s).
    pub timeout: Duration,
    /// Whether requests are compressed with gzip (default: no).
    pub gzip: bool,
    /// Which traces are exported (default: all).
    pub sampling: Sampling,
}

impl Config {
    /// The defaults, for a receiver.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            headers: Vec::new(),
            resource: vec![("service.name".into(), "skopos".into())],
            tls: TlsFiles::default(),
            timeout: Duration::from_secs(10),
            gzip: false,
            sampling: Sampling::default(),
        }
    }
}

/// Files in PEM for connections to a receiver with `https`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities to trust (default: those of the system).
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key (default: none).
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The address that spans are posted to.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Uri);

/// An address cannot be used. It is shown unless it may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// It is not an address.
    #[error("{0} is not a whole URL, such as http://localhost:4318")]
    NotUrl(String),
    /// It has another scheme.
    #[error("{0} must begin with http:// or https://: OTLP over gRPC is not spoken")]
    Scheme(String),
    /// It has a user or a password, and is therefore not shown.
    #[error("must not hold a user or a password: use a header")]
    Password,
}

impl Endpoint {
    /// Posts to exactly this address.
    ///
    /// # Errors
    /// If it is not an address of HTTP.
    pub fn exactly(url: &str) -> Result<Self, BadEndpoint> {
        let uri: Uri = url.parse().map_err(|_| BadEndpoint::NotUrl(shown(url)))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(BadEndpoint::NotUrl(shown(url)));
        };
        match scheme {
            _ if authority.as_str().contains('@') => Err(BadEndpoint::Password),
            "http" | "https" => Ok(Self(uri)),
            _ => Err(BadEndpoint::Scheme(shown(url))),
        }
    }

    /// Posts to where a receiver at this address takes traces: below it, at `/v1/traces`.
    ///
    /// # Errors
    /// If it is not an address of HTTP.
    pub fn of_receiver(url: &str) -> Result<Self, BadEndpoint> {
        // Checked as it was given: a message must not show what nobody wrote.
        let Self(uri) = Self::exactly(url)?;
        let path = uri.path().trim_end_matches('/');
        let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
        let mut parts = uri.clone().into_parts();
        let joined = format!("{path}/v1/traces{query}");
        parts.path_and_query = Some(joined.parse().map_err(|_| BadEndpoint::NotUrl(shown(url)))?);
        let uri = Uri::from_parts(parts).map_err(|_| BadEndpoint::NotUrl(shown(url)))?;
        Ok(Self(uri))
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(crate) fn is_secured(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Scheme, host and port: the path or the query may hold a key.
    pub(crate) fn server(&self) -> String {
        let authority = self.0.authority().map_or("", http::uri::Authority::as_str);
        format!("{}://{authority}", self.0.scheme_str().unwrap_or_default())
    }
}

/// An address in a message.
fn shown(url: &str) -> String {
    match url.contains(['@', '?']) {
        true => "(not shown, it may hold a password)".into(),
        false => format!("{url:?}"),
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.server()).finish()
    }
}

/// Traces cannot be exported as configured. None of these goes away by trying again.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file with certificates or a key cannot be used.
    #[error("{what} in {} cannot be used: {problem}", path.display())]
    Pem {
        /// What should be in it.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system trusts nobody.
    #[error("the system has no authorities to trust (package ca-certificates)")]
    NoAuthorities,
    /// The certificate and the key do not belong together.
    #[error("the client certificate cannot be used with its key")]
    Identity(#[source] rustls::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_address_of_a_receiver() {
        for (given, expect) in [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp/", "https://c/otlp/v1/traces"),
            ("https://c/otlp?key=1", "https://c/otlp/v1/traces?key=1"),
        ] {
            assert_eq!(Endpoint::of_receiver(given).unwrap().uri(), expect, "{given}");
        }
        let exact = Endpoint::exactly("https://c/elsewhere").unwrap();
        assert_eq!(exact.uri(), "https://c/elsewhere");
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (given, expect) in [
            ("collector:4318", "is not a whole URL"),
            ("/v1/traces", "is not a whole URL"),
            ("http://a b", "is not a whole URL"),
            ("grpc://c:4317", "must begin with http:// or https://"),
        ] {
            let told = Endpoint::of_receiver(given).unwrap_err().to_string();
            assert!(told.contains(expect) && told.contains(given), "{given}: {told}");
        }
    }

    #[test]
    fn keys_in_addresses_are_not_shown() {
        for given in [
            "http://me:secret@c",
            "me:secret@c:4318",
            "http://me:secret@c d",
            "c/?api-key=secret",
            "grpc://c:4317/?api-key=secret",
        ] {
            let told = Endpoint::of_receiver(given).unwrap_err().to_string();
            assert!(!told.contains("secret"), "{told}");
        }
        let endpoint = Endpoint::exactly("https://c/?api-key=secret").unwrap();
        assert_eq!(format!("{endpoint:?}"), "Endpoint(\"https://c\")");
    }
}
