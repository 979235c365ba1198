//! Replays what cel-go answers in Kubernetes' environment: values, compile errors, run-time errors.
//!
//! `tests/data/recorded.jsonl` was recorded from k8s.io/apiserver 0.36.3. `tests/data/differences.txt` lists
//! the expressions where this crate answers otherwise, so that the list stays true in both directions.
//! `UPDATE=1` rewrites it, to be reviewed like code.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value as Json;
use skopos_cel::{Activation, Decl, Env, Root, Stage};
use skopos_schema::Structural;

const RECORDED: &str = include_str!("data/recorded.jsonl");
const DIFFERENCES: &str = include_str!("data/differences.txt");

#[test]
fn answers_as_cel_go_does() {
    let envs = envs();
    let this: Json = serde_json::from_str(include_str!("data/self.json")).unwrap();
    let old: Json = serde_json::from_str(include_str!("data/oldself.json")).unwrap();

    let mut differences = BTreeSet::new();
    let mut report = String::new();
    let (mut n_cases, mut n_costs, mut n_equal_costs) = (0, 0, 0);
    for line in RECORDED.lines() {
        n_cases += 1;
        let case: Json = serde_json::from_str(line).unwrap();
        let source = case["expr"].as_str().unwrap();
        let env = &envs[usize::from(case["env"] == "self")];
        let expected = expected(&case);
        let (found, cost) = answer(env, source, &this, &old);
        if !case["value"].is_null() {
            n_costs += 1;
            n_equal_costs += usize::from(Some(cost) == case["cost"].as_u64());
        }
        if found != expected {
            differences.insert(key(&case));
            writeln!(report, "--- {source}\n  cel-go: {expected}\n  ours:   {found}").unwrap();
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/differences.txt");
        let lines: String = differences.iter().map(|d| format!("{d}\n")).collect();
        std::fs::write(path, lines).unwrap();
        return;
    }
    let known: BTreeSet<String> = DIFFERENCES.lines().map(str::to_owned).collect();
    assert!(n_cases > 4000, "only {n_cases} cases");
    // Costs are cel-go's in all but a few constructs; this keeps them from drifting away.
    assert!(
        n_equal_costs * 100 >= n_costs * 98,
        "{n_equal_costs} of {n_costs} costs are equal"
    );
    assert_eq!(differences, known, "{report}");
}

/// What kube-apiserver reckons before any evaluation, and takes or refuses definitions by. `estimates.jsonl` are random
/// expressions on data with limits; of 78,000 like them none was estimated otherwise.
#[test]
fn estimates_as_kube_apiserver_does() {
    let of_limits = env(include_str!("data/estimates-schema.json"));
    let envs = envs();
    let recorded = RECORDED
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap())
        .map(|case| (&envs[usize::from(case["env"] == "self")], case));
    let random = include_str!("data/estimates.jsonl")
        .lines()
        .map(|line| (&of_limits, serde_json::from_str(line).unwrap()));
    let (mut n_cases, mut report) = (0, String::new());
    for (env, case) in recorded.chain(random) {
        let source = case["expr"].as_str().unwrap();
        let (Some(expected), Ok(program)) = (case["estimate"].as_array(), env.compile(source)) else {
            continue;
        };
        n_cases += 1;
        let found = program.cost_estimate();
        if [found.min, found.max].map(Json::from) != expected[..] {
            writeln!(
                report,
                "--- {source}\n  kube-apiserver: {expected:?}\n  ours: {found:?}"
            )
            .unwrap();
        }
    }
    assert!(n_cases > 4000, "only {n_cases} cases");
    assert!(report.is_empty(), "{report}");
}

fn envs() -> [Env; 2] {
    [Env::builder().build(), env(include_str!("data/schema.json"))]
}

fn env(schema: &str) -> Env {
    let schema: Json = serde_json::from_str(schema).unwrap();
    let schema = Structural::from_json(&schema).unwrap();
    let decl = Decl::from_schema(&schema, "selfType", Root::Resource).unwrap();
    Env::builder()
        .variable("self", decl.clone())
        .variable("oldSelf", decl)
        .build()
}

fn key(case: &Json) -> String {
    let source = case["expr"]
        .as_str()
        .unwrap_or_default()
        .escape_debug()
        .to_string();
    let shown: String = source.chars().take(120).collect();
    shown
}

/// Syntax errors are compared by their kind and place: ANTLR's expectations and recovery are its own.
fn expected(case: &Json) -> String {
    let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
    let compile = text("compile");
    if !compile.is_empty() {
        return format!("does not compile: {}", without_expectations(&compile));
    }
    match text("error") {
        error if error.is_empty() => text("value"),
        error => format!("error: {error}"),
    }
}

fn answer(env: &Env, source: &str, this: &Json, old: &Json) -> (String, u64) {
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(error) if error.stage() == Stage::Program => {
            return (format!("does not compile: PROGRAM {error}"), 0);
        }
        Err(error) => {
            let message = without_expectations(&error.to_string());
            return (format!("does not compile: {message}"), 0);
        }
    };
    let vars = Activation::new(&program)
        .with_json("self", this)
        .with_json("oldSelf", old);
    let outcome = program.run(&vars);
    let answer = match outcome.value {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    };
    (answer, outcome.cost)
}

fn without_expectations(message: &str) -> String {
    match message.contains("Syntax error: ") {
        true => {
            let first = message.lines().next().unwrap_or_default();
            let end = first.find("Syntax error: ").unwrap_or(first.len());
            format!("{}Syntax error", &first[..end])
        }
        false => message.to_owned(),
    }
}
