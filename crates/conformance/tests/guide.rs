//! A server takes the examples of the guide, as users apply them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use skopos_conformance::{Target, skopos};

/// The kinds that a server knows; tests of rules are for `skopos check` alone.
const KINDS: [&str; 3] = ["Rule", "Sink", "Record"];

/// Runs a command of ours against the server; what it printed.
fn ok(target: &Target, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(skopos()?);
    command.args(args).current_dir(target.dir());
    command.env("KUBECONFIG", target.kubeconfig());
    let output = command.output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    anyhow::ensure!(output.status.success(), "{args:?}: {out}{err}");
    Ok(out.into_owned())
}

/// The pages with their texts.
fn pages() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs/guide"))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let read = |path: PathBuf| Ok((path.clone(), std::fs::read_to_string(&path)?));
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(read)
        .collect()
}

/// Our objects among the examples of a page. Others belong to other programs, or are parts of objects.
fn examples(page: &str) -> anyhow::Result<Vec<Value>> {
    let blocks = page.split("```yaml\n").skip(1);
    let texts = blocks.filter_map(|rest| rest.split("\n```").next());
    let mut ours = Vec::new();
    for text in texts.flat_map(|block| block.split("\n---\n")) {
        if !text.contains("apiVersion: skopos.dev/") {
            continue;
        }
        let object: Value = serde_saphyr::from_str(text).with_context(|| text.to_owned())?;
        if KINDS.iter().any(|kind| object["kind"] == *kind) {
            ours.push(object);
        }
    }
    Ok(ours)
}

/// Writes objects to a file of the test's directory.
fn write(target: &Target, objects: &[Value]) -> anyhow::Result<()> {
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    Ok(std::fs::write(
        target.dir().join("examples.yaml"),
        text.join("\n---\n"),
    )?)
}

/// Waits until the server knows our kinds: it serves a definition a moment after it took it.
fn wait_until_served(target: &Target) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = ok(target, &["get", "rules,sinks,records"]) {
        anyhow::ensure!(Instant::now() < deadline, "our kinds are not served: {error}");
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn a_server_takes_the_examples_of_the_guide() -> anyhow::Result<()> {
    let target = Target::start()?;
    std::fs::write(target.dir().join("crds.yaml"), ok(&target, &["crd"])?)?;
    ok(&target, &["apply", "-f", "crds.yaml"])?;
    wait_until_served(&target)?;
    let mut kinds = BTreeSet::new();
    for (path, page) in pages()? {
        let examples = examples(&page)?;
        if examples.is_empty() {
            continue;
        }
        kinds.extend(examples.iter().map(|one| one["kind"].to_string()));
        let namespaces: BTreeSet<_> = examples
            .iter()
            .filter_map(|one| one["metadata"]["namespace"].as_str())
            .collect();
        let spaces = namespaces
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        write(
            &target,
            &spaces.chain(examples.iter().cloned()).collect::<Vec<_>>(),
        )?;
        let taken = ok(&target, &["apply", "-f", "examples.yaml"]);
        taken.with_context(|| path.display().to_string())?;
        // Those of the next page may have the same names, and a server may outlive this test.
        write(&target, &examples)?;
        ok(&target, &["delete", "-f", "examples.yaml"])?;
    }
    anyhow::ensure!(kinds.len() == KINDS.len(), "examples of {kinds:?} only");
    Ok(())
}
