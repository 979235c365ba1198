//! What the environment says about the export of traces.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use skopos_journal::Sampling;
use skopos_trace::{BadEndpoint, Config, Endpoint, TlsFiles};

use crate::failure::Failure;

/// Where a receiver is if nobody says so.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// The variables of OpenTelemetry. An empty one is as good as none.
pub(super) struct Environment<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
}

/// A variable and its value.
struct Variable {
    name: String,
    value: String,
}

impl Variable {
    fn bad(&self, problem: &str) -> Failure {
        Failure::usage(format!("{} is {:?}: {problem}", self.name, self.value))
    }
}

impl<'a> Environment<'a> {
    pub(super) fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { read }
    }

    /// Where traces are to be exported to; nothing if they are not.
    pub(super) fn endpoint(&self) -> Result<Option<Endpoint>, Failure> {
        let is_wanted = self.is_wanted()?;
        if is_wanted == Some(false) {
            return Ok(None);
        }
        let bad = |name: &str, error: &BadEndpoint| {
            Failure::usage(format!("the address in {name} {error}"))
                .hint("--otlp-endpoint names another; OTEL_TRACES_EXPORTER=none exports nothing")
        };
        // The address of traces is taken as it is; to that of everything the path is added.
        let exact = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let common = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let endpoint = match (self.get(exact), self.get(common)) {
            (Some(url), _) => Endpoint::exactly(&url).map_err(|error| bad(exact, &error))?,
            (None, Some(url)) => Endpoint::of_receiver(&url).map_err(|error| bad(common, &error))?,
            (None, None) if is_wanted == Some(true) => {
                Endpoint::of_receiver(DEFAULT_ENDPOINT).expect("an address")
            }
            (None, None) => return Ok(None),
        };
        self.check_protocol()?;
        Ok(Some(endpoint))
    }

    /// Everything but where to.
    pub(super) fn config(&self, endpoint: Endpoint) -> Result<Config, Failure> {
        let config = Config::new(endpoint);
        Ok(Config {
            headers: self.headers()?,
            resource: self.resource()?,
            tls: self.tls()?,
            timeout: self.timeout()?.unwrap_or(config.timeout),
            gzip: self.gzip()?,
            sampling: self.sampling()?,
            ..config
        })
    }

    /// Whether it says so at all.
    fn is_wanted(&self) -> Result<Option<bool>, Failure> {
        if self
            .get("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
        {
            return Ok(Some(false));
        }
        let Some(exporters) = self.variable("OTEL_TRACES_EXPORTER") else {
            return Ok(None);
        };
        let mut names = exporters.value.split(',').map(str::trim);
        match exporters.value.as_str() {
            "none" => Ok(Some(false)),
            _ if names.any(|name| name == "otlp") => Ok(Some(true)),
            _ => Err(exporters.bad("traces are exported by otlp, or by none")),
        }
    }

    fn check_protocol(&self) -> Result<(), Failure> {
        match self.otlp("PROTOCOL") {
            Some(protocol) if protocol.value == "grpc" => Err(protocol
                .bad("traces are exported by HTTP only")
                .hint("set it to http/json, and the address to the port for HTTP, mostly 4318")),
            // A receiver of one encoding takes the other too.
            _ => Ok(()),
        }
    }

    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
        let Some(headers) = self.otlp("HEADERS") else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for (name, value) in pairs(&headers)? {
            // The value is not shown: it is a secret as a rule.
            let bad = |problem: &str| Failure::usage(format!("{}: {name:?} {problem}", headers.name));
            let header: HeaderName = name.parse().map_err(|_| bad("is not the name of a header"))?;
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| bad("has a value that does not fit in a header"))?;
            value.set_sensitive(true);
            all.push((header, value));
        }
        Ok(all)
    }

    fn resource(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut all = match self.variable("OTEL_RESOURCE_ATTRIBUTES") {
            Some(attributes) => pairs(&attributes)?,
            None => Vec::new(),
        };
        if let Some(name) = self.get("OTEL_SERVICE_NAME") {
            all.retain(|(key, _)| key != "service.name");
            all.push(("service.name".into(), name));
        }
        for (key, value) in [
            ("service.name", "skopos"),
            ("service.version", env!("CARGO_PKG_VERSION")),
        ] {
            if all.iter().all(|(one, _)| one != key) {
                all.push((key.into(), value.into()));
            }
        }
        Ok(all)
    }

    fn tls(&self) -> Result<TlsFiles, Failure> {
        let file = |name| self.otlp(name).map(|variable| variable.value.into());
        let identity = match (file("CLIENT_CERTIFICATE"), file("CLIENT_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(Failure::usage(
                    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY need each other",
                ));
            }
        };
        Ok(TlsFiles {
            ca: file("CERTIFICATE"),
            identity,
        })
    }

    fn timeout(&self) -> Result<Option<Duration>, Failure> {
        let Some(timeout) = self.otlp("TIMEOUT") else {
            return Ok(None);
        };
        match timeout.value.parse() {
            Ok(millis) if millis > 0 => Ok(Some(Duration::from_millis(millis))),
            _ => Err(timeout.bad("expected a number of milliseconds")),
        }
    }

    fn gzip(&self) -> Result<bool, Failure> {
        match self.otlp("COMPRESSION") {
            None => Ok(false),
            Some(compression) => match compression.value.as_str() {
                "gzip" => Ok(true),
                "none" => Ok(false),
                _ => Err(compression.bad("expected gzip or none")),
            },
        }
    }

    fn sampling(&self) -> Result<Sampling, Failure> {
        let Some(sampler) = self.variable("OTEL_TRACES_SAMPLER") else {
            return Ok(Sampling::default());
        };
        // A change is the root of its trace, so that there is no parent to ask.
        let name = sampler
            .value
            .strip_prefix("parentbased_")
            .unwrap_or(&sampler.value);
        let share = match name {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => match self.variable("OTEL_TRACES_SAMPLER_ARG") {
                None => 1.0,
                Some(share) => share
                    .value
                    .parse()
                    .map_err(|_| share.bad("expected a number from 0 to 1"))?,
            },
            _ => return Err(sampler.bad("expected always_on, always_off or traceidratio")),
        };
        sampling("OTEL_TRACES_SAMPLER_ARG", share)
    }

    /// What is said of traces, or else of everything.
    fn otlp(&self, what: &str) -> Option<Variable> {
        self.variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{what}"))
            .or_else(|| self.variable(&format!("OTEL_EXPORTER_OTLP_{what}")))
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        let value = self.get(name)?;
        Some(Variable {
            name: name.into(),
            value,
        })
    }

    fn get(&self, name: &str) -> Option<String> {
        let value = (self.read)(name)?.trim().to_owned();
        (!value.is_empty()).then_some(value)
    }
}

