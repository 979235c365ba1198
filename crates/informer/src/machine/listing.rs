//! Reading a collection whole: through the beginning of a watch if the source can, else by lists.

use std::time::Duration;

use skopos_object::{
    ListEnd, ListItem, ListRequest, ListWatchError, Op, ResourceVersion, VersionMatch, WatchEvent,
    WatchRequest,
};

use super::{
    Action, ListVersion, Machine, Next, Plan, State, TOO_LARGE_RETRIES, fault::Fault, following::Watch,
    is_older,
};
use crate::{ListReason, ReflectorError, Report};

/// A list that is being read.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) plan: Plan,
    /// The number of the page, from 1.
    pub(super) page: u32,
    /// Read in one page, because a page's token expired.
    whole: bool,
    /// When the source last said something.
    pub(super) heard: Duration,
}

impl Machine {
    pub(super) fn list(&mut self, plan: Plan, now: Duration) -> Action {
        match plan.version {
            // What comes next belongs to the history that the source has now. Asked before the list, not after: an
            // answer that is too old costs another list one day, one that is too new would hide a loss.
            ListVersion::Latest | ListVersion::Any => self.identify(Next::List(plan), now),
            ListVersion::Position => self.read(plan, now),
        }
    }

    pub(super) fn read(&mut self, plan: Plan, now: Duration) -> Action {
        let refused = self.no_initial_events_until.is_some_and(|until| now < until);
        if self.config.initial_events && !refused {
            self.stream(plan, now)
        } else {
            self.first_page(plan, false, now)
        }
    }

    fn stream(&mut self, plan: Plan, now: Duration) -> Action {
        let from = self.version_for(plan);
        let timeout = self.draw_timeout();
        let watch = Watch::new(from.clone(), timeout, now);
        self.state = State::Streaming { plan, watch };
        Action::Watch(WatchRequest {
            labels: self.config.selection.labels.clone(),
            fields: self.config.selection.fields.clone(),
            from,
            bookmarks: true,
            initial_events: true,
            timeout: Some(timeout),
        })
    }

    fn first_page(&mut self, plan: Plan, whole: bool, now: Duration) -> Action {
        self.state = State::Listing(Listing {
            plan,
            page: 1,
            whole,
            heard: now,
        });
        let resource_version = self.version_for(plan);
        // Servers ignore a limit at version 0, and with a version and a limit older ones go past their cache.
        let paged = !whole && resource_version.is_empty();
        Action::List(ListRequest {
            labels: self.config.selection.labels.clone(),
            fields: self.config.selection.fields.clone(),
            resource_version,
            version_match: VersionMatch::NotOlderThan,
            limit: paged.then_some(self.config.page_size),
            continue_token: None,
        })
    }

    /// A continued list is of the version of its first page, so that none may be named.
    fn next_page(&mut self, token: String) -> Action {
        Action::List(ListRequest {
            labels: self.config.selection.labels.clone(),
            fields: self.config.selection.fields.clone(),
            limit: Some(self.config.page_size),
            continue_token: Some(token),
            ..ListRequest::default()
        })
    }

    fn version_for(&self, plan: Plan) -> ResourceVersion {
        match plan.version {
            ListVersion::Latest => ResourceVersion::default(),
            ListVersion::Any => ResourceVersion::from("0"),
            ListVersion::Position => self.position.clone(),
        }
    }

    pub(super) fn item(&mut self, item: ListItem, now: Duration, out: &mut Vec<Report>) -> Action {
        match &mut self.state {
            State::Listing(listing) => listing.heard = now,
            State::Probing { heard } => {
                *heard = now;
                return match item {
                    ListItem::End(end) => self.probed(&end.resource_version, now, out),
                    ListItem::Object(_) | ListItem::Malformed(_) => Action::Keep,
                };
            }
            _ => return Action::Keep,
        }
        match item {
            ListItem::Object(object) => out.push(Report::Listed(object)),
            ListItem::Malformed(object) => out.push(Report::Malformed {
                op: Op::Created,
                object,
            }),
            ListItem::End(end) => return self.page_ended(end, now, out),
        }
        Action::Keep
    }

