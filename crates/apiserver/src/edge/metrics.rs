//! What the edge counts, and how `/metrics` is written.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, LabelSetEncoder, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::seam::{RequestLabels, Sample, SampleValue};

/// Upstream's buckets for request durations, in seconds.
const DURATION_BUCKETS: [f64; 21] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    30.0, 60.0,
];

/// The counters of the edge.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    streams: Family<RequestLabels, Gauge>,
    in_flight: Family<RequestKind, Gauge>,
    pub(super) terminations: Family<Terminated, Counter>,
    pub(super) panics: Counter,
    pub(super) authentication: Family<Attempt, Counter>,
    pub(super) connections: Gauge,
    pub(super) accepted: Counter,
    pub(super) accept_waits: Counter,
    pub(super) handshake_errors: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            streams: Family::default(),
            in_flight: Family::default(),
            terminations: Family::default(),
            panics: Counter::default(),
            authentication: Family::default(),
            connections: Gauge::default(),
            accepted: Counter::default(),
            accept_waits: Counter::default(),
            handshake_errors: Counter::default(),
        };
        metrics.register_requests();
        metrics.register_connections();
        metrics
            .registry
            .register_collector(Box::new(skopos_process::Process));
        metrics
    }
}

impl Metrics {
    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register("apiserver_request", "Requests answered", self.requests.clone());
        let help = "Time from the head of a request to the end of its answer; watches are not in it";
        registry.register_with_unit(
            "apiserver_request_duration",
            help,
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Open watches and streams",
            self.streams.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests worked on now",
            self.in_flight.clone(),
        );
        let help = "Requests that the server ended itself: too many, too late, too large";
        registry.register("apiserver_request_terminations", help, self.terminations.clone());
        registry.register(
            "apiserver_request_panics",
            "Panics caught while answering",
            self.panics.clone(),
        );
        registry.register(
            "authentication_attempts",
            "Requests by outcome of login",
            self.authentication.clone(),
        );
    }

    fn register_connections(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "apiserver_open_connections",
            "Open connections",
            self.connections.clone(),
        );
        registry.register(
            "apiserver_accepted_connections",
            "Connections accepted",
            self.accepted.clone(),
        );
        let help = "Times the listener stood still because all connections were taken";
        registry.register(
            "apiserver_connection_limit_waits",
            help,
            self.accept_waits.clone(),
        );
        registry.register(
            "apiserver_tls_handshake_errors",
            "Failed TLS handshakes",
            self.handshake_errors.clone(),
        );
    }

    pub(super) fn in_flight(&self, request_kind: &'static str) -> Gauge {
        self.in_flight.get_or_create_owned(&RequestKind { request_kind })
    }

    pub(super) fn answered(&self, labels: &RequestLabels, code: u16) {
        self.requests
            .get_or_create(&Answered {
                labels: labels.clone(),
                code,
            })
            .inc();
    }

    pub(super) fn finished(&self, labels: &RequestLabels, took: Duration) {
        self.durations.get_or_create(labels).observe(took.as_secs_f64());
    }

    pub(super) fn stream_opened(&self, labels: &RequestLabels) {
        self.streams.get_or_create(labels).inc();
    }

    pub(super) fn stream_closed(&self, labels: &RequestLabels) {
        self.streams.get_or_create(labels).dec();
    }

    pub(super) fn terminated(&self, code: u16) {
        self.terminations.get_or_create(&Terminated { code }).inc();
    }

    pub(super) fn login(&self, result: &'static str) {
        self.authentication.get_or_create(&Attempt { result }).inc();
    }

    /// Everything, in the OpenMetrics text format, with the handler's samples at the end.
    pub(super) fn encode(&self, samples: Vec<Sample>) -> Result<String, fmt::Error> {
        let mut extra = Registry::default();
        extra.register_collector(Box::new(Samples(Arc::new(samples))));
        let mut text = String::with_capacity(16 * 1024);
        prometheus_client::encoding::text::encode_registry(&mut text, &self.registry)?;
        prometheus_client::encoding::text::encode(&mut text, &extra)?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Labels of `apiserver_request_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Answered {
    labels: RequestLabels,
    code: u16,
}

/// Labels of `apiserver_current_inflight_requests`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestKind {
    request_kind: &'static str,
}

/// Labels of `apiserver_request_terminations_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terminated {
    code: u16,
}

/// Labels of `authentication_attempts_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    result: &'static str,
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let labels: [(&str, &str); 7] = [
            ("component", "apiserver"),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", &self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ];
        encode_labels(encoder, &labels)
    }
}

