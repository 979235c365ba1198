//! Random schemas, objects and requests on both servers. Needs a real one, as `differential` does.
//!
//! `SEED=7` begins with that seed, `MINUTES=60` goes on for that long: `cargo xtask differ`. A difference is printed
//! with its seed and the shortest scenario that shows it.

use std::io::Write as _;
use std::time::Duration;

use skopos_conformance::{Difference, Excuses, Outcome, Pair, Scenario};
use tokio::time::Instant;

/// What continuous integration plays: always the same.
const FIRST_SEED: u64 = 1;
const SEEDS: u64 = 12;

/// How many are played at a time.
const AT_A_TIME: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_random_requests_as_kube_apiserver_does() -> anyhow::Result<()> {
    let Some(pair) = Pair::start()? else {
        say(&format!(
            "skipped: {SEEDS} generated scenarios, no kube-apiserver (SKOPOS_TARGET is not set)"
        ));
        return Ok(());
    };
    let (first, minutes) = (number("SEED")?, number("MINUTES")?);
    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let first = first.unwrap_or(FIRST_SEED);
    let mut excuses = Excuses::read()?;
    let (mut seed, mut requests, mut faults, mut lost) = (first, 0, Vec::new(), 0);
    while goes_on(seed - first, end) {
        for (seed, outcome) in play(&pair, seed..seed + AT_A_TIME).await {
            let outcome = once_more_if_broken_off(&pair, seed, outcome?).await?;
            requests += outcome.requests;
            // A busy kube-apiserver breaks connections now and then.
            for mistake in &outcome.mistakes {
                say(&format!("SEED={seed} {mistake}"));
                lost += 1;
            }
            if let Some(fault) = first_fault(&pair, seed, outcome, &mut excuses).await? {
                say(&fault);
                faults.push(fault);
            }
        }
        seed += AT_A_TIME;
    }
    say(&format!(
        "compared {requests} generated requests from {first} to {seed}: {} scenarios differ, {lost} not compared",
        faults.len()
    ));
    anyhow::ensure!(faults.is_empty(), "{} scenarios differ", faults.len());
    anyhow::ensure!(end.is_some() || lost == 0, "{lost} scenarios were not compared");
    Ok(())
}

/// Not the macro, whose lines are held back when all is well: the count is part of the result.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn number(variable: &str) -> anyhow::Result<Option<u64>> {
    Ok(std::env::var(variable)
        .ok()
        .map(|text| text.parse())
        .transpose()?)
}

fn goes_on(played: u64, end: Option<Instant>) -> bool {
    end.map_or(played < SEEDS, |end| Instant::now() < end)
}

async fn play(pair: &Pair, seeds: std::ops::Range<u64>) -> Vec<(u64, anyhow::Result<Outcome>)> {
    let one = |seed: u64| async move { (seed, pair.play(&Scenario::generated(seed)).await) };
    futures_util::future::join_all(seeds.map(one)).await
}

/// A busy kube-apiserver ends a watch now and then that has not told all. Played once more, the rest can be compared; an
/// end that is no accident comes again.
async fn once_more_if_broken_off(pair: &Pair, seed: u64, outcome: Outcome) -> anyhow::Result<Outcome> {
    let ended = |difference: &Difference| {
        difference.part == "end"
            && difference
                .real
                .as_ref()
                .is_some_and(|end| end == "ended by the server")
    };
    if !outcome.differences.iter().any(ended) {
        return Ok(outcome);
    }
    say(&format!(
        "SEED={seed} on kube-apiserver: a watch ended early; played once more"
    ));
    let id = format!("{:x}again", std::process::id());
    pair.play_as(&Scenario::generated(seed), &id).await
}

/// The first difference that is not excused, with the shortest scenario that shows it.
async fn first_fault(
    pair: &Pair,
    seed: u64,
    outcome: Outcome,
    excuses: &mut Excuses,
) -> anyhow::Result<Option<String>> {
    let mut unexcused = outcome
        .differences
        .into_iter()
        .filter(|difference| !excuses.admit(difference));
    let Some(difference) = unexcused.next() else {
        return Ok(None);
    };
    let scenario = Scenario::generated(seed);
    let shortest = match std::env::var_os("SHRINK").is_some_and(|value| value == "0") {
        true => scenario,
        false => pair.shrink(&scenario, &difference, excuses).await,
    };
    Ok(Some(format!(
        "SEED={seed}\n{difference}\n{}",
        shortest.to_yaml()?
    )))
}
