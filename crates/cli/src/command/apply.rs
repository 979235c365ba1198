//! `skopos apply`: bring objects to the state that files describe.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skopos_client::WriteParams;

use crate::applier::{Applied, Applier};
use crate::connection::Connection;
use crate::failure::{Code, EXIT_CODES, Failed, Failure};
use crate::manifest::{Manifest, read};
use crate::output::without_managed_fields;
use crate::terminal;

/// Create or change objects so that they are as files describe
///
/// Fields that an earlier apply set and that are no longer in the file are removed; fields that others set stay.
/// Namespaces and CustomResourceDefinitions go first, and objects wait until their definition is ready. An
/// object that fails does not hold up the others.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos apply -f application.yaml
  skopos apply -f examples -R
  generate | skopos apply -f -

{EXIT_CODES}"))]
pub(crate) struct Apply {
    /// File or directory of YAML or JSON, or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Look into subdirectories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Let the server check everything, but store nothing
    #[arg(long)]
    dry_run: bool,
    /// What to do about fields that the schema does not have
    #[arg(long, value_enum, default_value_t = Validate::Strict)]
    validate: Validate,
    /// What to print for each object
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    scope: Namespace,
    #[command(flatten)]
    connection: Connection,
}

/// The namespace option alone: a file cannot be applied to all namespaces.
#[derive(Debug, Args)]
struct Namespace {
    /// Namespace of the objects that name none
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Validate {
    /// They are an error
    Strict,
    /// They are dropped with a warning
    Warn,
    /// They are dropped
    Ignore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Name,
}

impl Apply {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let mut failed = Failed::default();
        let mut manifests = Vec::new();
        for read in read(&self.filename, self.recursive) {
            match read {
                Ok(manifest) => manifests.push(manifest),
                Err(failure) => failed.note(&failure),
            }
        }
        if manifests.is_empty() {
            return failed.end();
        }
        manifests.sort_by_key(|manifest| order(&manifest.object));
        let (client, catalog) = self.connection.discover().await?;
        let namespace = self
            .scope
            .namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let mut applier = Applier::new(client, catalog, namespace, self.params());
        for manifest in &manifests {
            match applier.apply(&manifest.object).await {
                Ok(applied) => self.print(&applied)?,
                Err(failure) => {
                    let lost = failure.code == Code::NoConnection;
                    failed.note(&located(failure, manifest));
                    if lost {
                        break;
                    }
                }
            }
        }
        failed.end()
    }

    fn params(&self) -> WriteParams {
        let validation = match self.validate {
            Validate::Strict => "Strict",
            Validate::Warn => "Warn",
            Validate::Ignore => "Ignore",
        };
        WriteParams {
            dry_run: self.dry_run,
            field_manager: "skopos".to_owned(),
            field_validation: validation.to_owned(),
        }
    }

    fn print(&self, applied: &Applied) -> Result<(), Failure> {
        let name = applied.object["metadata"]["name"].as_str().unwrap_or_default();
        let full = format!("{}/{name}", applied.resource.qualified_kind());
        let dry = if self.dry_run { " (server dry run)" } else { "" };
        let line = match self.output {
            Format::Text => format!("{full} {}{dry}", applied.outcome.as_str()),
            Format::Name => full,
            Format::Json => json!({
                "op": applied.outcome.as_str(),
                "resource": applied.resource.group_resource().to_string(),
                "namespace": applied.object["metadata"]["namespace"],
                "name": name,
                "object": without_managed_fields(applied.object.clone()),
            })
            .to_string(),
        };
        Ok(terminal::say(&line)?)
    }
}

/// Says where the object was written and what it is.
fn located(failure: Failure, manifest: &Manifest) -> Failure {
    let kind = manifest.object["kind"].as_str().unwrap_or_default();
    let name = manifest.object["metadata"]["name"].as_str().unwrap_or_default();
    let hint = failure
        .hint
        .clone()
        .unwrap_or_else(|| "correct it there and apply again".to_owned());
    failure
        .at(&format!("{}: {kind} {name}", manifest.place))
        .hint(hint)
}

/// Namespaces and definitions are needed by the rest; everything else keeps its order.
fn order(object: &Value) -> u8 {
    match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    }
}
