//! The steps of the tour, and the watch that looks on.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_client::{Api, Client, DeleteParams, Error, Patch, Resource, WriteParams, discover};
use skopos_informer::{Reflector, ReflectorConfig, Report};
use skopos_object::Op;

use crate::applier::Applier;
use crate::change_view::{block, line};
use crate::command::demo::proof::prove;
use crate::failure::{Failure, chain};
use crate::manifest;
use crate::mirror::{Cause, Mirror};
use crate::terminal::{self, FAINT, STRONG};

const DEFINITION: &str = include_str!("../../../../../examples/application-crd.yaml");
const NAMESPACE: &str = "default";
const GROUP: &str = "myapps.example.com";
const VERSION: &str = "v1";
const PLURAL: &str = "applications";
/// A change that does not show up within this time never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// A watch that says nothing for so long has said everything.
const QUIET: Duration = Duration::from_millis(300);

/// How the tour is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// With commentary.
    Text,
    /// Only the changes, one line each.
    Json,
}

/// A tour under way.
pub(super) struct Tour {
    show: Show,
    api: Api,
    reflector: Reflector,
    mirror: Mirror,
    step: u32,
    created: u32,
    updated: u32,
    deleted: u32,
}

impl Tour {
    /// Installs the kind and begins to watch it.
    pub(super) async fn begin(client: Client, show: Show, address: SocketAddr) -> Result<Self, Failure> {
        if show == Show::Text {
            let line =
                format!("{STRONG}Skopos{STRONG:#} runs a control plane in memory at https://{address}.");
            terminal::say(&line)?;
        }
        let resource = install(&client, show).await?;
        let api = Api::namespaced(&client, &resource, NAMESPACE);
        let everywhere = Arc::new(Api::all(&client, &resource));
        let reflector = Reflector::new(everywhere, ReflectorConfig::default());
        let mut tour = Self {
            show,
            api,
            reflector,
            mirror: Mirror::default(),
            step: 1,
            created: 0,
            updated: 0,
            deleted: 0,
        };
        tour.title(
            "Watch it. The watch knows group, version and plural: myapps.example.com, v1, applications.",
        )?;
        tour.until_listed().await?;
        Ok(tour)
    }

    pub(super) async fn run(&mut self) -> Result<(), Failure> {
        self.create().await?;
        self.change().await?;
        self.refuse_and_delete().await?;
        if self.show == Show::Json {
            return Ok(());
        }
        let (created, updated, deleted) = (self.created, self.updated, self.deleted);
        let done = format!("The watch saw {created} created, {updated} updated, {deleted} deleted.");
        Ok(terminal::say(&format!("\n{STRONG}{done}{STRONG:#}"))?)
    }

    async fn create(&mut self) -> Result<(), Failure> {
        self.title("Create two applications. Fields with a default (replicas) are filled in by the server.")?;
        for object in [shop(), checkout()] {
            self.api.create(&object, &by_demo()).await?;
        }
        self.see(2).await
    }

    async fn change(&mut self) -> Result<(), Failure> {
        self.title("Roll out a new image and turn on debugging: one patch, one change, three fields.")?;
        let patch = json!({"spec": {"image": "nginx:1.28", "env": [
            {"name": "LOG_LEVEL", "value": "debug"}, {"name": "TRACE", "value": "on"}]}});
        self.api.patch("shop", Patch::Merge(&patch), &by_demo()).await?;
        self.see(1).await?;

        self.title("Scale it, through the scale subresource that kubectl and autoscalers use.")?;
        let scale = json!({"spec": {"replicas": 5}});
        self.api
            .patch_subresource("shop", "scale", Patch::Merge(&scale), &by_demo())
            .await?;
        self.see(1).await?;

        self.title("Report progress in the status, as a controller does: this path cannot change the spec.")?;
        let status = json!({"status": {"phase": "Running", "replicas": 5, "conditions": [
            {"type": "Ready", "status": "True", "reason": "AllReplicasReady"}]}});
        self.api
            .patch_subresource("shop", "status", Patch::Merge(&status), &by_demo())
            .await?;
        self.see(1).await
    }

    async fn refuse_and_delete(&mut self) -> Result<(), Failure> {
        self.title("Ask for something that the schema forbids. The server refuses, the watch sees nothing.")?;
        let wrong = json!({"spec": {"image": ""}});
        let refusal = self.api.patch("shop", Patch::Merge(&wrong), &by_demo()).await;
        self.refused(refusal.map(|_| ()))?;

        self.title("Delete one. A watch reports what it was.")?;
        self.api.delete("checkout", &DeleteParams::default()).await?;
        self.see(1).await
    }

    /// Kills a watcher again and again, and shows that it lost nothing.
    pub(super) async fn prove(&mut self, kubeconfig: &Path) -> Result<(), Failure> {
        self.title(
            "The promise: every change is delivered, whatever happens to the watcher. Kill it and see.",
        )?;
        prove(&self.api, kubeconfig, self.show == Show::Text).await?;
        // What that changed need not be shown as well.
        while let Ok(reports) = tokio::time::timeout(QUIET, self.reflector.next()).await {
            for report in reports {
                self.mirror.take(report);
            }
        }
        Ok(())
    }

