//! Compares the layer table (`xtask/layers.toml`) with the crates as they depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde_json::Value;

use crate::run::{metadata, root};

/// Breaches of the layer table.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(root().join("xtask/layers.toml"))?;
    let graph = Graph::read(&metadata(&[])?)?;
    Ok(breaches(&parse(&text)?, &graph))
}

type Tables = BTreeMap<String, BTreeMap<String, Value>>;

/// Reads `[table]` heads and `key = value` lines, each value being JSON.
fn parse(text: &str) -> anyhow::Result<Tables> {
    let mut tables = Tables::new();
    let mut table = String::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = name.to_owned();
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .with_context(|| format!("layers.toml: {line}"))?;
        let value = serde_json::from_str(value).with_context(|| format!("layers.toml: {line}"))?;
        tables
            .entry(table.clone())
            .or_default()
            .insert(key.trim().to_owned(), value);
    }
    Ok(tables)
}

/// Who depends on whom, by package name.
struct Graph {
    members: BTreeSet<String>,
    /// Ordinary dependencies of every package.
    edges: BTreeMap<String, BTreeSet<String>>,
    /// Dependencies of any kind between members: tests must not reach up either.
    member_edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> anyhow::Result<Graph> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let name_of: BTreeMap<String, String> = list(&metadata["packages"])
            .iter()
            .filter_map(|package| Some((text(&package["id"])?, text(&package["name"])?)))
            .collect();
        let member = |id: &Value| name_of.get(&text(id)?).cloned();
        let members = list(&metadata["workspace_members"])
            .iter()
            .filter_map(member)
            .collect();
        let mut graph = Graph {
            members,
            edges: BTreeMap::new(),
            member_edges: BTreeMap::new(),
        };
        for node in list(&metadata["resolve"]["nodes"]) {
            let from = member(&node["id"]).context("cargo metadata: a node without a package")?;
            for dep in list(&node["deps"]) {
                let Some(to) = member(&dep["pkg"]) else { continue };
                let ordinary = list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
                if ordinary {
                    graph.edges.entry(from.clone()).or_default().insert(to.clone());
                }
                if graph.members.contains(&from) && graph.members.contains(&to) {
                    graph.member_edges.entry(from.clone()).or_default().insert(to);
                }
            }
        }
        Ok(graph)
    }

    /// Everything a package reaches through ordinary dependencies.
    fn reached(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(name) = waiting.pop() {
            for next in self.edges.get(name).into_iter().flatten() {
                if reached.insert(next.as_str()) {
                    waiting.push(next);
                }
            }
        }
        reached
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn breaches(tables: &Tables, graph: &Graph) -> Vec<String> {
    let empty = BTreeMap::new();
    let table = |name: &str| tables.get(name).unwrap_or(&empty);
    let (layers, beside) = (table("layers"), table("beside"));
    let mut breaches = Vec::new();
    for name in &graph.members {
        if !layers.contains_key(name) && !beside.contains_key(name) {
            breaches.push(format!("layers.toml: {name} has no layer"));
        }
    }
    for name in layers.keys().filter(|name| !graph.members.contains(*name)) {
        breaches.push(format!("layers.toml: there is no crate {name}"));
    }
    for (from, targets) in &graph.member_edges {
        let ordinary = |to: &String| graph.edges.get(from).is_some_and(|edges| edges.contains(to));
        let for_tests = |to: &String| names(table("tests").get("may_use"), to) && !ordinary(to);
        let refused = targets
            .iter()
            // A crate may ask for features of its own in its tests.
            .filter(|to| *to != from && !may_use(tables, from, to) && !for_tests(to));
        breaches.extend(refused.map(|to| format!("{from} reaches up or sideways to {to}")));
    }
    for name in layers
        .iter()
        .filter(|(_, layer)| layer.as_u64() == Some(0))
        .map(|(name, _)| name)
    {
        let reached = graph.reached(name);
        let banned = table("pure")
            .get("banned")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let found = banned
            .filter_map(Value::as_str)
            .filter(|banned| reached.contains(banned));
        breaches.extend(found.map(|banned| format!("{name} is pure but reaches {banned}")));
    }
    breaches
}

fn may_use(tables: &Tables, from: &str, to: &str) -> bool {
    let get = |table: &str, name: &str| tables.get(table).and_then(|table| table.get(name));
    if get("beside", to).is_some() {
        return names(get("beside", from), to);
    }
    if get("beside", from).is_some() {
        return true;
    }
    let layer = |name: &str| get("layers", name).and_then(Value::as_u64);
    match (layer(from), layer(to)) {
        (Some(from_layer), Some(to_layer)) if from_layer > to_layer => true,
        _ => names(get("sideways", from), to),
    }
}

/// Whether a list of the table names a crate.
fn names(list: Option<&Value>, name: &str) -> bool {
    let list = list.and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|listed| listed.as_str() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "[layers]\nbase = 0\nwide = 0\nshell = 1\n\n[sideways]\nwide = [\"base\"]\n\
                          [beside]\ntests = []\nkit = []\n[tests]\nmay_use = [\"kit\"]\n[pure]\nbanned = [\"tokio\"]\n";

    fn check(edges: &[(&str, &str)], expect: &[&str]) {
        check_with_tests(edges, &[], expect);
    }

    fn check_with_tests(edges: &[(&str, &str)], of_tests: &[(&str, &str)], expect: &[&str]) {
        let members = ["base", "wide", "shell", "tests", "kit"]
            .map(str::to_owned)
            .into();
        let mut graph = Graph {
            members,
            edges: BTreeMap::new(),
            member_edges: BTreeMap::new(),
        };
        for (from, to) in edges {
            graph
                .edges
                .entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
            if graph.members.contains(*to) {
                graph
                    .member_edges
                    .entry((*from).to_owned())
                    .or_default()
                    .insert((*to).to_owned());
            }
        }
        for (from, to) in of_tests {
            let targets = graph.member_edges.entry((*from).to_owned()).or_default();
            targets.insert((*to).to_owned());
        }
        assert_eq!(breaches(&parse(TABLES).unwrap(), &graph), expect);
    }

    #[test]
    fn lets_tests_alone_use_the_testing_kit() {
        check_with_tests(&[], &[("shell", "kit")], &[]);
        check_with_tests(
            &[],
            &[("shell", "tests")],
            &["shell reaches up or sideways to tests"],
        );
        check(&[("shell", "kit")], &["shell reaches up or sideways to kit"]);
    }

    #[test]
    fn allows_down_and_named_sideways() {
        check(
            &[
                ("shell", "base"),
                ("wide", "base"),
                ("tests", "shell"),
                ("shell", "tokio"),
            ],
            &[],
        );
    }

    #[test]
    fn refuses_up_sideways_and_use_of_tests() {
        check(&[("base", "shell")], &["base reaches up or sideways to shell"]);
        check(&[("base", "wide")], &["base reaches up or sideways to wide"]);
        check(&[("shell", "tests")], &["shell reaches up or sideways to tests"]);
    }

    #[test]
    fn refuses_a_runtime_behind_other_crates() {
        check(
            &[("base", "pool"), ("pool", "tokio")],
            &["base is pure but reaches tokio"],
        );
    }
}
