//! OTLP over HTTP.

mod answer;

use std::{
    error::Error,
    fmt,
    io::Write as _,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderName, HeaderValue, Method, Request, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;

use crate::{
    Config, ConfigError, Endpoint,
    courier::{Answer, Post},
    tls,
};

use self::answer::judge;

/// How long a connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Posts bodies to one address.
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: Endpoint,
    headers: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
    gzip: bool,
}

impl HttpClient {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let tls = match config.endpoint.is_secured() {
            true => tls::client_config(&config.tls)?,
            // A machine without authorities can still send to addresses that need none.
            false => tls::trusting_nobody(),
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(config.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(http);
        Ok(Self {
            client: Client::builder(TokioExecutor::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .build(connector),
            endpoint: config.endpoint,
            headers: config.headers,
            timeout: config.timeout,
            gzip: config.gzip,
        })
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(match self.gzip {
            true => compressed(&body),
            false => body,
        }));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.uri().clone();
        let headers = request.headers_mut();
        let agent = concat!("skopos/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        request
    }

    async fn exchange(&self, body: Bytes) -> Answer {
        match self.client.request(self.request(body)).await {
            Ok(answer) => judge(answer, &self.endpoint.server(), SystemTime::now()).await,
            Err(error) => self.unreachable(&error),
        }
    }

    fn unreachable(&self, error: &hyper_util::client::legacy::Error) -> Answer {
        let mut problem = format!("cannot reach {}", self.endpoint.server());
        let mut source: Option<&dyn Error> = error.source();
        while let Some(cause) = source {
            problem.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Answer::Later { after: None, problem }
    }
}

impl Post for HttpClient {
    async fn post(&self, body: Bytes) -> Answer {
        match timeout(self.timeout, self.exchange(body)).await {
            Ok(answer) => answer,
            Err(_) => Answer::Later {
                after: None,
                problem: format!(
                    "no answer of {} within {:?}",
                    self.endpoint.server(),
                    self.timeout
                ),
            },
        }
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("memory takes everything");
    encoder.finish().expect("memory takes everything").into()
}
