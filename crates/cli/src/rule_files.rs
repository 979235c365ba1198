//! Reads our kinds, definitions and other resources from files, remembering where each came from.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skopos_api::{Loaded, Resource, Trouble, load};
use skopos_control::yaml_files;

use crate::failure::Failure;
use crate::manifest::{self, Manifest};

/// The most that is read of one file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What files hold.
#[derive(Debug, Default)]
pub(crate) struct RuleFiles {
    /// Our kinds.
    pub(crate) ours: Vec<Loaded>,
    /// Our kinds as they are written, those that cannot be used among them.
    pub(crate) own_manifests: Vec<Manifest>,
    /// Definitions of other kinds.
    pub(crate) definitions: Vec<Manifest>,
    /// Objects of other kinds.
    pub(crate) others: Vec<Manifest>,
    /// What cannot be read, as `place: what`.
    pub(crate) problems: Vec<String>,
    pub(crate) n_files: usize,
}

impl RuleFiles {
    /// Reads all inputs, as `up -f` and `run -f` do: directories with what is below them. What cannot be read is among the
    /// problems; the others are there nevertheless.
    pub(crate) fn read(inputs: &[PathBuf]) -> Self {
        let mut all = Self::default();
        for input in inputs {
            match files(input) {
                Ok(files) => files.iter().for_each(|file| all.add(file)),
                Err(failure) => all.problems.push(failure.message),
            }
        }
        all
    }

    fn add(&mut self, path: &Path) {
        self.n_files += 1;
        match text(path) {
            Ok(text) => self.parse(path, &text),
            Err(failure) => self.problems.push(failure.message),
        }
    }

    pub(crate) fn parse(&mut self, path: &Path, text: &str) {
        for read in load(text, path) {
            match read {
                Ok(loaded) => self.ours.push(loaded),
                // Read once more below, as what it is.
                Err(error) if is_of_others(&error.trouble) => {}
                Err(error) => self.problems.push(error.to_string()),
            }
        }
        for read in manifest::parse(&path.display().to_string(), text.as_bytes()) {
            match read {
                Ok(manifest) if is_ours(&manifest.object) => self.own_manifests.push(manifest),
                Ok(manifest) if manifest.object["kind"] == "CustomResourceDefinition" => {
                    self.definitions.push(manifest);
                }
                Ok(manifest) => self.others.push(manifest),
                // What is no YAML was told above already.
                Err(failure) if self.problems.is_empty() => self.problems.push(failure.message),
                Err(_) => {}
            }
        }
    }

    /// The definitions as they are written.
    pub(crate) fn definition_values(&self) -> Vec<Value> {
        self.definitions.iter().map(|one| one.object.clone()).collect()
    }
}

/// The whole text of a file, or of standard input for `-`.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("cannot read {}: {error}", path.display())).hint("check the path after -f")
    };
    let mut text = String::new();
    let n = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(MAX_FILE_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(failed)?
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_FILE_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(failed)?
    };
    if n as u64 > MAX_FILE_BYTES {
        let message = format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display());
        return Err(Failure::failed(message).hint("split it"));
    }
    Ok(text)
}

/// The files that an input stands for, in order.
fn files(input: &Path) -> Result<Vec<PathBuf>, Failure> {
    if input == Path::new("-") {
        return Ok(vec![input.to_owned()]);
    }
    let found = yaml_files(input)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", input.display())))?;
    match found.is_empty() {
        true => Err(Failure::failed(format!(
            "no .yaml, .yml or .json file in {} or below",
            input.display()
        ))),
        false => Ok(found),
    }
}

/// Whether a document is of a kind that others define. One of our group that we do not know is a mistake.
fn is_of_others(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::UnknownKind(version, _) if !is_our_group(version))
}

fn is_ours(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(is_our_group)
}

fn is_our_group(api_version: &str) -> bool {
    let group = api_version.split_once('/').map(|(group, _)| group);
    group == Some(skopos_api::GROUP)
}

/// What an object of ours is called: kind, namespace, name.
pub(crate) fn name(resource: &Resource) -> (&'static str, String, String) {
    let (kind, metadata) = match resource {
        Resource::Rule(one) => ("Rule", &one.metadata),
        Resource::Sink(one) => ("Sink", &one.metadata),
        Resource::Record(one) => ("Record", &one.metadata),
        Resource::RuleTest(one) => ("RuleTest", &one.metadata),
    };
    let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".into());
    (kind, namespace, metadata.name.clone().unwrap_or_default())
}