    /// Checks that the tour went as it should.
    pub(super) fn end(self) -> Result<(), Failure> {
        match (self.created, self.updated, self.deleted) {
            (2, 3, 1) => Ok(()),
            other => Err(Failure::failed(format!(
                "the watch should have seen 2, 3 and 1 changes, not {other:?}"
            ))),
        }
    }

    /// Goes on showing changes for as long as it is let.
    pub(super) async fn stay(mut self) -> Result<(), Failure> {
        loop {
            for report in self.reflector.next().await {
                if let Report::Trouble { error, .. } = &report {
                    terminal::note(&chain(error));
                }
                self.take(report)?;
            }
        }
    }

    fn title(&mut self, text: &str) -> Result<(), Failure> {
        self.step += 1;
        title(self.show, self.step, text)
    }

    async fn until_listed(&mut self) -> Result<(), Failure> {
        let wait = async {
            while self.reflector.position().is_empty() {
                for report in self.reflector.next().await {
                    if let Report::Trouble { error, .. } = &report {
                        return Err(Failure::failed(chain(error)));
                    }
                    self.take(report)?;
                }
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or_else(|_| Err(nothing_seen()))
    }

    /// Waits until the watch has seen so many changes.
    async fn see(&mut self, n: usize) -> Result<(), Failure> {
        let wait = async {
            let mut left = n;
            while left > 0 {
                for report in self.reflector.next().await {
                    left = left.saturating_sub(self.take(report)?);
                }
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or_else(|_| Err(nothing_seen()))
    }

    /// Shows what a report means; returns how many changes that were.
    fn take(&mut self, report: Report) -> Result<usize, Failure> {
        let all = self.mirror.take(report);
        for seen in &all {
            match (seen.cause, seen.change.op) {
                (Cause::First, _) => {}
                (_, Op::Created) => self.created += 1,
                (_, Op::Updated) => self.updated += 1,
                (_, Op::Deleted) => self.deleted += 1,
            }
            let now = Timestamp::now();
            match self.show {
                Show::Text => terminal::write(block(seen, self.api.resource(), now).as_bytes())?,
                Show::Json => terminal::say(&line(seen, self.api.resource(), now))?,
            }
        }
        Ok(all.len())
    }

    fn refused(&self, result: Result<(), Error>) -> Result<(), Failure> {
        match result {
            Ok(()) => Err(Failure::failed("the server should have refused an empty image")),
            Err(Error::Refused(status)) if self.show == Show::Text => Ok(terminal::say(&format!(
                "    {FAINT}{}: {}{FAINT:#}",
                status.code, status.message
            ))?),
            Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn title(show: Show, step: u32, text: &str) -> Result<(), Failure> {
    match show {
        Show::Text => Ok(terminal::say(&format!("\n{STRONG}{step}. {text}{STRONG:#}"))?),
        Show::Json => Ok(()),
    }
}

/// Applies the definition and looks up what the server made of it.
async fn install(client: &Client, show: Show) -> Result<Resource, Failure> {
    title(
        show,
        1,
        "Install a kind that the server does not know: applications.myapps.example.com.",
    )?;
    let catalog = discover(client).await?;
    let mut applier = Applier::new(
        client.clone(),
        catalog,
        NAMESPACE.to_owned(),
        WriteParams::default(),
    );
    for manifest in manifest::parse("the definition", DEFINITION.as_bytes()) {
        let applied = applier.apply(&manifest?.object).await?;
        if show == Show::Text {
            let name = applied.object["metadata"]["name"].as_str().unwrap_or_default();
            terminal::say(&format!(
                "    {FAINT}{name} {}{FAINT:#}",
                applied.outcome.as_str()
            ))?;
        }
    }
    let catalog = discover(client).await?;
    let missing = || Failure::failed("the server does not serve the kind that was just installed");
    catalog
        .by_plural(GROUP, VERSION, PLURAL)
        .cloned()
        .ok_or_else(missing)
}

/// Who writes during the tour.
fn by_demo() -> WriteParams {
    WriteParams {
        field_manager: "skopos-demo".to_owned(),
        ..WriteParams::default()
    }
}

fn shop() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Application",
        "metadata": {"name": "shop", "labels": {"tier": "web"}},
        "spec": {
            "image": "nginx:1.27",
            "replicas": 2,
            "env": [{"name": "LOG_LEVEL", "value": "info"}],
            "resources": {"cpu": "250m", "memory": "128Mi"},
        },
    })
}

fn checkout() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Application",
        "metadata": {"name": "checkout", "labels": {"tier": "backend"}},
        "spec": {"image": "checkout:2.4.0"},
    })
}

fn nothing_seen() -> Failure {
    Failure::failed(format!(
        "the watch did not see the change within {} s",
        PATIENCE.as_secs()
    ))
    .hint("this should not happen: please report it")
}
