//! The two servers side by side.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::compare::differences;
use super::stage::{Side, Stage};
use super::{Difference, Scenario};
use crate::{Endpoint, Kubeconfig, Server, Start, skopos};

/// A kube-apiserver and an embedded server that was started beside it.
#[derive(Debug)]
pub struct Pair {
    real: Side,
    embedded: Side,
    server: Server,
    _dir: tempfile::TempDir,
    run: String,
}

/// What came of a scenario.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many requests were compared.
    pub requests: usize,
    /// Everything that differed.
    pub differences: Vec<Difference>,
    /// Expectations of the scenario itself that kube-apiserver did not meet, such as to answer at all.
    pub mistakes: Vec<String>,
}

impl Pair {
    /// Takes the kube-apiserver that `SKOPOS_TARGET` names by its kubeconfig and starts an embedded server.
    /// Nothing if there is no such server.
    pub fn start() -> anyhow::Result<Option<Pair>> {
        let Some(kubeconfig) = std::env::var_os("SKOPOS_TARGET") else {
            return Ok(None);
        };
        let dir = tempfile::tempdir()?;
        let server = Server::start(&Start {
            program: skopos()?,
            dir: dir.path().join("data"),
            in_memory: true,
            port: 0,
        })?;
        Ok(Some(Pair {
            real: side(&Kubeconfig::read(kubeconfig.as_ref())?)?,
            embedded: side(&Kubeconfig::read(server.kubeconfig())?)?,
            server,
            _dir: dir,
            run: format!("{:x}", std::process::id()),
        }))
    }

    /// The embedded server's process.
    pub fn embedded(&self) -> &Server {
        &self.server
    }

    /// Plays a scenario on both servers at once and compares.
    pub async fn play(&self, scenario: &Scenario) -> anyhow::Result<Outcome> {
        self.play_as(scenario, &self.run).await
    }

    /// Plays a scenario in a namespace and a group whose names end in `id`.
    pub async fn play_as(&self, scenario: &Scenario, id: &str) -> anyhow::Result<Outcome> {
        let (real, embedded) = tokio::join!(
            play_on(&self.real, scenario, id),
            play_on(&self.embedded, scenario, id)
        );
        let embedded = embedded.context("on the embedded server")?;
        match real {
            Ok(real) => compared(scenario, &real, &embedded),
            Err(error) => Ok(Outcome {
                mistakes: vec![format!("on kube-apiserver: {error:#}")],
                ..Outcome::default()
            }),
        }
    }
}

fn side(config: &Kubeconfig) -> anyhow::Result<Side> {
    Ok(Side {
        endpoint: Endpoint::new(config)?,
        anonymous: Endpoint::anonymous(config)?,
    })
}

async fn play_on(side: &Side, scenario: &Scenario, id: &str) -> anyhow::Result<Vec<Value>> {
    let mut stage = Stage::set(side, scenario, id).await?;
    let answers = stage.play(scenario).await;
    stage.clear().await;
    answers
}

fn compared(scenario: &Scenario, real: &[Value], embedded: &[Value]) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    for ((step, real), embedded) in scenario.requests.iter().zip(real).zip(embedded) {
        outcome.requests += 1;
        let (method, path, code) = step.line()?;
        if code.is_some_and(|code| real["code"] != json!(code)) {
            outcome.mistakes.push(format!(
                "{}: {}: kube-apiserver does not answer as written ({}): {real}",
                scenario.name, step.name, step.send
            ));
        }
        let found = differences(real, embedded);
        outcome
            .differences
            .extend(found.into_iter().map(|(part, real, embedded)| Difference {
                scenario: scenario.name.clone(),
                request: step.name.clone(),
                sent: format!("{method} {path}"),
                part,
                real,
                embedded,
            }));
    }
    Ok(outcome)
}