impl EncodeLabelSet for Answered {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        encode_labels(encoder, &[("code", self.code.to_string())])?;
        self.labels.encode(encoder)
    }
}

impl EncodeLabelSet for RequestKind {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        encode_labels(encoder, &[("request_kind", self.request_kind)])
    }
}

impl EncodeLabelSet for Terminated {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        encode_labels(encoder, &[("code", self.code.to_string())])
    }
}

impl EncodeLabelSet for Attempt {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        encode_labels(encoder, &[("result", self.result)])
    }
}

fn encode_labels<V: AsRef<str>>(encoder: &mut LabelSetEncoder<'_>, labels: &[(&str, V)]) -> fmt::Result {
    use prometheus_client::encoding::{EncodeLabelKey, EncodeLabelValue};
    for (name, value) in labels {
        let mut label = encoder.encode_label();
        let mut key = label.encode_label_key()?;
        EncodeLabelKey::encode(name, &mut key)?;
        let mut written = key.encode_label_value()?;
        EncodeLabelValue::encode(&escaped(value.as_ref()).as_ref(), &mut written)?;
        written.finish()?;
    }
    Ok(())
}

/// The crate writes label values as they are; the format wants these three escaped.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n"),
    )
}

/// The handler's numbers of one scrape.
#[derive(Debug)]
struct Samples(Arc<Vec<Sample>>);

/// Label pairs known only at run time.
#[derive(Clone, Debug)]
struct Pairs<'a>(&'a [(&'static str, String)]);

impl EncodeLabelSet for Pairs<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        encode_labels(encoder, self.0)
    }
}

impl prometheus_client::collector::Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for same in self.0.chunk_by(|a, b| a.name == b.name) {
            encode_samples(&mut encoder, same)?;
        }
        Ok(())
    }
}

/// Samples of one name under one description.
fn encode_samples(encoder: &mut DescriptorEncoder<'_>, same: &[Sample]) -> fmt::Result {
    let Some(head) = same.first() else { return Ok(()) };
    let kind = match head.value {
        SampleValue::Counter(_) => MetricType::Counter,
        SampleValue::Gauge(_) => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(head.name, head.help, None, kind)?;
    if head.labels.is_empty() {
        return encode_value(head.value, family);
    }
    for sample in same {
        let pairs = Pairs(&sample.labels);
        encode_value(sample.value, family.encode_family(&pairs)?)?;
    }
    Ok(())
}

fn encode_value(value: SampleValue, metric: MetricEncoder<'_>) -> fmt::Result {
    match value {
        SampleValue::Counter(value) => ConstCounter::new(value).encode(metric),
        SampleValue::Gauge(value) => ConstGauge::new(value).encode(metric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_requests_streams_samples_and_the_process() {
        let metrics = Metrics::default();
        let labels = RequestLabels {
            verb: "LIST",
            resource: "pods".into(),
            version: "v1".into(),
            ..Default::default()
        };
        metrics.answered(&labels, 200);
        metrics.finished(&labels, Duration::from_millis(30));
        metrics.stream_opened(&labels);
        let objects = |resource: &str, value| Sample {
            name: "apiserver_storage_objects",
            help: "Objects",
            labels: vec![("resource", resource.to_owned())],
            value: SampleValue::Gauge(value),
        };
        let text = metrics
            .encode(vec![objects("pods", 3.0), objects("a\"b", 4.0)])
            .unwrap();
        let lines = [
            "apiserver_request_total{code=\"200\",component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1",
            "apiserver_request_duration_seconds_bucket{le=\"0.05\",component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1",
            "apiserver_storage_objects{resource=\"pods\"} 3.0",
            "apiserver_storage_objects{resource=\"a\\\"b\"} 4.0",
        ];
        for line in lines {
            assert!(text.lines().any(|have| have == line), "{line}\nnot in\n{text}");
        }
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert_eq!(text.matches("TYPE apiserver_storage_objects ").count(), 1);
        assert!(text.ends_with("# EOF\n"));
    }
}