    fn page_ended(&mut self, end: ListEnd, now: Duration, out: &mut Vec<Report>) -> Action {
        let State::Listing(listing) = &mut self.state else {
            return Action::Keep;
        };
        if let Some(token) = end.continue_token {
            listing.page += 1;
            return self.next_page(token);
        }
        self.replaced(end.resource_version, now, out);
        self.follow(now)
    }

    /// The collection is known whole, as of `version`.
    fn replaced(&mut self, version: ResourceVersion, now: Duration, out: &mut Vec<Report>) {
        self.position = version.clone();
        self.last_list = Some(now);
        self.suspect = false;
        self.troubled = false;
        self.broken_since = None;
        self.n_too_large = 0;
        out.push(Report::Replaced { version });
    }

    /// An event before the end of what is there. Of every type: a source may interleave changes.
    pub(super) fn initial_event(
        &mut self,
        event: WatchEvent,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let State::Streaming { plan, watch } = &mut self.state else {
            return Action::Keep;
        };
        watch.hear(now);
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => out.push(Report::Listed(object)),
            WatchEvent::Deleted(object) => out.push(Report::Unlisted(object)),
            WatchEvent::Malformed { op, object } => out.push(Report::Malformed { op, object }),
            WatchEvent::Bookmark {
                resource_version,
                initial_events_end: true,
            } => {
                let went_back =
                    plan.version == ListVersion::Position && is_older(&resource_version, &self.position);
                if went_back {
                    return self.went_back(resource_version, now, out);
                }
                watch.from = resource_version.clone();
                watch.synthetic = false;
                let watch = watch.clone();
                self.state = State::Watching(watch);
                self.replaced(resource_version, now, out);
                out.push(Report::Watching);
            }
            // How far the source is before the end says nothing about what we have.
            WatchEvent::Bookmark { .. } => {}
        }
        Action::Keep
    }

    pub(super) fn list_failed(
        &mut self,
        error: ListWatchError,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let State::Listing(listing) = &self.state else {
            return Action::Rest;
        };
        let plan = listing.plan;
        // The replacement token that comes with a 410 would give pages of different versions.
        let token_expired = listing.page > 1 && !listing.whole;
        match Fault::of(&error) {
            Fault::Expired if token_expired => self.first_page(plan, true, now),
            fault => self.list_again(plan, fault, ReflectorError::List(error), now, out),
        }
    }

    pub(super) fn streaming_failed(
        &mut self,
        error: ListWatchError,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let State::Streaming { plan, .. } = self.state else {
            return Action::Rest;
        };
        match Fault::of(&error) {
            Fault::Unsupported | Fault::Broken => {
                self.no_initial_events_until = Some(now + self.config.initial_events_retry);
                self.first_page(plan, false, now)
            }
            fault => self.list_again(plan, fault, ReflectorError::Watch(error), now, out),
        }
    }

    fn list_again(
        &mut self,
        plan: Plan,
        fault: Fault,
        error: ReflectorError,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let latest = Plan::latest(plan.reason);
        match fault {
            Fault::Expired if plan != latest => self.list(latest, now),
            Fault::TooLarge if plan.n_too_large < TOO_LARGE_RETRIES => {
                let n_too_large = plan.n_too_large + 1;
                let again = Plan { n_too_large, ..plan };
                self.rest(error, Next::List(again), now, out)
            }
            Fault::TooLarge => {
                let reason = ListReason::OtherHistory;
                self.rest(error, Next::List(Plan::latest(reason)), now, out)
            }
            _ => self.rest(error, Next::List(plan), now, out),
        }
    }

    pub(super) fn draw_timeout(&mut self) -> Duration {
        let least = self.config.watch_timeout;
        least + least.mul_f64(self.rng.f64())
    }
}
