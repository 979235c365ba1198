//! Plays a recorded session of commands and compares what they print.
//!
//! A script holds lines of three kinds; everything else is for the reader:
//!
//! ```text
//! $ kubectl get application web     a command; the next lines may go on with "+ "
//! > NAME  IMAGE                     what it prints, with what changes from run to run replaced
//! ? 1                               how it ends, if not with 0
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use regex::Regex;

use crate::{Kubeconfig, Target, kubectl};

/// Plays `scripts/<name>.txt` against a server of its own, in a namespace of its own.
///
/// With `UPDATE=1` and a given (real) server the script is rewritten with what that server says.
pub fn play(name: &str) -> anyhow::Result<()> {
    let path = scripts().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let stage = Stage::set(name)?;
    let result = stage.perform(&text);
    stage.clear();
    compare_or_update(&path, &result?)
}

/// Compares a recording with what was just said, or rewrites it when `UPDATE=1` and the server is a real one.
fn compare_or_update(path: &Path, said: &str) -> anyhow::Result<()> {
    if is_real() && std::env::var_os("UPDATE").is_some() {
        return Ok(std::fs::write(path, said)?);
    }
    let recorded = std::fs::read_to_string(path)?;
    if recorded == said {
        return Ok(());
    }
    anyhow::bail!(
        "{} says otherwise (- recorded from kube-apiserver, + said now):\n{}",
        path.display(),
        difference(&recorded, said)
    )
}

/// True if the server was given and is not one of ours.
pub(crate) fn is_real() -> bool {
    std::env::var_os("SKOPOS_TARGET").is_some()
}

/// Where scripts and fixtures are.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// Where a script is played: a server, a directory with the fixtures, a namespace.
struct Stage {
    target: Target,
    dir: PathBuf,
    path: String,
    namespace: String,
    changing: Vec<(Regex, String)>,
}

impl Stage {
    fn set(name: &str) -> anyhow::Result<Stage> {
        let target = Target::start()?;
        let dir = target.dir().join("fixtures");
        std::fs::create_dir(&dir)?;
        for entry in std::fs::read_dir(scripts().join("fixtures"))? {
            let entry = entry?;
            std::fs::copy(entry.path(), dir.join(entry.file_name()))?;
        }
        let kubectl = kubectl()?;
        let tools = kubectl.parent().context("kubectl has no directory")?;
        let path = format!(
            "{}:{}",
            tools.display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let namespace = format!(
            "{}-{}",
            name.rsplit('/').next().unwrap_or(name),
            std::process::id()
        );
        let server = Kubeconfig::read(target.kubeconfig())?.server;
        let changing = changing_parts(&namespace, &server, &dir)?;
        Ok(Stage {
            target,
            dir,
            path,
            namespace,
            changing,
        })
    }

    fn perform(&self, text: &str) -> anyhow::Result<String> {
        self.shell(SETTING)?.expect_success()?;
        let mut played = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Prose(line) => played.push_str(&format!("{line}\n")),
                Piece::Command(command) => {
                    let shown = command.replace('\n', "\n+ ");
                    let outcome = self.shell(&command)?;
                    played.push_str(&format!("$ {shown}\n{}", outcome.written(&self.changing)));
                }
            }
        }
        Ok(played)
    }

    /// Runs a command with a limit of time; its two outputs come as one.
    fn shell(&self, command: &str) -> anyhow::Result<Outcome> {
        const LIMIT: Duration = Duration::from_secs(120);
        let config = self.dir.join("kubeconfig");
        if !config.exists() {
            std::fs::copy(self.target.kubeconfig(), &config)?;
        }
        let start = Instant::now();
        let output = Command::new("timeout")
            .args([
                &LIMIT.as_secs().to_string(),
                "sh",
                "-c",
                &format!("exec 2>&1\n{PRELUDE}\n{command}"),
            ])
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .env("PATH", &self.path)
            .env("KUBECONFIG", &config)
            .env("HOME", &self.dir)
            .env("NS", &self.namespace)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(start.elapsed() < LIMIT, "takes too long: {command}\n{text}");
        Ok(Outcome {
            command: command.to_owned(),
            text,
            code: output.status.code().unwrap_or(-1),
        })
    }

    /// Deletes the namespace from a server that lives on.
    fn clear(&self) {
        if self.target.embedded().is_none() {
            let _ = self.shell("kubectl delete namespace $NS --ignore-not-found --wait=false");
        }
    }
}

/// What every script finds: the definition of its kind, and a namespace that is complete. kubectl waits for one object at a
/// time: for two of which neither is there it gives up at once.
const SETTING: &str = "kubectl apply -f crd.yaml || kubectl apply -f crd.yaml
kubectl wait --for=condition=Established crd/applications.myapps.example.com --timeout=60s &&
kubectl create namespace $NS &&
kubectl wait --for=create serviceaccount/default -n $NS --timeout=60s &&
kubectl wait --for=create configmap/kube-root-ca.crt -n $NS --timeout=60s &&
kubectl config set-context --current --namespace=$NS";

