//! Where the traces of changes go, as the command line and the environment say: the variables of OpenTelemetry, with
//! the meaning that its specification gives them.

mod environment;

use clap::Args;
use skopos_trace::{Config, Endpoint, Exporter, Traces};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, chain};

use self::environment::{Environment, sampling};

/// The flags, which several commands have.
#[derive(Debug, Args)]
pub(crate) struct Otlp {
    /// OpenTelemetry receiver that the traces of changes are exported to, by OTLP over HTTP, such as
    /// http://collector:4318; otherwise as OTEL_EXPORTER_OTLP_ENDPOINT says, and nowhere without it
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Share of the traces to export, from 0 to 1; receivers of deliveries are told which
    #[arg(long, value_name = "SHARE")]
    trace_ratio: Option<f64>,
}

impl Otlp {
    /// What exports traces, if anything is to.
    pub(crate) fn exporter(&self) -> Result<Option<Exporter>, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let Some(config) = self.config(&Environment::new(&environment))? else {
            return Ok(None);
        };
        let exporter = Exporter::new(config).map_err(|error| {
            Failure::usage(format!("traces cannot be exported: {}", chain(&error)))
                .hint("OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY name files in PEM")
        })?;
        Ok(Some(exporter))
    }

    fn config(&self, environment: &Environment<'_>) -> Result<Option<Config>, Failure> {
        let endpoint = match &self.otlp_endpoint {
            Some(url) => Some(given(url)?),
            None => environment.endpoint()?,
        };
        let Some(endpoint) = endpoint else {
            return match self.trace_ratio {
                Some(_) => Err(
                    Failure::usage("--trace-ratio has nothing to share: no receiver is known")
                        .hint("name one with --otlp-endpoint"),
                ),
                None => Ok(None),
            };
        };
        let config = environment.config(endpoint)?;
        Ok(Some(match self.trace_ratio {
            Some(share) => Config {
                sampling: sampling("--trace-ratio", share)?,
                ..config
            },
            None => config,
        }))
    }
}

/// The address of a receiver; also with the path that is otherwise added, which many write.
fn given(url: &str) -> Result<Endpoint, Failure> {
    let endpoint = match url.ends_with("/v1/traces") {
        true => Endpoint::exactly(url),
        false => Endpoint::of_receiver(url),
    };
    endpoint.map_err(|error| Failure::usage(format!("the address in --otlp-endpoint {error}")))
}

/// An exporter at work.
#[derive(Debug)]
pub(crate) struct Exporting {
    traces: Traces,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporting {
    pub(crate) fn start(exporter: Exporter) -> Self {
        let stop = CancellationToken::new();
        Self {
            traces: exporter.traces(),
            task: tokio::spawn(exporter.run(stop.clone())),
            stop,
        }
    }

    pub(crate) fn traces(&self) -> Traces {
        self.traces.clone()
    }

    /// Sends what is left.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "exporting traces ended badly");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(otlp_endpoint: Option<&str>, trace_ratio: Option<f64>) -> Result<Option<Config>, Failure> {
        let otlp = Otlp {
            otlp_endpoint: otlp_endpoint.map(str::to_owned),
            trace_ratio,
        };
        let environment = |name: &str| match name {
            "OTEL_TRACES_SAMPLER" => Some("always_off".to_owned()),
            // What is meant for others does not turn off what is asked for here.
            "OTEL_TRACES_EXPORTER" => Some("none".to_owned()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
            _ => None,
        };
        otlp.config(&Environment::new(&environment))
    }

    #[test]
    fn flags_go_before_the_environment() {
        let config = |url, share| config(Some(url), share).unwrap().unwrap();
        let whole = Endpoint::exactly("http://c:4318/v1/traces").unwrap();
        assert_eq!(config("http://c:4318", None).endpoint, whole);
        assert_eq!(config("http://c:4318/v1/traces", None).endpoint, whole);
        let half = skopos_journal::Sampling::share(0.5).unwrap();
        assert_eq!(config("http://c:4318", Some(0.5)).sampling, half);
    }

    #[test]
    fn flags_that_make_no_sense_are_told() {
        for (url, share, expect) in [
            (
                Some("collector:4318"),
                None,
                "--otlp-endpoint \"collector:4318\" is not a whole URL",
            ),
            (Some("http://c"), Some(1.5), "--trace-ratio must be from 0 to 1"),
            (None, Some(0.5), "--trace-ratio has nothing to share"),
        ] {
            let failure = config(url, share).unwrap_err();
            assert!(failure.message.contains(expect), "{}", failure.message);
        }
        assert!(config(None, None).unwrap().is_none());
    }
}
