//! Counts requests by how they ended, under the names that users of client-go know.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Uri};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::{MetricType, histogram::Histogram};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::Client;

/// How the requests of a client and its clones ended.
#[derive(Debug)]
pub(crate) struct Requests {
    host: String,
    /// In the order of [`METHODS`].
    of_methods: [OfMethod; METHODS.len()],
}

#[derive(Debug)]
struct OfMethod {
    /// How many got each code; see [`NO_ANSWER`].
    codes: Mutex<BTreeMap<u16, u64>>,
    durations: Histogram,
}

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OTHER"];

/// The code of a request that got none: the server was not reached, or nobody waits for the answer any more.
const NO_ANSWER: u16 = 0;

/// A request under way. It is counted when it ends, however it does.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    counts: &'a OfMethod,
    begin: Instant,
    code: u16,
}

impl Requests {
    pub(crate) fn to(server: &str) -> Self {
        let uri = server.parse::<Uri>().ok();
        let authority = uri.as_ref().and_then(Uri::authority);
        Self {
            host: authority
                .map_or(server, |authority| authority.as_str())
                .to_owned(),
            of_methods: METHODS.map(|_| OfMethod::new()),
        }
    }

    pub(crate) fn begin(&self, method: &Method) -> Sending<'_> {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        Sending {
            counts: &self.of_methods[known.unwrap_or(METHODS.len() - 1)],
            begin: Instant::now(),
            code: NO_ANSWER,
        }
    }
}

impl OfMethod {
    fn new() -> Self {
        Self {
            codes: Mutex::default(),
            // Those of client-go.
            durations: Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]),
        }
    }

    fn codes(&self) -> MutexGuard<'_, BTreeMap<u16, u64>> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sending<'_> {
    pub(crate) fn answered(mut self, code: u16) {
        self.code = code;
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        *self.counts.codes().entry(self.code).or_default() += 1;
        self.counts.durations.observe(self.begin.elapsed().as_secs_f64());
    }
}

impl Client {
    /// Lets `registry` show the requests of this client and its clones, as `rest_client_requests_total` and
    /// `rest_client_request_duration_seconds`, the names that client-go gives them.
    ///
    /// An attempt is a request. It lasts until the server begins to answer; so do lists and watches. What is sent
    /// through [`kube`](Self::kube) is not counted.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Exporter(Arc::clone(&self.requests))));
    }
}

#[derive(Debug)]
struct Exporter(Arc<Requests>);

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let host = self.0.host.as_str();
        let all = || METHODS.iter().zip(&self.0.of_methods);
        let mut counter = encoder.encode_descriptor(
            "rest_client_requests",
            "Requests to the API server, by status code, method and host",
            None,
            MetricType::Counter,
        )?;
        for (method, counts) in all() {
            for (code, n) in counts.codes().iter() {
                let code = match *code {
                    NO_ANSWER => "<error>".to_owned(),
                    code => code.to_string(),
                };
                let labels = [("code", code.as_str()), ("host", host), ("method", method)];
                ConstCounter::new(*n).encode(counter.encode_family(&labels)?)?;
            }
        }
        let mut histogram = encoder.encode_descriptor(
            "rest_client_request_duration_seconds",
            "How long the API server takes to begin to answer, by verb and host",
            None,
            MetricType::Histogram,
        )?;
        for (verb, counts) in all().filter(|(_, counts)| !counts.codes().is_empty()) {
            let labels = [("host", host), ("verb", verb)];
            counts.durations.encode(histogram.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_code_method_and_host_also_those_without_an_answer() {
        let requests = Arc::new(Requests::to("https://10.0.0.1:6443"));
        requests.begin(&Method::GET).answered(200);
        requests.begin(&Method::GET).answered(200);
        drop(requests.begin(&Method::POST));
        requests.begin(&Method::OPTIONS).answered(405);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Exporter(requests)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 2"#,
            r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="POST"} 1"#,
            r#"rest_client_requests_total{code="405",host="10.0.0.1:6443",method="OTHER"} 1"#,
            r#"rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="GET"} 2"#,
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
