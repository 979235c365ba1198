//! The paths that the edge answers itself: health, version, metrics, index.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::{Method, Response, StatusCode, Uri};
use serde_json::json;

use super::answer::{self, Format};
use super::body::ResponseBody;
use super::query;

/// The release of Kubernetes whose API this server speaks.
pub(crate) const KUBERNETES_VERSION: &str = "1.36.3";

/// The endpoints that run checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// `/healthz`
    Healthz,
    /// `/livez`
    Livez,
    /// `/readyz`
    Readyz,
}

const PROBES: [Probe; 3] = [Probe::Healthz, Probe::Livez, Probe::Readyz];

impl Probe {
    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    fn of(name: &str) -> Option<Self> {
        PROBES.into_iter().find(|probe| probe.name() == name)
    }
}

type CheckFn = dyn Fn() -> Result<(), String> + Send + Sync;

/// One named check behind `/healthz`, `/livez` and `/readyz`.
#[derive(Clone)]
pub(crate) struct HealthCheck {
    name: String,
    probes: Vec<Probe>,
    check: Arc<CheckFn>,
}

impl HealthCheck {
    /// A check that every probe runs. Must not block; the reason of a failure is logged, not shown.
    pub(crate) fn new(
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            probes: PROBES.to_vec(),
            check: Arc::new(check),
        }
    }

    /// Runs the check only for `probes`.
    #[must_use]
    pub(crate) fn only(mut self, probes: &[Probe]) -> Self {
        self.probes = probes.to_vec();
        self
    }

    fn runs_for(&self, probe: Probe) -> bool {
        self.probes.contains(&probe)
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck")
            .field("name", &self.name)
            .field("probes", &self.probes)
            .finish_non_exhaustive()
    }
}

/// Whether a path may be asked without credentials.
pub(super) fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

/// What a local path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local<'a> {
    Health { probe: Probe, check: Option<&'a str> },
    Version,
    Metrics,
    Index,
}

impl<'a> Local<'a> {
    pub(super) fn of(path: &'a str) -> Option<Self> {
        match path {
            "/" | "/index.html" => return Some(Self::Index),
            "/version" | "/version/" => return Some(Self::Version),
            "/metrics" => return Some(Self::Metrics),
            _ => {}
        }
        let (root, check) = match path.strip_prefix('/')?.split_once('/') {
            Some((root, check)) => (root, Some(check)),
            None => (path.strip_prefix('/')?, None),
        };
        Some(Self::Health {
            probe: Probe::of(root)?,
            check,
        })
    }

    /// The path under which it is counted.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Health {
                probe: Probe::Healthz,
                ..
            } => "/healthz",
            Self::Health {
                probe: Probe::Livez, ..
            } => "/livez",
            Self::Health {
                probe: Probe::Readyz, ..
            } => "/readyz",
            Self::Version => "/version",
            Self::Metrics => "/metrics",
            Self::Index => "/",
        }
    }
}

/// Answers one of the health endpoints.
pub(super) fn health(
    checks: &[HealthCheck],
    probe: Probe,
    check: Option<&str>,
    uri: &Uri,
) -> Response<ResponseBody> {
    let checks: Vec<&HealthCheck> = checks.iter().filter(|check| check.runs_for(probe)).collect();
    let Some(name) = check else {
        return all_checks(&checks, probe, uri);
    };
    let Some(check) = checks.iter().find(|check| check.name == name) else {
        return not_found();
    };
    match (check.check)() {
        Ok(()) => answer::text(StatusCode::OK, "ok"),
        Err(reason) => answer::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {reason}\n"),
        ),
    }
}

fn all_checks(checks: &[&HealthCheck], probe: Probe, uri: &Uri) -> Response<ResponseBody> {
    let mut unknown: BTreeSet<String> = query::all(uri, "exclude").collect();
    let excluded = unknown.clone();
    let mut report = String::new();
    let mut has_failed = false;
    for check in checks {
        let name = &check.name;
        if excluded.contains(name) {
            unknown.remove(name);
            report += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match (check.check)() {
            Ok(()) => report += &format!("[+]{name} ok\n"),
            Err(reason) => {
                tracing::warn!(check = %name, probe = probe.name(), %reason, "health check failed");
                has_failed = true;
                report += &format!("[-]{name} failed: reason withheld\n");
            }
        }
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().take(32).map(|name| format!("{name:?}")).collect();
        report += &format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        );
    }
    if has_failed {
        return answer::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{report}{} check failed\n", probe.name()),
        );
    }
    if query::first(uri, "verbose").is_none() {
        return answer::text(StatusCode::OK, "ok");
    }
    answer::text(StatusCode::OK, format!("{report}{} check passed\n", probe.name()))
}

pub(super) fn not_found() -> Response<ResponseBody> {
    answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// `/version`: what clients read is `major`, `minor` and `gitVersion`.
pub(super) fn version(method: &Method, format: Format) -> Response<ResponseBody> {
    if !method.is_safe() {
        return answer::method_not_allowed(format);
    }
    let mut parts = KUBERNETES_VERSION.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let previous = minor
        .parse::<u32>()
        .map_or_else(|_| minor.to_owned(), |minor| minor.saturating_sub(1).to_string());
    answer::raw_json(&VersionInfo {
        major,
        minor,
        emulation_major: major,
        emulation_minor: minor,
        min_compatibility_major: major,
        min_compatibility_minor: previous,
        // Build metadata, not a pre-release: `>= 1.36.0` must hold.
        git_version: format!("v{KUBERNETES_VERSION}+skopos"),
        git_commit: "",
        git_tree_state: "",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: String,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`: every path worth knowing, sorted.
pub(super) fn index(checks: &[HealthCheck], from_handler: Vec<String>) -> Response<ResponseBody> {
    let mut paths: BTreeSet<String> = from_handler.into_iter().collect();
    paths.extend(["/metrics".to_owned(), "/version".to_owned()]);
    for probe in PROBES {
        paths.insert(format!("/{}", probe.name()));
        let names = checks.iter().filter(|check| check.runs_for(probe));
        paths.extend(names.map(|check| format!("/{}/{}", probe.name(), check.name)));
    }
    answer::raw_json(&json!({ "paths": paths }))
}
