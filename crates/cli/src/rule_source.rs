//! Which rules a command is about: those of files, or those that a cluster has.

use std::path::{Path, PathBuf};

use clap::Args;
use skopos_client::{Api, Client, ListParams, Resource};
use skopos_object::GroupVersionKind;

use crate::connection::Connection;
use crate::failure::{Code, Failed, Failure};
use crate::rule_files::RuleFiles;

/// Options of commands that are made for rules.
#[derive(Debug, Clone, Args)]
pub(crate) struct RuleSource {
    /// File or directory (with what is below) of YAML or JSON with rules, sinks, records and definitions, or - for
    /// standard input; without it those of the cluster are read
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

impl RuleSource {
    /// Reads all of them, those of a cluster in some namespaces only if any are given. What cannot be read is reported and
    /// fails: half of them would be worse than none.
    pub(crate) async fn read(&self, namespaces: &[String]) -> Result<RuleFiles, Failure> {
        let files = match self.filename.is_empty() {
            true => of_cluster(&self.connection.client().await?, namespaces).await?,
            false => RuleFiles::read(&self.filename),
        };
        let mut failed = Failed::default();
        for problem in &files.problems {
            failed.note(&Failure::failed(problem.as_str()));
        }
        match failed.worst {
            Some(_) => Err(Failure::silent(Code::Failed)),
            None => Ok(files),
        }
    }
}

async fn of_cluster(client: &Client, namespaces: &[String]) -> Result<RuleFiles, Failure> {
    let mut all = RuleFiles::default();
    let ours = |kind, plural| {
        let kind = GroupVersionKind::new(skopos_api::GROUP, skopos_api::VERSION, kind);
        Resource::known(&kind, plural, true)
    };
    let definition = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    for resource in [
        ours("Rule", "rules"),
        ours("Sink", "sinks"),
        ours("Record", "records"),
        Resource::known(&definition, "customresourcedefinitions", false),
    ] {
        let apis = match resource.namespaced && !namespaces.is_empty() {
            true => namespaces
                .iter()
                .map(|namespace| Api::namespaced(client, &resource, namespace))
                .collect(),
            false => vec![Api::all(client, &resource)],
        };
        for api in apis {
            add(&mut all, &api, &resource).await?;
        }
    }
    Ok(all)
}

async fn add(all: &mut RuleFiles, api: &Api, resource: &Resource) -> Result<(), Failure> {
    let mut list = api.list(&ListParams::default());
    while let Some(object) = list.next().await.map_err(not_there)? {
        let mut value = object.to_value();
        // Items of lists may come without their kind; JSON is YAML.
        value["apiVersion"] = resource.api_version().into();
        value["kind"] = resource.kind.clone().into();
        let place = format!("{} {}", resource.kind, object.key());
        all.parse(Path::new(&place), &value.to_string());
    }
    Ok(())
}

fn not_there(error: skopos_client::Error) -> Failure {
    let missing = error.is_not_found();
    let failure = Failure::from(error);
    match missing {
        true => failure.hint("the cluster has no rules yet: give those that it is to have with -f"),
        false => failure,
    }
}
