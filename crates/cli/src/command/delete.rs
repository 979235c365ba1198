//! `skopos delete`: remove objects.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skopos_client::{Api, Catalog, Client, DeleteParams, Error, ListParams, Propagation, Resource};

use crate::connection::{Connection, Scope, Select};
use crate::failure::{EXIT_CODES, Failed, Failure};
use crate::manifest;
use crate::names::{resolve, targets};
use crate::terminal;

/// How often an object that is going away is looked at.
const POLL: Duration = Duration::from_millis(100);
/// After this long the user is told what is being waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Delete objects of any resource
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos delete app web
  skopos delete app/web deployment/web
  skopos delete app -l tier=test
  skopos delete -f application.yaml

{EXIT_CODES}"))]
pub(crate) struct Delete {
    /// TYPE NAME… or TYPE/NAME…
    #[arg(
        value_name = "TYPE [NAME]…",
        required_unless_present = "filename",
        conflicts_with = "filename"
    )]
    what: Vec<String>,
    /// Delete what these files describe
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Look into subdirectories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Delete all objects of the type
    #[arg(long)]
    all: bool,
    /// What becomes of the objects that they own
    #[arg(long, value_enum, default_value_t = Cascade::Background)]
    cascade: Cascade,
    /// Seconds to give each object to end
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,
    /// Return at once instead of waiting until they are gone
    #[arg(long)]
    no_wait: bool,
    /// Give up waiting after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Do not mind objects that do not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// Let the server check everything, but delete nothing
    #[arg(long)]
    dry_run: bool,
    /// What to print for each object
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cascade {
    /// They are deleted afterwards
    Background,
    /// They are deleted first
    Foreground,
    /// They stay
    Orphan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Name,
}

/// One object to delete.
struct Victim {
    api: Api,
    namespace: String,
    name: String,
    uid: Option<String>,
}

