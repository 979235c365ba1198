//! What happened, line by line, to compare one life with another.

use std::fmt::Display;
use std::sync::{Arc, Mutex};

use http::Request;
use kube::client::Body;
use skopos_client::Client;
use tokio::time::Instant;

/// Lines with the time at which they were noted. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trace {
    begin: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            begin: Instant::now(),
            lines: Arc::default(),
        }
    }

    pub(crate) fn note(&self, what: impl Display) {
        let at = self.begin.elapsed().as_millis();
        self.lines.lock().unwrap().push(format!("{at} {what}"));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// A client whose requests and answers are noted under a name.
    pub(crate) fn of(&self, client: &Client, name: &str) -> Client {
        let (trace, name, kube) = (self.clone(), Arc::<str>::from(name), client.kube().clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (trace, name, kube) = (trace.clone(), Arc::clone(&name), kube.clone());
            async move {
                let (method, uri) = (request.method().clone(), request.uri().clone());
                trace.note(format_args!("{name} {method} {uri}"));
                let answer = kube.send(request).await;
                let outcome = match &answer {
                    Ok(response) => response.status().as_u16().to_string(),
                    Err(error) => error.to_string(),
                };
                trace.note(format_args!("{name} {method} {} {outcome}", uri.path()));
                answer
            }
        });
        Client::new(kube::Client::new(service, "default"), client.server())
    }
}
