//! Spans from the queue to the receiver, until told to stop.

use std::{fmt, sync::Arc, time::Duration};

use skopos_journal::Sampling;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing_subscriber::{Layer, registry::LookupSpan};

use crate::{
    Config, ConfigError,
    courier::Courier,
    encode::Frame,
    http_client::HttpClient,
    layer::{OfTraces, Taking},
    metrics::Sent,
    queue::Queue,
};

/// How long the last spans may take to be sent.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Sends spans to an OpenTelemetry receiver while it [runs](Exporter::run).
#[derive(Debug)]
pub struct Exporter {
    shared: Arc<Shared>,
    courier: Courier<HttpClient>,
    frame: Frame,
}

/// What others may know of an [`Exporter`]. Cheap to clone.
#[derive(Clone)]
pub struct Traces {
    pub(crate) shared: Arc<Shared>,
}

/// What who brings spans and who sends them share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) sampling: Sampling,
    pub(crate) queue: Queue,
    pub(crate) sent: Sent,
}

impl Exporter {
    /// Reads certificates, but talks to nobody yet.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let shared = Arc::new(Shared::new(config.sampling));
        Ok(Self {
            frame: Frame::new(&config.resource),
            courier: Courier::new(HttpClient::new(config)?, shared.clone()),
            shared,
        })
    }

    /// Takes the spans of changes out of what a subscriber sees, and leaves everything else alone.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Taking(self.shared.clone()).with_filter(OfTraces)
    }

    /// A handle for whoever shows metrics, or tells receivers which traces are recorded.
    pub fn traces(&self) -> Traces {
        Traces {
            shared: self.shared.clone(),
        }
    }

    /// Sends spans until told to stop, then what is left, for no longer than five seconds.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let last_wait = async {
            shutdown.cancelled().await;
            sleep(LAST_WAIT).await;
        };
        tokio::select! {
            () = self.work(&shutdown) => {}
            () = last_wait => {}
        }
        let n_spans = self.shared.lose_the_rest();
        if n_spans > 0 {
            tracing::warn!(n_spans, "the last traces were not taken before the end");
        }
    }

    async fn work(&mut self, shutdown: &CancellationToken) {
        loop {
            let spans = self.shared.queue.batch(shutdown).await;
            if spans.is_empty() {
                return;
            }
            for parcel in self.frame.parcels(&spans) {
                if self.courier.bring(parcel, shutdown).await.is_break() {
                    return;
                }
            }
        }
    }
}

impl Traces {
    /// Which traces are exported.
    pub fn sampling(&self) -> Sampling {
        self.shared.sampling
    }
}

impl Shared {
    pub(crate) fn new(sampling: Sampling) -> Self {
        Self {
            sampling,
            queue: Queue::default(),
            sent: Sent::default(),
        }
    }

    /// Nothing more will be sent: counts what was taken in and has not been.
    fn lose_the_rest(&self) -> u64 {
        let n_left = self.queue.n_taken_in().saturating_sub(self.sent.n_settled());
        self.sent.ended.add(n_left);
        n_left
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces")
            .field("sampling", &self.shared.sampling)
            .finish_non_exhaustive()
    }
}