impl Delete {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let mut failed = Failed::default();
        let (client, catalog) = self.connection.discover().await?;
        let victims = if self.filename.is_empty() {
            self.named(&client, &catalog).await?
        } else {
            self.described(&client, &catalog, &mut failed)
        };
        let mut going = Vec::new();
        for mut victim in victims {
            match self.delete(&mut victim).await {
                Ok(()) => going.push(victim),
                Err(error) if error.is_not_found() && self.ignore_not_found => {}
                Err(error) => failed.note(&error.into()),
            }
        }
        if !self.no_wait && !self.dry_run {
            let limit = Duration::from_secs(self.timeout);
            match tokio::time::timeout(limit, wait(&going)).await {
                Ok(waited) => waited?,
                Err(_) => failed.note(&still_there(limit)),
            }
        }
        failed.end()
    }

    async fn named(&self, client: &Client, catalog: &Catalog) -> Result<Vec<Victim>, Failure> {
        let mut victims = Vec::new();
        for target in targets(&self.what)? {
            let resource = resolve(catalog, &target.word)?;
            let selected = !self.select.labels.is_empty() || !self.select.fields.is_empty();
            match (target.names.is_empty(), self.all || selected) {
                (true, true) => victims.extend(self.selected(client, resource).await?),
                (true, false) => {
                    return Err(Failure::usage(format!("which {}?", resource.plural))
                        .hint("name them, or use --all, -l or --field-selector"));
                }
                (false, true) => {
                    return Err(Failure::usage("names and --all or a selector cannot be combined"));
                }
                (false, false) => {
                    for name in target.names {
                        victims.push(self.victim(client, resource, None, name)?);
                    }
                }
            }
        }
        Ok(victims)
    }

    fn victim(
        &self,
        client: &Client,
        resource: &Resource,
        own: Option<&str>,
        name: String,
    ) -> Result<Victim, Failure> {
        let namespace = own.map(str::to_owned).or_else(|| self.scope.namespace(client));
        match namespace {
            None if resource.namespaced => {
                Err(Failure::usage("objects cannot be named across all namespaces")
                    .hint("leave out -A and name the namespace with -n"))
            }
            namespace => {
                let namespace = namespace.filter(|_| resource.namespaced).unwrap_or_default();
                let api = Api::namespaced(client, resource, &namespace);
                Ok(Victim {
                    api,
                    namespace,
                    name,
                    uid: None,
                })
            }
        }
    }

    async fn selected(&self, client: &Client, resource: &Resource) -> Result<Vec<Victim>, Failure> {
        let api = match self.scope.namespace(client) {
            Some(namespace) => Api::namespaced(client, resource, &namespace),
            None => Api::all(client, resource),
        };
        let mut list = api.list(&ListParams {
            label_selector: self.select.labels.clone(),
            field_selector: self.select.fields.clone(),
            limit: 500,
            ..ListParams::default()
        });
        let mut victims = Vec::new();
        while let Some(object) = list.next().await? {
            let key = object.key();
            let api = Api::namespaced(client, resource, &key.namespace);
            victims.push(Victim {
                api,
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                uid: None,
            });
        }
        if victims.is_empty() {
            terminal::note("No resources found");
        }
        Ok(victims)
    }

    /// The objects of files, last first, so that what others depend on goes after them.
    fn described(&self, client: &Client, catalog: &Catalog, failed: &mut Failed) -> Vec<Victim> {
        let mut victims = Vec::new();
        for read in manifest::read(&self.filename, self.recursive) {
            let found = read.and_then(|manifest| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (version, kind) = (
                    text(&manifest.object["apiVersion"]),
                    text(&manifest.object["kind"]),
                );
                let metadata = &manifest.object["metadata"];
                let resource = catalog
                    .resources
                    .iter()
                    .find(|r| r.kind == kind && r.api_version() == version);
                let unknown = || {
                    let what = format!("no matches for kind \"{kind}\" in version \"{version}\"");
                    Failure::failed(what).at(&manifest.place.to_string())
                };
                let resource = resource.ok_or_else(unknown)?;
                self.victim(
                    client,
                    resource,
                    metadata["namespace"].as_str(),
                    text(&metadata["name"]),
                )
            });
            match found {
                Ok(victim) => victims.push(victim),
                // Without the kind there are no objects of it.
                Err(_) if self.ignore_not_found => {}
                Err(failure) => failed.note(&failure),
            }
        }
        victims.reverse();
        victims
    }

    async fn delete(&self, victim: &mut Victim) -> Result<(), Error> {
        let propagation = match self.cascade {
            Cascade::Background => Propagation::Background,
            Cascade::Foreground => Propagation::Foreground,
            Cascade::Orphan => Propagation::Orphan,
        };
        let params = DeleteParams {
            dry_run: self.dry_run,
            propagation: Some(propagation),
            grace_period_seconds: self.grace_period,
            uid: None,
        };
        let answer = victim.api.delete(&victim.name, &params).await?;
        for warning in &answer.warnings {
            terminal::warn(warning);
        }
        let uid = answer.value["details"]["uid"]
            .as_str()
            .or(answer.value["metadata"]["uid"].as_str());
        victim.uid = uid.map(str::to_owned);
        self.print(victim);
        Ok(())
    }

    fn print(&self, victim: &Victim) {
        let kind = victim.api.resource().qualified_kind();
        let (name, namespace) = (&victim.name, &victim.namespace);
        let place = if namespace.is_empty() {
            String::new()
        } else {
            format!(" from {namespace} namespace")
        };
        let dry = if self.dry_run { " (server dry run)" } else { "" };
        let line = match self.output {
            Format::Text => format!("{kind} \"{name}\" deleted{place}{dry}"),
            Format::Name => format!("{kind}/{name}"),
            Format::Json => json!({
                "op": "deleted",
                "resource": victim.api.resource().group_resource().to_string(),
                "namespace": namespace,
                "name": name,
                "uid": victim.uid,
            })
            .to_string(),
        };
        // The object is gone even if nobody listens.
        let _ = terminal::say(&line);
    }
}

/// Waits until the objects are gone, or others of the same name have taken their place.
async fn wait(victims: &[Victim]) -> Result<(), Failure> {
    let started = tokio::time::Instant::now();
    let mut told = false;
    for victim in victims {
        loop {
            let found = match victim.api.find(&victim.name).await {
                // Its definition went too, and everything of its kind with it.
                Err(error) if error.is_not_found() => break,
                found => found?,
            };
            match found {
                None => break,
                Some(object) if victim.uid.as_deref() != object["metadata"]["uid"].as_str() => break,
                Some(_) => {}
            }
            if !told && started.elapsed() > PATIENCE {
                told = true;
                terminal::note(&format!(
                    "waiting until {} is gone (it may have finalizers)…",
                    victim.name
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

fn still_there(limit: Duration) -> Failure {
    Failure::failed(format!("not everything is gone after {} s", limit.as_secs()))
        .hint("look at metadata.finalizers of what is left; --no-wait returns at once")
}
