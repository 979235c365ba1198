//! Tells whether this process lives, is ready, and what it counts: `/healthz`, `/readyz` and `/metrics`.

mod serve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Body;
use prometheus_client::registry::Registry;

pub use self::serve::HealthServer;
use crate::dead_letters::DeadLetters;

/// What is asked about this process, and its answers. Cheap to clone.
///
/// Checks are asked one after the other at every request, so they must be quick: look at a flag, do not call anybody.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use skopos_controller::Health;
///
/// let (health, synced) = (Health::new(), Arc::new(AtomicBool::new(false)));
/// health.add_readiness("caches", move || match synced.load(Ordering::Relaxed) {
///     true => Ok(()),
///     false => Err("not complete yet".to_owned()),
/// });
/// ```
#[derive(Clone, Default)]
pub struct Health {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    alive: RwLock<Vec<Check>>,
    ready: RwLock<Vec<Check>>,
    registry: RwLock<Registry>,
    /// Nothing unless a manager was told to show them.
    dead_letters: OnceLock<DeadLetters>,
}

#[derive(Clone)]
struct Check {
    name: String,
    ask: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Health {
    /// Alive and ready, with an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to `/healthz`: if it fails, this process should be started anew. One of the same name is replaced.
    pub fn add_liveness(&self, name: &str, ask: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        add(&self.shared.alive, name, ask);
    }

    /// Adds a check to `/readyz`: if it fails, this process should not be sent work. One of the same name is replaced.
    pub fn add_readiness(&self, name: &str, ask: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        add(&self.shared.ready, name, ask);
    }

    /// Registers metrics to be shown at `/metrics`.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        let mut registry = self
            .shared
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        register(&mut registry);
    }

    /// Shows dead letters too, and lets them be put back.
    pub(crate) fn show(&self, dead_letters: DeadLetters) {
        // There is one manager for each, and it runs once.
        let _ = self.shared.dead_letters.set(dead_letters);
    }

    /// Answers one request.
    fn respond<B: Body>(&self, request: &Request<B>) -> Response<String> {
        let uri = request.uri();
        let dead_letters = self.shared.dead_letters.get();
        dead_letters
            .and_then(|letters| letters.answer(request))
            .unwrap_or_else(|| self.answer(request.method(), uri.path(), uri.query().unwrap_or_default()))
    }

    /// Answers what everybody may ask.
    fn answer(&self, method: &Method, path: &str, query: &str) -> Response<String> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        }
        let query = Query::parse(query);
        let (page, only) = match path.trim_start_matches('/').split_once('/') {
            Some((page, only)) => (page, Some(only)),
            None => (path.trim_start_matches('/'), None),
        };
        match (page, only) {
            ("healthz" | "livez", only) => report("healthz", &self.shared.alive, only, &query),
            ("readyz", only) => report("readyz", &self.shared.ready, only, &query),
            ("metrics", None) => self.metrics(),
            _ => plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    }

    fn metrics(&self) -> Response<String> {
        let mut text = String::new();
        let registry = self
            .shared
            .registry
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let encoded = prometheus_client::encoding::text::encode(&mut text, &registry);
        drop(registry);
        match encoded {
            Ok(()) => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                answer(StatusCode::OK, kind, text)
            }
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

fn add(
    checks: &RwLock<Vec<Check>>,
    name: &str,
    ask: impl Fn() -> Result<(), String> + Send + Sync + 'static,
) {
    let mut checks = checks.write().unwrap_or_else(PoisonError::into_inner);
    checks.retain(|check| check.name != name);
    checks.push(Check {
        name: name.to_owned(),
        ask: Arc::new(ask),
    });
}

/// What a request wants to know more exactly.
#[derive(Default)]
struct Query<'a> {
    is_verbose: bool,
    excluded: Vec<&'a str>,
}

impl<'a> Query<'a> {
    fn parse(query: &'a str) -> Self {
        let mut parsed = Self::default();
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", value) => parsed.is_verbose = value != "false" && value != "0",
                ("exclude", name) => parsed.excluded.push(name),
                _ => {}
            }
        }
        parsed
    }
}

/// Asks the checks and answers as kube-apiserver does: `ok`, or the list of them.
fn report(
    page: &str,
    checks: &RwLock<Vec<Check>>,
    only: Option<&str>,
    query: &Query<'_>,
) -> Response<String> {
    // Not asked under the lock: a check may take its time, or add another one.
    let mut checks = checks.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(only) = only {
        checks.retain(|check| check.name == only);
        if checks.is_empty() {
            return plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
        }
    }
    let mut lines = vec!["[+]ping ok".to_owned()];
    let mut has_failed = false;
    for Check { name, ask } in &checks {
        if query.excluded.contains(&name.as_str()) {
            lines.push(format!("[+]{name} excluded: ok"));
            continue;
        }
        match ask() {
            Ok(()) => lines.push(format!("[+]{name} ok")),
            Err(why) => {
                has_failed = true;
                lines.push(format!("[-]{name} failed: {why}"));
            }
        }
    }
    let (code, verdict) = match has_failed {
        true => (StatusCode::INTERNAL_SERVER_ERROR, format!("{page} check failed")),
        false => (StatusCode::OK, format!("{page} check passed")),
    };
    match has_failed || query.is_verbose {
        true => plain(code, format!("{}\n{verdict}\n", lines.join("\n"))),
        false => plain(code, "ok".to_owned()),
    }
}

pub(crate) fn plain(code: StatusCode, text: String) -> Response<String> {
    answer(code, "text/plain; charset=utf-8", text)
}

pub(crate) fn answer(code: StatusCode, content_type: &'static str, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-cache, private"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        header::HeaderValue::from_static("nosniff"),
    );
    response
}
