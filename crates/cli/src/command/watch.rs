//! `skopos watch`: show every change as it happens.

mod session;

use std::time::Duration;

use clap::Args;
use skopos_client::{Client, Resource};
use skopos_informer::Selection;
use skopos_object::{FieldSelector, LabelSelector};
use tokio_util::sync::CancellationToken;

use self::session::Session;
use crate::connection::{Connection, Scope, Select};
use crate::failure::{EXIT_CODES, Failure};
use crate::mirror::Mirror;
use crate::names::{resolve, targets};
use crate::output::Format;
use crate::{kind, signal, terminal};

/// Show every change of a resource, field by field
///
/// Goes on until it is interrupted. After a lost connection it continues where it stopped; where the server no
/// longer knows what happened in between it lists again and compares, so that no deletion is missed, and says so.
/// When the kind itself is deleted it waits until it is there again.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos watch applications
  skopos watch app web -n shop
  skopos watch pods -A -l tier=web -o json
  skopos watch applications --wait

With -o json each change is one line with time, op (existing, created, updated, deleted), reason, resource, key, \
resourceVersion, final, diff (path, old, new) and object. The reason is how the change is known: first (it was there), \
watch (the server told of it), expired, other_history, broken_watch, unreadable or reopened (found by relisting, and \
why that was needed), kind_gone. A deletion that is not final shows the last state known, not the last there was.

{EXIT_CODES}"))]
pub(crate) struct Watch {
    /// TYPE or TYPE NAME
    #[arg(required = true, value_name = "TYPE [NAME]")]
    what: Vec<String>,
    /// How to show the changes
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Begin with the objects that exist already
    #[arg(long)]
    existing: bool,
    /// Wait for the type if the server does not have it yet
    #[arg(long)]
    wait: bool,
    /// End after so many changes
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    connection: Connection,
}

impl Watch {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let watching = async {
            tokio::select! {
                ended = self.watch(&stop) => ended,
                () = stop.cancelled() => Ok(()),
            }
        };
        match self.timeout.map(Duration::from_secs) {
            Some(limit) => tokio::time::timeout(limit, watching).await.unwrap_or(Ok(())),
            None => watching.await,
        }
    }

    async fn watch(&self, stop: &CancellationToken) -> Result<(), Failure> {
        let selection = self.selection(self.name()?.as_deref())?;
        let (client, resource, mirror) = self.find().await?;
        if !resource.supports("watch") {
            return Err(Failure::failed(format!(
                "{} cannot be watched",
                resource.group_resource()
            )));
        }
        let session = Session::begin(self, &client, resource, selection, mirror).await;
        session.run(stop).await
    }

    /// The first word without a name after it.
    fn word(&self) -> &str {
        self.what[0].split('/').next().unwrap_or_default()
    }

    /// Finds the type, and what is known of its objects before the first list.
    async fn find(&self) -> Result<(Client, Resource, Mirror), Failure> {
        let word = self.word();
        let (client, catalog) = self.connection.discover().await?;
        if self.wait && catalog.resolve(word).is_err() {
            terminal::note(&format!("waiting for a resource type \"{word}\", Ctrl-C ends"));
            let (client, resource) = kind::wait_for(&self.connection, word).await;
            return Ok((client, resource, Mirror::of_nothing()));
        }
        let hint =
            "is the CustomResourceDefinition installed? `skopos get crd` lists them; --wait waits for it";
        let resource = resolve(&catalog, word).map_err(|failure| failure.hint(hint))?;
        Ok((client, resource.clone(), Mirror::default()))
    }

    fn name(&self) -> Result<Option<String>, Failure> {
        match targets(&self.what)?.as_slice() {
            [target] => match target.names.as_slice() {
                [] => Ok(None),
                [name] => Ok(Some(name.clone())),
                _ => Err(Failure::usage(
                    "watch takes one name at most; use -l to choose several objects",
                )),
            },
            _ => Err(Failure::usage("watch takes one type; start one for each")),
        }
    }

    fn selection(&self, name: Option<&str>) -> Result<Selection, Failure> {
        let by_name = name
            .map(|name| format!("metadata.name={name}"))
            .unwrap_or_default();
        let both = [by_name.as_str(), self.select.fields.as_str()];
        let fields: Vec<&str> = both.into_iter().filter(|part| !part.is_empty()).collect();
        let labels = LabelSelector::parse(&self.select.labels);
        let fields = FieldSelector::parse(&fields.join(","));
        Ok(Selection {
            labels: labels.map_err(|error| Failure::usage(format!("--selector: {error}")))?,
            fields: fields.map_err(|error| Failure::usage(format!("--field-selector: {error}")))?,
        })
    }
}
