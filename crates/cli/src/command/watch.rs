//! `skopos watch`: show every change as it happens.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use skopos_client::{Api, Error, Follow, Follower, Resource, Selection, Why};
use tokio_util::sync::CancellationToken;

use crate::change_view::{block, line};
use crate::connection::{Connection, Scope, Select};
use crate::failure::{EXIT_CODES, Failure, chain};
use crate::mirror::{Mirror, Seen};
use crate::names::{resolve, targets};
use crate::{signal, terminal};

/// Show every change of a resource, field by field
///
/// Goes on until it is interrupted. After a lost connection it continues where it stopped; where the server no
/// longer knows what happened in between it compares the states, so that no deletion is missed, and says so.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos watch applications
  skopos watch app web -n shop
  skopos watch pods -A -l tier=web -o json

With -o json each change is one line with time, op (existing, created, updated, deleted), resource, key,
resourceVersion, diff (path, old, new) and object.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Watch {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let name = self.name()?;
        let (client, catalog) = self.connection.discover().await?;
        let word = self.what[0].split('/').next().unwrap_or_default();
        let resource = resolve(&catalog, word)?.clone();
        if !resource.supports("watch") {
            return Err(Failure::failed(format!(
                "{} cannot be watched",
                resource.group_resource()
            )));
        }
        let api = match self.scope.namespace(&client) {
            Some(namespace) => Api::namespaced(&client, &resource, &namespace),
            None => Api::all(&client, &resource),
        };
        let follower = Follower::new(api, self.selection(name.as_deref()));
        let session = Session {
            watch: &self,
            resource,
            follower,
            mirror: Mirror::default(),
            left: self.count,
        };
        match self.timeout.map(Duration::from_secs) {
            Some(limit) => tokio::time::timeout(limit, session.run(stop))
                .await
                .unwrap_or(Ok(())),
            None => session.run(stop).await,
        }
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

    fn selection(&self, name: Option<&str>) -> Selection {
        let by_name = name
            .map(|name| format!("metadata.name={name}"))
            .unwrap_or_default();
        let both = [by_name.as_str(), self.select.fields.as_str()];
        let fields: Vec<&str> = both.into_iter().filter(|part| !part.is_empty()).collect();
        Selection {
            label_selector: self.select.labels.clone(),
            field_selector: fields.join(","),
        }
    }
}

/// A running watch.
struct Session<'a> {
    watch: &'a Watch,
    resource: Resource,
    follower: Follower,
    mirror: Mirror,
    /// Changes to show before the end, if there is one.
    left: Option<u64>,
}

impl Session<'_> {
    async fn run(mut self, stop: CancellationToken) -> Result<(), Failure> {
        let mut started = false;
        while self.left != Some(0) {
            let report = tokio::select! {
                report = self.follower.next() => report,
                () = stop.cancelled() => return Ok(()),
            };
            if let Follow::Trouble { error, .. } = &report
                && !started
                && !error.is_transient()
            {
                let Follow::Trouble { error, .. } = report else {
                    continue;
                };
                return Err(error.into());
            }
            let listed = matches!(report, Follow::Listed { .. });
            self.tell(&report).await;
            for seen in self.mirror.take(report) {
                self.show(&seen)?;
            }
            if listed && !std::mem::replace(&mut started, true) {
                self.tell_start();
            }
        }
        Ok(())
    }

    fn tell_start(&self) {
        let n = self.mirror.len();
        let name = self.resource.group_resource();
        terminal::note(&format!("watching {name}: {n} now; changes follow, Ctrl-C ends"));
    }

    /// Says on standard error what a user should know of the watch itself.
    async fn tell(&mut self, report: &Follow) {
        match report {
            Follow::Listing(Why::Expired) => terminal::note(
                "relisting: the server no longer has the history since the last change; \
                 comparing states, versions in between cannot be shown",
            ),
            Follow::Listing(Why::OtherHistory) => terminal::note(
                "relisting: the server has another history than before (was it restarted in memory?); \
                 comparing states",
            ),
            Follow::Trouble { error, retry_in } => {
                let wait = retry_in.as_secs_f64();
                terminal::note(&format!("{}; trying again in {wait:.1} s", chain(error)));
                self.renew(error).await;
            }
            Follow::Resumed => terminal::note("reconnected; nothing was missed"),
            _ => {}
        }
    }

    /// A server that was started anew may have new certificates and tokens in its kubeconfig.
    async fn renew(&mut self, error: &Error) {
        let unauthorized = error.status().is_some_and(|status| status.code == 401);
        if (error.is_unreachable() || unauthorized)
            && let Ok(client) = self.watch.connection.client().await
        {
            self.follower.use_client(&client);
        }
    }

    fn show(&mut self, seen: &Seen) -> Result<(), Failure> {
        let existing = matches!(seen, Seen::Existing(_));
        if existing && !self.watch.existing {
            return Ok(());
        }
        if !existing {
            match &mut self.left {
                Some(0) => return Ok(()),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        let now = Timestamp::now();
        match self.watch.output {
            Format::Text => terminal::write(block(seen, &self.resource, now).as_bytes())?,
            Format::Json => terminal::say(&line(seen, &self.resource, now))?,
        }
        Ok(())
    }
}
