//! Scenarios as data: requests with captures, one YAML file each under `scenarios/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A list of requests in a namespace and an API group of its own.
///
/// Texts may name variables: `$ns`, `$group`, `$reversed` (the group from its end), `$crds`, `$maps`, `$core` (the namespace's path), `$api` (the
/// group's path in its namespace, version v1), and whatever a request before captured. `<<300 x>>` stands for
/// 300 times x.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `<section>/<file>`.
    #[serde(skip)]
    pub name: String,
    /// What it is about, with the ids of the checklist.
    pub about: String,
    /// Definitions to install first: the name of a file under `scenarios/definitions`, or one in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Value>,
    /// The requests, in order.
    pub requests: Vec<Step>,
}

/// One request.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it shows.
    pub name: String,
    /// `METHOD path`, then the code that kube-apiserver answers with: `GET $maps/a => 404`.
    pub send: String,
    /// Headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// A captured object that `body` is merged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The body, letter by letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The body, byte by byte, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The type of the body if it is not JSON; `merge`, `json-patch`, `strategic`, `apply`, `yaml` and `protobuf` for
    /// short.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Who asks, if not the administrator.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// Variables from the answer, by path; `.` is the whole, `@name` a header.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capture: BTreeMap<String, String>,
    /// Read the answer as a watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
    /// Ask again until the answer is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The only part of the body that is compared, by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
    /// Compare the text of each `fieldsV1` too, whose order is of no meaning to JSON.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub order: bool,
}

/// Whose credentials a request shows.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// Nobody's.
    Anonymous,
}

/// How long a watch is read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Watch {
    /// Until so many events came.
    Events(usize),
    /// Until an event of the object of this name came.
    Object(String),
    /// Until a bookmark came.
    Bookmark,
    /// Until the server ends it.
    End,
}

/// What an answer must look like before it is compared.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// A path in its body that must be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A path in its body that must be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<String>,
}

impl Scenario {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Scenario> {
        let text = std::fs::read_to_string(path)?;
        let mut scenario: Scenario =
            serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
        let relative = path.strip_prefix(scenarios()).unwrap_or(path).with_extension("");
        scenario.name = relative.display().to_string();
        for step in &scenario.requests {
            step.line()
                .with_context(|| format!("{}: {}", scenario.name, step.name))?;
        }
        Ok(scenario)
    }

    /// All scenarios of the tree, in order.
    pub fn all() -> anyhow::Result<Vec<Scenario>> {
        let mut all = Vec::new();
        for section in sorted(&scenarios())? {
            if !section.is_dir() || section.ends_with("definitions") {
                continue;
            }
            for file in sorted(&section)? {
                all.push(Scenario::read(&file)?);
            }
        }
        Ok(all)
    }

    /// The scenario as its file would be written.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(self)?)
    }
}

impl Step {
    /// Method, path and the expected code.
    pub(super) fn line(&self) -> anyhow::Result<(&str, &str, Option<u16>)> {
        let (request, code) = match self.send.rsplit_once(" => ") {
            Some((request, code)) => (request, Some(code.trim().parse().context("the expected code")?)),
            None => (self.send.as_str(), None),
        };
        let (method, path) = request
            .split_once(' ')
            .context("`send` is `METHOD path => code`")?;
        Ok((method, path.trim(), code))
    }
}

/// Where scenarios are.
pub(super) fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn sorted(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
