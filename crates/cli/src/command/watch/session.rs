//! A running watch: a reflector, what it has seen, and what a user is told.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use skopos_client::{Api, Client, Error, Resource};
use skopos_informer::{ListReason, Reflector, ReflectorConfig, ReflectorError, Report, Selection};
use skopos_object::{ListWatchError, Malformed};
use tokio_util::sync::CancellationToken;

use super::{Format, Watch};
use crate::change_view::{block, line};
use crate::failure::{Failure, chain};
use crate::kind::{self, Definition, Served};
use crate::live_source::LiveSource;
use crate::mirror::{Cause, Mirror, Seen};
use crate::terminal;

pub(super) struct Session<'a> {
    watch: &'a Watch,
    resource: Resource,
    source: Arc<LiveSource>,
    reflector: Reflector,
    /// Tells when the kind goes; nothing where definitions may not be read.
    definition: Option<Definition>,
    mirror: Mirror,
    started: bool,
    /// The server answered that there is no such collection.
    not_found: bool,
    /// Why the list under way is made.
    listing: ListReason,
    /// Changes to show before the end, if there is one.
    left: Option<u64>,
}

impl<'a> Session<'a> {
    pub(super) async fn begin(
        watch: &'a Watch,
        client: &Client,
        resource: Resource,
        selection: Selection,
        mirror: Mirror,
    ) -> Self {
        let api = api(watch, client, &resource);
        let source = Arc::new(LiveSource::new(watch.connection.clone(), api));
        let definition = Definition::of(&watch.connection, client, &resource).await;
        Self {
            watch,
            resource,
            reflector: Reflector::new(source.clone(), config(selection)),
            definition,
            source,
            mirror,
            started: false,
            not_found: false,
            listing: ListReason::First,
            left: watch.count,
        }
    }

    pub(super) async fn run(mut self, stop: &CancellationToken) -> Result<(), Failure> {
        while self.left != Some(0) && !stop.is_cancelled() {
            tokio::select! {
                reports = self.reflector.next() => {
                    for report in reports {
                        self.take(report)?;
                    }
                }
                () = deleted(&mut self.definition) => self.not_found = true,
            }
            if std::mem::take(&mut self.not_found) {
                self.look().await?;
            }
        }
        Ok(())
    }

    fn take(&mut self, report: Report) -> Result<(), Failure> {
        let report = match report {
            Report::Trouble { error, .. } if !self.started && is_final(&error) => {
                return Err(refusal(error));
            }
            report => report,
        };
        self.tell(&report);
        let listed = matches!(report, Report::Replaced { .. });
        let seen = self.mirror.take(report);
        if listed && self.started {
            self.tell_bridged(&seen);
        }
        for seen in seen {
            self.show(&seen)?;
        }
        if listed && !std::mem::replace(&mut self.started, true) {
            self.tell_start();
        }
        Ok(())
    }

    fn tell_start(&self) {
        let n = self.mirror.len();
        let name = self.resource.group_resource();
        terminal::note(&format!("watching {name}: {n} now; changes follow, Ctrl-C ends"));
    }

    fn tell_bridged(&self, found: &[Seen]) {
        let (n, objects) = (found.len(), self.mirror.len());
        let reason = self.listing;
        terminal::note(&format!(
            "relisted ({reason}): {objects} now, {n} changes found by comparing"
        ));
    }

    /// Says on standard error what a user should know of the watch itself.
    fn tell(&mut self, report: &Report) {
        match report {
            Report::Replace { reason } => {
                self.listing = *reason;
                if let Some(why) = why(*reason) {
                    terminal::note(&format!("relisting: {why}"));
                }
            }
            Report::Trouble { error, retry_in } => self.tell_trouble(error, *retry_in),
            Report::Resumed => terminal::note("reconnected; nothing was missed"),
            Report::Malformed { object, .. } => terminal::warn(&unreadable(object)),
            _ => {}
        }
    }

    fn tell_trouble(&mut self, error: &ReflectorError, retry_in: Duration) {
        if error.is_not_found() {
            self.not_found = true;
            return;
        }
        if needs_new_connection(error) {
            self.source.doubt();
        }
        let wait = retry_in.as_secs_f64();
        terminal::note(&format!("{}; trying again in {wait:.1} s", describe(error)));
    }

    /// The server has no such collection: is the kind gone, or served in another version?
    async fn look(&mut self) -> Result<(), Failure> {
        let word = self.watch.word();
        match kind::look(&self.source.client(), &self.resource, word).await {
            Served::Unknown => Ok(()),
            Served::As(found) if found.version == self.resource.version => Ok(()),
            Served::As(found) => {
                let client = self.source.client();
                self.reopen(&client, *found).await;
                Ok(())
            }
            Served::Not => self.wait_for_kind().await,
        }
    }