pub(super) fn sampling(name: &str, share: f64) -> Result<Sampling, Failure> {
    Sampling::share(share).ok_or_else(|| Failure::usage(format!("{name} must be from 0 to 1, not {share}")))
}

/// Reads `key=value,key=value`, where values may have `%20` and the like.
fn pairs(variable: &Variable) -> Result<Vec<(String, String)>, Failure> {
    let mut all = Vec::new();
    for (place, pair) in variable.value.split(',').enumerate() {
        if pair.trim().is_empty() {
            continue;
        }
        // Not shown: it may hold a secret.
        let bad = |problem: &str| {
            Failure::usage(format!("{}: entry {} {problem}", variable.name, place + 1))
                .hint("expected key=value,key=value, with %2C for a comma in a value")
        };
        let (key, value) = pair.split_once('=').ok_or_else(|| bad("has no ="))?;
        let value = percent_decode_str(value.trim())
            .decode_utf8()
            .map_err(|_| bad("is not UTF-8"))?;
        match key.trim() {
            "" => return Err(bad("has nothing before the =")),
            key => all.push((key.into(), value.into())),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some variables, one per line.
    fn variables(lines: &str) -> impl Fn(&str) -> Option<String> {
        move |name| {
            let mut pairs = lines.lines().filter_map(|line| line.trim().split_once('='));
            let found = pairs.find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_owned())
        }
    }

    fn endpoint(lines: &str) -> Result<Option<Endpoint>, Failure> {
        Environment::new(&variables(lines)).endpoint()
    }

    fn config(lines: &str) -> Result<Config, Failure> {
        let endpoint = Endpoint::of_receiver(DEFAULT_ENDPOINT).unwrap();
        Environment::new(&variables(lines)).config(endpoint)
    }

    #[test]
    fn traces_go_where_the_environment_says_and_nowhere_if_it_says_nothing() {
        let exactly = |url| Some(Endpoint::exactly(url).unwrap());
        let default = || exactly("http://localhost:4318/v1/traces");
        for (lines, expect) in [
            ("", None),
            ("OTEL_EXPORTER_OTLP_ENDPOINT=", None),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318",
                exactly("http://c:4318/v1/traces"),
            ),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318",
                exactly("http://c:4318/"),
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT=http://a\nOTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://b/t",
                exactly("http://b/t"),
            ),
            ("OTEL_TRACES_EXPORTER=otlp", default()),
            ("OTEL_TRACES_EXPORTER=console,otlp", default()),
            (
                "OTEL_TRACES_EXPORTER=none\nOTEL_EXPORTER_OTLP_ENDPOINT=http://c",
                None,
            ),
            (
                "OTEL_SDK_DISABLED=true\nOTEL_EXPORTER_OTLP_ENDPOINT=http://c",
                None,
            ),
            ("OTEL_SDK_DISABLED=false\nOTEL_TRACES_EXPORTER=otlp", default()),
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\nOTEL_TRACES_EXPORTER=otlp",
                default(),
            ),
        ] {
            let endpoint = endpoint(lines).unwrap();
            assert_eq!(endpoint, expect, "{lines}");
        }
    }

    #[test]
    fn addresses_that_make_no_sense_are_told() {
        for (lines, expect) in [
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318",
                "the address in OTEL_EXPORTER_OTLP_ENDPOINT \"collector:4318\" is not a whole URL",
            ),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://c",
                "the address in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT \"ftp://c\" must begin with http:// or https://",
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317\nOTEL_EXPORTER_OTLP_PROTOCOL=grpc",
                "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\": traces are exported by HTTP only",
            ),
            (
                "OTEL_TRACES_EXPORTER=zipkin",
                "OTEL_TRACES_EXPORTER is \"zipkin\"",
            ),
        ] {
            let failure = endpoint(lines).unwrap_err();
            assert!(failure.message.contains(expect), "{lines}: {}", failure.message);
        }
    }

    #[test]
    fn headers_and_attributes_are_decoded() {
        let config = config(
            "OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20YTpi==, x-tenant = a%2Cb,
             OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=pr%C3%BCf,service.name=other
             OTEL_SERVICE_NAME=watcher",
        )
        .unwrap();
        let headers: Vec<_> = config
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(headers, [("authorization", "Basic YTpi=="), ("x-tenant", "a,b")]);
        assert!(config.headers.iter().all(|(_, value)| value.is_sensitive()));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            config.resource,
            [
                pair("deployment.environment.name", "prüf"),
                pair("service.name", "watcher"),
                pair("service.version", env!("CARGO_PKG_VERSION")),
            ]
        );
    }

    #[test]
    fn what_is_said_of_traces_goes_before_what_is_said_of_everything() {
        let config = config(
            "OTEL_EXPORTER_OTLP_TIMEOUT=1000
             OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=2500
             OTEL_EXPORTER_OTLP_COMPRESSION=gzip
             OTEL_EXPORTER_OTLP_CERTIFICATE=/etc/ca.pem
             OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE=c.pem
             OTEL_EXPORTER_OTLP_CLIENT_KEY=k.pem",
        )
        .unwrap();
        assert_eq!((config.timeout, config.gzip), (Duration::from_millis(2500), true));
        let expect = TlsFiles {
            ca: Some("/etc/ca.pem".into()),
            identity: Some(("c.pem".into(), "k.pem".into())),
        };
        assert_eq!(config.tls, expect);
    }

    #[test]
    fn a_share_of_the_traces_is_chosen_as_sdks_do() {
        for (lines, share) in [
            ("", 1.0),
            ("OTEL_TRACES_SAMPLER=always_on", 1.0),
            ("OTEL_TRACES_SAMPLER=parentbased_always_off", 0.0),
            ("OTEL_TRACES_SAMPLER=traceidratio", 1.0),
            (
                "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=0.25",
                0.25,
            ),
            (
                "OTEL_TRACES_SAMPLER=parentbased_traceidratio\nOTEL_TRACES_SAMPLER_ARG=0",
                0.0,
            ),
        ] {
            assert_eq!(
                config(lines).unwrap().sampling,
                Sampling::share(share).unwrap(),
                "{lines}"
            );
        }
    }

    #[test]
    fn values_that_make_no_sense_are_told_without_secrets() {
        for (lines, expect) in [
            (
                "OTEL_EXPORTER_OTLP_HEADERS=secret",
                "OTEL_EXPORTER_OTLP_HEADERS: entry 1 has no =",
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS=a=b,=secret",
                "entry 2 has nothing before the =",
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS=a b=secret",
                "\"a b\" is not the name of a header",
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS=a=secret%0A",
                "\"a\" has a value that does not fit",
            ),
            ("OTEL_EXPORTER_OTLP_HEADERS=a=secret%FF", "entry 1 is not UTF-8"),
            (
                "OTEL_RESOURCE_ATTRIBUTES=x",
                "OTEL_RESOURCE_ATTRIBUTES: entry 1 has no =",
            ),
            (
                "OTEL_EXPORTER_OTLP_TIMEOUT=10s",
                "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\": expected a number",
            ),
            ("OTEL_EXPORTER_OTLP_COMPRESSION=zstd", "expected gzip or none"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY=k.pem", "need each other"),
            (
                "OTEL_TRACES_SAMPLER=jaeger_remote",
                "expected always_on, always_off or traceidratio",
            ),
            (
                "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=half",
                "OTEL_TRACES_SAMPLER_ARG is \"half\"",
            ),
            (
                "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=2",
                "OTEL_TRACES_SAMPLER_ARG must be from 0 to 1, not 2",
            ),
        ] {
            let Failure { message, .. } = config(lines).unwrap_err();
            assert!(message.contains(expect), "{lines}: {message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
