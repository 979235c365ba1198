//! A watch that does not end: lists, watches, resumes where it was, and lists again when it cannot.

use std::time::Duration;

use skopos_object::{Object, ResourceVersion, Status, WatchEvent};

use crate::limits::random_fraction;
use crate::list::{ListParams, ListStream};
use crate::watch::{WatchParams, WatchStream};
use crate::{Api, Call, Client, Error};

/// What [`Follower::next`] reports.
///
/// Every list is reported as `Listing`, its `Item`s, then `Listed`; a list that fails midway is begun anew with
/// another `Listing`. An object known before but absent from a finished list is gone.
#[derive(Debug)]
pub enum Follow {
    /// A list begins; forget the items of an unfinished one.
    Listing(Why),
    /// One object of the list.
    Item(Object),
    /// The list is complete and shows this revision.
    Listed {
        /// The revision.
        resource_version: String,
    },
    /// An object was created or changed.
    Applied(Object),
    /// An object was deleted, or left the selection; this is its last state.
    Deleted(Object),
    /// Something failed. The next call waits, then tries again.
    Trouble {
        /// What failed.
        error: Error,
        /// How long the next call waits first.
        retry_in: Duration,
    },
    /// After trouble, the watch goes on exactly where it stopped.
    Resumed,
}

/// Why a list is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is the first.
    First,
    /// The server no longer has the history since our last event.
    Expired,
    /// The server has another history than before, as after a restart in memory.
    OtherHistory,
}

/// Follows one resource for as long as it is asked.
#[derive(Debug)]
pub struct Follower {
    api: Api,
    selection: Selection,
    phase: Phase,
    backoff: Backoff,
    /// Revision up to which everything was reported; empty before the first list.
    reported: String,
    /// Which cluster it was, as far as it can be known.
    identity: Option<String>,
    troubled: bool,
}

/// Which objects to follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only objects with these labels; empty for all.
    pub label_selector: String,
    /// Only objects with these fields; empty for all.
    pub field_selector: String,
}

#[derive(Debug)]
enum Phase {
    Start(Why),
    Listing(Box<ListStream>),
    Check,
    Connect,
    Watching(Box<WatchStream>),
}

/// Objects per page of a list.
const PAGE: u32 = 500;

impl Follower {
    /// Follows the objects of `api` that `selection` chooses. Sends nothing yet.
    pub fn new(api: Api, selection: Selection) -> Self {
        Self {
            api,
            selection,
            phase: Phase::Start(Why::First),
            backoff: Backoff::default(),
            reported: String::new(),
            identity: None,
            troubled: false,
        }
    }

    /// Goes on over another connection, for example because credentials were renewed.
    pub fn use_client(&mut self, client: &Client) {
        self.api = self.api.with_client(client);
        if let Phase::Watching(_) = self.phase {
            self.phase = Phase::Check;
        }
    }

