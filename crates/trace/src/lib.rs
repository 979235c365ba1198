//! Sends the traces of changes to an OpenTelemetry receiver.
//!
//! What observes, matches and delivers a change opens spans with ids of their own and knows nothing of this crate. Its
//! [`layer`](Exporter::layer) takes those spans, and no others, as they close, into a queue with an end; the [`Exporter`]
//! sends them from there in batches, as OTLP over HTTP in JSON. Nobody waits for it: what does not fit is counted and lost.
//!
//! ```no_run
//! # async fn example(config: skopos_trace::Config) -> Result<(), skopos_trace::ConfigError> {
//! use skopos_trace::Exporter;
//! use tokio_util::sync::CancellationToken;
//! use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};
//!
//! let exporter = Exporter::new(config)?;
//! tracing_subscriber::registry().with(exporter.layer()).init();
//! exporter.run(CancellationToken::new()).await;
//! # Ok(())
//! # }
//! ```

mod config;
mod exporter;

mod layer;
mod queue;
mod span;

mod courier;
mod encode;
mod http_client;
mod tls;

mod metrics;

pub use crate::{
    config::{BadEndpoint, Config, ConfigError, Endpoint, TlsFiles},
    exporter::{Exporter, Traces},
};
