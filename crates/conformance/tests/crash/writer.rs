//! A client that creates, updates and deletes its own objects until the server is gone.

use anyhow::Context;
use http::Method;
use serde_json::json;
use skopos_conformance::{Connection, Endpoint, Request};
use tokio::sync::mpsc;

use crate::MAPS;
use crate::ledger::{Ledger, Stored, tail_of};

/// A small generator of numbers that a seed replays.
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub(crate) struct Writer {
    number: usize,
    rng: Rng,
    ledger: Ledger,
}

impl Writer {
    pub(crate) fn new(number: usize, seed: u64, ledger: Ledger) -> Writer {
        Writer {
            number,
            rng: Rng::new(seed),
            ledger,
        }
    }

    /// Writes until a request fails for want of a server, and returns what it knows.
    pub(crate) async fn run(mut self, endpoint: Endpoint, ack: mpsc::Sender<()>) -> Ledger {
        let Ok(mut connection) = endpoint.connect().await else {
            return self.ledger;
        };
        while self.write(&mut connection).await.is_some() && ack.send(()).await.is_ok() {}
        self.ledger
    }

    /// One write; none when the server did not answer it.
    async fn write(&mut self, connection: &mut Connection) -> Option<()> {
        let name = format!("w{}-{}", self.number, self.rng.below(8));
        let known = self.ledger.known(&name).cloned();
        let delete = known.is_some() && self.rng.below(4) == 0;
        let value = (!delete).then(|| self.rng.next());
        self.ledger.ask(&name, value);
        let request = match (&known, value) {
            (Some(known), Some(value)) => Request::put(
                format!("{MAPS}/{name}"),
                object(&name, value, Some(known.revision)),
            ),
            (None, Some(value)) => Request::post(MAPS, object(&name, value, None)),
            (_, None) => Request::new(Method::DELETE, format!("{MAPS}/{name}")),
        };
        let answer = connection.send(request).await.ok()?;
        // A dying server may answer with an error; what it acknowledged is what counts.
        let answer = answer.success().ok()?;
        let known = value.map(|_| Stored::read(&answer.json()).context("the answer to a write"));
        let known = known.transpose().unwrap_or_else(|error| panic!("{error:#}"));
        self.ledger
            .acknowledge(&name, known)
            .unwrap_or_else(|error| panic!("{error:#}"));
        Some(())
    }
}

fn object(name: &str, value: u64, revision: Option<u64>) -> String {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value.to_string(), "tail": tail_of(value)},
    });
    if let Some(revision) = revision {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
    }
    object.to_string()
}