/// Functions that scripts may use: `until_says PATTERN FILE` waits for a line in the output of a command that
/// runs beside.
const PRELUDE: &str = "until_says() { n=0; until grep -q -- \"$1\" \"$2\" 2>/dev/null; do \
    n=$((n+1)); [ $n -gt 600 ] && { echo \"never said: $1\"; cat \"$2\"; return 1; }; sleep 0.05; done; }";

struct Outcome {
    command: String,
    text: String,
    code: i32,
}

impl Outcome {
    fn expect_success(self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.code == 0,
            "{} ended with {}: {}",
            self.command,
            self.code,
            self.text
        );
        Ok(())
    }

    fn written(&self, changing: &[(Regex, String)]) -> String {
        let mut written = String::new();
        let mut lines: Vec<String> = self.text.lines().map(|line| steady(line, changing)).collect();
        // kube-apiserver walks maps: the order of several complaints changes from run to run.
        lines
            .chunk_by_mut(|a, b| a.starts_with("* ") && b.starts_with("* "))
            .for_each(<[String]>::sort);
        for line in lines {
            written.push_str(format!("> {line}").trim_end());
            written.push('\n');
        }
        if self.code != 0 {
            written.push_str(&format!("? {}\n", self.code));
        }
        written
    }
}

enum Piece {
    Prose(String),
    Command(String),
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            pieces.push(Piece::Command(command.to_owned()));
        } else if let Some(more) = line.strip_prefix("+ ") {
            if let Some(Piece::Command(command)) = pieces.last_mut() {
                command.push('\n');
                command.push_str(more);
            }
        } else if !line.starts_with('>') && !line.starts_with("? ") {
            pieces.push(Piece::Prose(line.to_owned()));
        }
    }
    pieces
}

/// What differs from run to run, and the word that stands for it.
fn changing_parts(namespace: &str, server: &str, dir: &Path) -> anyhow::Result<Vec<(Regex, String)>> {
    let literal = |text: &str| regex::escape(text);
    let parts = [
        (literal(namespace), "NS"),
        (literal(server), "SERVER"),
        (literal(server.trim_start_matches("https://")), "HOST"),
        (literal(&dir.display().to_string()), "DIR"),
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".into(), "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".into(), "TIME"),
        (
            r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}".into(),
            "TIME",
        ),
        (r#"("?[rR]esource ?[vV]ersion"?: *)"?\d+"?"#.into(), "${1}RV"),
        (r"(^|\s)(\d+(ms|[smhd]))+(\s|$)".into(), "${1}AGE${4}"),
        // Older releases of kubectl do not name the namespace.
        (r"( (force )?deleted) from NS namespace$".into(), "$1"),
        (r"(\S) {2,}".into(), "$1  "),
    ];
    parts
        .into_iter()
        .map(|(pattern, word)| Ok((Regex::new(&pattern)?, word.to_owned())))
        .collect()
}

fn steady(line: &str, changing: &[(Regex, String)]) -> String {
    let mut line = line.to_owned();
    for (pattern, word) in changing {
        line = pattern.replace_all(&line, word.as_str()).into_owned();
    }
    line
}

/// Lines that only one side has, with the command they belong to.
fn difference(recorded: &str, said: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (blocks(recorded), blocks(said));
    let mut text = String::new();
    for (old, new) in old.iter().zip(&new) {
        if old == new {
            continue;
        }
        text.push_str(&format!("{}\n", old.first().unwrap_or(&"")));
        text.extend(
            old.iter()
                .filter(|line| !new.contains(line))
                .map(|line| format!("  - {line}\n")),
        );
        text.extend(
            new.iter()
                .filter(|line| !old.contains(line))
                .map(|line| format!("  + {line}\n")),
        );
    }
    text
}

/// A command or a request with the lines that follow it.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = vec![Vec::new()];
    for line in text.lines() {
        if line.starts_with("$ ") || line.starts_with("== ") {
            blocks.push(Vec::new());
        }
        blocks.last_mut().expect("begins with one").push(line);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_what_changes_from_run_to_run() {
        let parts = changing_parts("tour-1", "https://127.0.0.1:4", Path::new("/tmp/x")).unwrap();
        let check = |line: &str, expect: &str| assert_eq!(steady(line, &parts), expect);
        check("web   3m2s   tour-1", "web  AGE  NS");
        check(r#"  resourceVersion: "123""#, "  resourceVersion: RV");
        check("uid: 0a1b2c3d-0000-4444-8888-0123456789ab", "uid: UID");
        check(
            "creationTimestamp: \"2026-01-02T03:04:05Z\"",
            "creationTimestamp: \"TIME\"",
        );
    }

    #[test]
    fn keeps_prose_and_drops_old_answers() {
        let kinds: Vec<_> = pieces("Read this.\n$ a\n+ b\n> old\n? 1\n")
            .into_iter()
            .map(|piece| match piece {
                Piece::Prose(line) => format!("prose {line}"),
                Piece::Command(command) => format!("command {command:?}"),
            })
            .collect();
        assert_eq!(kinds, ["prose Read this.", "command \"a\\nb\""]);
    }
}