    async fn wait_for_kind(&mut self) -> Result<(), Failure> {
        let name = self.resource.group_resource();
        terminal::note(&format!(
            "the server no longer has {name}; waiting for it to be there again, Ctrl-C ends"
        ));
        for seen in self.mirror.clear() {
            self.show(&seen)?;
        }
        if self.left == Some(0) {
            return Ok(());
        }
        let word = self.watch.word();
        let (client, found) = kind::wait_for_again(&self.watch.connection, &self.resource, word).await;
        self.reopen(&client, found).await;
        Ok(())
    }

    async fn reopen(&mut self, client: &Client, found: Resource) {
        let (name, version) = (found.group_resource(), &found.version);
        terminal::note(&format!("the server has {name} again, in version {version}"));
        self.source.replace(api(self.watch, client, &found));
        self.resource = found;
        self.reflector.reopen(self.source.clone());
    }

    fn show(&mut self, seen: &Seen) -> Result<(), Failure> {
        let existing = seen.cause == Cause::First;
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

async fn deleted(definition: &mut Option<Definition>) {
    match definition {
        Some(definition) => definition.deleted().await,
        None => std::future::pending().await,
    }
}

fn api(watch: &Watch, client: &Client, resource: &Resource) -> Api {
    match watch.scope.namespace(client) {
        Some(namespace) => Api::namespaced(client, resource, &namespace),
        None => Api::all(client, resource),
    }
}

/// Someone is looking on: shorter waits than those of a program that runs for months.
fn config(selection: Selection) -> ReflectorConfig {
    ReflectorConfig {
        selection,
        backoff_first: Duration::from_millis(250),
        backoff_longest: Duration::from_secs(10),
        backoff_reset: Duration::from_secs(5),
        ..ReflectorConfig::default()
    }
}

/// Why a list is made that is not the first, unless that was said already.
fn why(reason: ListReason) -> Option<&'static str> {
    match reason {
        ListReason::First | ListReason::Reopened => None,
        ListReason::Expired => Some(
            "the server no longer has the history since the last change; \
             comparing states, versions in between cannot be shown",
        ),
        ListReason::OtherHistory => {
            Some("the server has another history than before (was it restarted in memory?); comparing states")
        }
        ListReason::Unreadable => {
            Some("something came that cannot be read and does not say which object it is; comparing states")
        }
        ListReason::BrokenWatch => Some(
            "the watch fails inside the server again and again; \
             comparing states, versions in between cannot be shown",
        ),
    }
}

fn unreadable(object: &Malformed) -> String {
    let key = match &object.key {
        Some(key) => key.to_string(),
        None => "an object".to_owned(),
    };
    let (version, reason) = (&object.resource_version, &object.reason);
    format!("{key} at version {version} cannot be read and is set aside: {reason}")
}

fn cause(error: &ReflectorError) -> Option<&ListWatchError> {
    match error {
        ReflectorError::List(cause) | ReflectorError::Watch(cause) => Some(cause),
        _ => None,
    }
}

/// A message without the layers that a user does not know.
fn describe(error: &ReflectorError) -> String {
    match cause(error) {
        Some(ListWatchError::Refused(status)) => status.message.clone(),
        Some(ListWatchError::Unavailable(inner) | ListWatchError::Malformed(inner)) => ends(inner.as_ref()),
        _ => chain(error),
    }
}

/// An error and its root, without the layers between and the links that some of them end in.
fn ends(error: &(dyn std::error::Error + 'static)) -> String {
    let root = std::iter::successors(error.source(), |error| error.source()).last();
    match root {
        Some(root) => {
            let root = root.to_string();
            let plain = root.split(": https://").next().unwrap_or_default();
            format!("{error}: {plain}")
        }
        None => error.to_string(),
    }
}

/// Whether the server may be another one by now, or our credentials no longer good.
fn needs_new_connection(error: &ReflectorError) -> bool {
    match cause(error) {
        Some(ListWatchError::Unavailable(_)) => true,
        Some(ListWatchError::Refused(status)) => matches!(status.code, 401 | 502..=504),
        Some(_) => false,
        // It went silent, or broke off.
        None => true,
    }
}

/// Whether it makes no sense to try again, if it is the first thing that the server says.
fn is_final(error: &ReflectorError) -> bool {
    match cause(error) {
        Some(ListWatchError::Refused(status)) => {
            !matches!(status.code, 404 | 410 | 429 | 500 | 502 | 503 | 504)
        }
        Some(ListWatchError::Malformed(_) | ListWatchError::Unsupported(_)) => true,
        Some(ListWatchError::Unavailable(_)) | None => false,
    }
}

fn refusal(error: ReflectorError) -> Failure {
    match error {
        ReflectorError::List(ListWatchError::Refused(status))
        | ReflectorError::Watch(ListWatchError::Refused(status)) => Error::Refused(Box::new(status)).into(),
        error => Failure::failed(describe(&error)),
    }
}