    /// Returns the next thing to know. Waits as long as nothing happens.
    pub async fn next(&mut self) -> Follow {
        loop {
            if let Some(pause) = self.backoff.pending.take() {
                tokio::time::sleep(pause).await;
            }
            match self.step().await {
                Ok(Some(report)) => return report,
                Ok(None) => {}
                // Not trouble but routine: the server keeps only so much history.
                Err(error) if self.is_following() && lost_history(&error) => {
                    self.phase = Phase::Start(Why::Expired);
                }
                Err(error) => return self.trouble(error),
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Follow>, Error> {
        match &mut self.phase {
            Phase::Start(why) => {
                let why = *why;
                self.start_list();
                Ok(Some(Follow::Listing(why)))
            }
            Phase::Listing(list) => {
                let item = list.next().await?;
                match item {
                    Some(object) => Ok(Some(Follow::Item(object))),
                    None => Ok(Some(self.end_list().await)),
                }
            }
            Phase::Check => self.check().await.map(|()| None),
            Phase::Connect => self.connect().await,
            Phase::Watching(watch) => {
                let event = watch.next().await?;
                Ok(self.event(event))
            }
        }
    }

    fn start_list(&mut self) {
        let params = ListParams {
            label_selector: self.selection.label_selector.clone(),
            field_selector: self.selection.field_selector.clone(),
            limit: PAGE,
            ..ListParams::default()
        };
        self.phase = Phase::Listing(Box::new(self.api.list(&params)));
    }

    async fn end_list(&mut self) -> Follow {
        if let Phase::Listing(list) = &self.phase {
            self.reported = list.meta().resource_version.clone();
        }
        self.phase = Phase::Connect;
        self.backoff.reset();
        self.troubled = false;
        self.identity = identity(&self.api).await;
        Follow::Listed {
            resource_version: self.reported.clone(),
        }
    }

    /// After the server was away: is what comes next the continuation of what we know?
    async fn check(&mut self) -> Result<(), Error> {
        let identity = identity(&self.api).await;
        let newest = newest(&self.api).await?;
        let other = matches!((&self.identity, &identity), (Some(before), Some(now)) if before != now);
        let behind = ResourceVersion::from(newest.as_str()) < ResourceVersion::from(self.reported.as_str());
        self.phase = if other || behind {
            Phase::Start(Why::OtherHistory)
        } else {
            Phase::Connect
        };
        Ok(())
    }

    async fn connect(&mut self) -> Result<Option<Follow>, Error> {
        let params = WatchParams {
            label_selector: self.selection.label_selector.clone(),
            field_selector: self.selection.field_selector.clone(),
            resource_version: self.reported.clone(),
            ..WatchParams::default()
        };
        let watch = self.api.watch(&params).await?;
        self.phase = Phase::Watching(Box::new(watch));
        self.backoff.reset();
        Ok(std::mem::take(&mut self.troubled).then_some(Follow::Resumed))
    }

    fn event(&mut self, event: Option<WatchEvent>) -> Option<Follow> {
        match event {
            // The time asked for is over: go on from here.
            None => {
                self.phase = Phase::Connect;
                None
            }
            Some(WatchEvent::Bookmark { resource_version, .. }) => {
                self.reported = resource_version.as_str().to_owned();
                None
            }
            Some(WatchEvent::Malformed { .. }) => None,
            Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                self.reported = object.resource_version().as_str().to_owned();
                Some(Follow::Applied(object))
            }
            Some(WatchEvent::Deleted(object)) => {
                self.reported = object.resource_version().as_str().to_owned();
                Some(Follow::Deleted(object))
            }
        }
    }

    fn is_following(&self) -> bool {
        matches!(self.phase, Phase::Connect | Phase::Watching(_))
    }

    fn trouble(&mut self, error: Error) -> Follow {
        let first_list_done = !self.reported.is_empty();
        self.phase = match &self.phase {
            Phase::Start(why) => Phase::Start(*why),
            Phase::Listing(_) if !first_list_done => Phase::Start(Why::First),
            Phase::Listing(_) => Phase::Start(Why::Expired),
            Phase::Check | Phase::Connect | Phase::Watching(_) => Phase::Check,
        };
        self.troubled = true;
        Follow::Trouble {
            error,
            retry_in: self.backoff.next(),
        }
    }
}

/// Says whether the server cannot continue from our revision.
fn lost_history(error: &Error) -> bool {
    let too_large = |status: &Status| status.message.contains("Too large resource version");
    error.is_expired() || error.status().is_some_and(too_large)
}

/// The cluster's identity: by convention the uid of this namespace. `None` where we may not read it.
async fn identity(api: &Api) -> Option<String> {
    let answer = api
        .client()
        .call(&Call::get("/api/v1/namespaces/kube-system"))
        .await
        .ok()?;
    answer.value["metadata"]["uid"].as_str().map(str::to_owned)
}

/// The newest revision of the resource.
async fn newest(api: &Api) -> Result<String, Error> {
    let answer = api
        .client()
        .call(&Call::get(api.path()).query("limit", "1"))
        .await?;
    Ok(answer.value["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Waits that grow from one failure to the next.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
    pending: Option<Duration>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(10);

    fn next(&mut self) -> Duration {
        let grown = Self::FIRST
            .saturating_mul(1 << self.failures.min(8))
            .min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        // Up to a quarter more, so that many clients of one server do not come back at the same moment.
        let pause = grown + grown.mul_f64(0.25 * random_fraction());
        self.pending = Some(pause);
        pause
    }

    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound_and_start_over() {
        let mut backoff = Backoff::default();
        let first = backoff.next();
        assert!(first >= Backoff::FIRST && first <= Backoff::FIRST * 2);
        for _ in 0..40 {
            assert!(backoff.next() <= Backoff::LONGEST + Backoff::LONGEST / 4);
        }
        backoff.reset();
        assert!(backoff.next() <= Backoff::FIRST * 2);
    }
}
