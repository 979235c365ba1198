//! The same requests to the embedded server and to kube-apiserver, every answer compared: `scenarios/`.
//!
//! Needs a real server: `cargo xtask kube run -- cargo test -p skopos-conformance --test differential`.
//! `ONLY=writes/update` plays some of them; `SHOW=1` prints what is excused too.

use std::io::Write as _;
use std::sync::Arc;

use skopos_conformance::{Excuses, Pair, Scenario};

/// How many scenarios are played at a time: kube-apiserver waits in many of them.
const AT_A_TIME: usize = 6;

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_as_kube_apiserver_does() -> anyhow::Result<()> {
    let scenarios = chosen()?;
    let mut excuses = Excuses::read()?;
    let requests: usize = scenarios.iter().map(|scenario| scenario.requests.len()).sum();
    let Some(pair) = Pair::start()? else {
        say(&format!(
            "skipped: {requests} requests to compare, no kube-apiserver (SKOPOS_TARGET is not set)"
        ));
        return Ok(());
    };
    let pair = Arc::new(pair);
    let (mut faults, mut excused, mut compared) = (Vec::new(), 0, 0);
    for outcome in play_all(&pair, scenarios).await {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                faults.push(format!("{error:#}"));
                continue;
            }
        };
        compared += outcome.requests;
        faults.extend(outcome.mistakes);
        for difference in outcome.differences {
            match excuses.admit(&difference) {
                true => excused += 1,
                false => faults.push(difference.to_string()),
            }
            if std::env::var_os("SHOW").is_some() {
                say(&difference.to_string());
            }
        }
    }
    if std::env::var_os("ONLY").is_none() {
        let stale = excuses.stale();
        faults.extend(
            stale
                .into_iter()
                .map(|row| format!("docs/compatibility.md admits what is no difference: {row}")),
        );
    }
    say(&format!(
        "compared {compared} requests: {} differ, {excused} fields excused",
        faults.len()
    ));
    let (_, peak) = pair.embedded().memory()?;
    anyhow::ensure!(peak < 400 * MIB, "memory went up to {} MiB", peak / MIB);
    anyhow::ensure!(
        faults.is_empty(),
        "\n{}\n{} differences",
        faults.join("\n"),
        faults.len()
    );
    Ok(())
}

/// Not the macro, whose lines are held back when all is well: the count is part of the result.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn chosen() -> anyhow::Result<Vec<Scenario>> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut scenarios = Scenario::all()?;
    scenarios.retain(|scenario| scenario.name.contains(&only));
    Ok(scenarios)
}

async fn play_all(
    pair: &Arc<Pair>,
    scenarios: Vec<Scenario>,
) -> Vec<anyhow::Result<skopos_conformance::Outcome>> {
    let turns = Arc::new(tokio::sync::Semaphore::new(AT_A_TIME));
    let tasks: Vec<_> = scenarios
        .into_iter()
        .map(|scenario| {
            let (pair, turns) = (pair.clone(), turns.clone());
            tokio::spawn(async move {
                let _turn = turns.acquire_owned().await?;
                pair.play(&scenario).await
            })
        })
        .collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(match task.await {
            Ok(outcome) => outcome,
            Err(error) => Err(error.into()),
        });
    }
    outcomes
}
