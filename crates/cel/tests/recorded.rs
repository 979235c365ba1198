//! Replays what cel-go answers in Kubernetes' environment: values, compile errors, run-time errors.
//!
//! `tests/data/recorded.jsonl` was recorded from k8s.io/apiserver 0.36.3. `tests/data/differences.txt` lists
//! the expressions where this crate answers otherwise, so that the list stays true in both directions.
//! `UPDATE=1` rewrites it, to be reviewed like code.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value as Json;
use skopos_cel::{Activation, Decl, Env, Root, Stage};
use skopos_schema::Structural;

const RECORDED: &str = include_str!("data/recorded.jsonl");
const DIFFERENCES: &str = include_str!("data/differences.txt");

#[test]
fn answers_as_cel_go_does() {
    let schema: Json = serde_json::from_str(include_str!("data/schema.json")).unwrap();
    let schema = Structural::from_json(&schema).unwrap();
    let decl = Decl::from_schema(&schema, "selfType", Root::Resource).unwrap();
    let envs = [
        Env::builder().build(),
        Env::builder()
            .variable("self", decl.clone())
            .variable("oldSelf", decl)
            .build(),
    ];
    let this: Json = serde_json::from_str(include_str!("data/self.json")).unwrap();
    let old: Json = serde_json::from_str(include_str!("data/oldself.json")).unwrap();

    let mut differences = BTreeSet::new();
    let mut report = String::new();
    let mut n_cases = 0;
    for line in RECORDED.lines() {
        n_cases += 1;
        let case: Json = serde_json::from_str(line).unwrap();
        let source = case["expr"].as_str().unwrap();
        let env = &envs[usize::from(case["env"] == "self")];
        let expected = expected(&case);
        let found = answer(env, source, &this, &old);
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
    assert_eq!(differences, known, "{report}");
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

fn answer(env: &Env, source: &str, this: &Json, old: &Json) -> String {
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(error) if error.stage() == Stage::Program => return format!("does not compile: PROGRAM {error}"),
        Err(error) => return format!("does not compile: {}", without_expectations(&error.to_string())),
    };
    let vars = Activation::new(&program)
        .with_json("self", this)
        .with_json("oldSelf", old);
    match program.eval(&vars) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
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
