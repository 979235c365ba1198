//! Watching a collection from the version that is known, and finding out when that is impossible.

use std::time::Duration;

use skopos_object::{ListRequest, ListWatchError, Object, ResourceVersion, WatchEvent, WatchRequest};

use super::{Action, FRUITLESS, Machine, Next, Plan, State, TOO_LARGE_RETRIES, fault::Fault, is_older};
use crate::{ListReason, ReflectorConfig, ReflectorError, Report};

/// A watch, from the request on.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The version from which everything is reported.
    pub(super) from: ResourceVersion,
    /// Whether the source may still be reporting what is there, in the order of names: then the
    /// versions of objects say nothing about progress.
    pub(super) synthetic: bool,
    pub(super) is_open: bool,
    since: Duration,
    heard: Duration,
    timeout: Duration,
    n_events: u64,
}

/// A watch that ends sooner than this without an event did not work.
const SHORTEST: Duration = Duration::from_secs(1);

impl Watch {
    pub(super) fn new(from: ResourceVersion, timeout: Duration, now: Duration) -> Self {
        Self {
            synthetic: from.is_empty() || from.is_zero(),
            from,
            is_open: false,
            since: now,
            heard: now,
            timeout,
            n_events: 0,
        }
    }

    pub(super) fn open(&mut self, now: Duration) {
        self.is_open = true;
        self.since = now;
        self.heard = now;
    }

    pub(super) fn hear(&mut self, now: Duration) {
        self.heard = now;
        self.n_events += 1;
    }

    pub(super) fn deadline(&self, config: &ReflectorConfig) -> Duration {
        if !self.is_open {
            return self.since + config.patience;
        }
        let end = self.since + self.timeout + config.watch_grace;
        end.min(self.heard + config.silence)
    }

    pub(super) fn is_silent(&self, config: &ReflectorConfig, now: Duration) -> bool {
        now >= self.heard + config.silence
    }

    pub(super) fn was_useless(&self, now: Duration) -> bool {
        self.n_events == 0 && now < self.since + SHORTEST
    }
}

impl Machine {
    /// Watches from our position, after a look at the source's history if there is doubt about it.
    pub(super) fn follow(&mut self, now: Duration) -> Action {
        if self.suspect {
            return self.identify(Next::Follow, now);
        }
        self.watch(now)
    }

    /// Looks at the newest version, if that is allowed, before watching.
    pub(super) fn probe(&mut self, now: Duration) -> Action {
        if !self.can_probe {
            return self.watch(now);
        }
        self.state = State::Probing { heard: now };
        // Without the selection, so that it costs the server one object and not a scan.
        Action::List(ListRequest {
            limit: Some(1),
            ..ListRequest::default()
        })
    }

    fn watch(&mut self, now: Duration) -> Action {
        let timeout = self.draw_timeout();
        let from = self.position.clone();
        self.state = State::Watching(Watch::new(from.clone(), timeout, now));
        Action::Watch(WatchRequest {
            labels: self.config.selection.labels.clone(),
            fields: self.config.selection.fields.clone(),
            from,
            bookmarks: true,
            initial_events: false,
            timeout: Some(timeout),
        })
    }

    pub(super) fn probed(
        &mut self,
        newest: &ResourceVersion,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        self.suspect = self.n_unidentified > 0;
        if is_older(newest, &self.position) {
            return self.went_back(newest.clone(), now, out);
        }
        self.watch(now)
    }

    /// The source has another history than the one we know: only a list from now helps.
    pub(super) fn went_back(
        &mut self,
        seen: ResourceVersion,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let known = self.position.clone();
        let plan = Plan::latest(ListReason::OtherHistory);
        if self.listed_just_now(now) {
            let error = ReflectorError::WentBack { known, seen };
            return self.rest(error, Next::List(plan), now, out);
        }
        self.list(plan, now)
    }

    /// Some object changed, and nobody can tell which: a list shows them all.
    fn unreadable(&mut self, now: Duration, out: &mut Vec<Report>) -> Action {
        let plan = Plan::latest(ListReason::Unreadable);
        if self.listed_just_now(now) {
            let error = ListWatchError::Malformed("an event without a readable name".into());
            return self.rest(ReflectorError::Watch(error), Next::List(plan), now, out);
        }
        self.list(plan, now)
    }

    pub(super) fn listed_just_now(&self, now: Duration) -> bool {
        self.last_list.is_some_and(|last| now < last + FRUITLESS)
    }

    pub(super) fn event(&mut self, event: WatchEvent, now: Duration, out: &mut Vec<Report>) -> Action {
        let watch = match &mut self.state {
            State::Watching(watch) => watch,
            State::Streaming { .. } => return self.initial_event(event, now, out),
            _ => return Action::Keep,
        };
        watch.hear(now);
        self.broken_since = None;
        self.n_too_large = 0;
        let is_added = matches!(event, WatchEvent::Added(_));
        watch.synthetic &= is_added;
        let version = version_of(&event);
        if !watch.synthetic && is_older(&version, &watch.from) {
            return self.went_back(version, now, out);
        }
        let advances = !watch.synthetic && !version.is_empty() && !is_older(&version, &self.position);
        if advances {
            self.position = version;
        }
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => out.push(Report::Applied(object)),
            WatchEvent::Deleted(object) => out.push(Report::Deleted(object)),
            WatchEvent::Malformed { op, object } => {
                let is_nameless = object.key.is_none();
                out.push(Report::Malformed { op, object });
                if is_nameless {
                    return self.unreadable(now, out);
                }
            }
            // One that came late says nothing new.
            WatchEvent::Bookmark { .. } if !advances => {}
            WatchEvent::Bookmark { resource_version, .. } => out.push(Report::Bookmark(resource_version)),
        }
        Action::Keep
    }

    pub(super) fn watch_failed(
        &mut self,
        error: ListWatchError,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let fault = Fault::of(&error);
        let error = ReflectorError::Watch(error);
        match fault {
            Fault::Expired => {
                let next = Plan::from_position(ListReason::Expired);
                if self.listed_just_now(now) {
                    return self.rest(error, Next::List(next), now, out);
                }
                return self.list(next, now);
            }
            Fault::TooLarge => {
                self.suspect = true;
                self.n_too_large += 1;
                if self.n_too_large > TOO_LARGE_RETRIES {
                    let plan = Plan::latest(ListReason::OtherHistory);
                    return self.rest(error, Next::List(plan), now, out);
                }
            }
            Fault::Away => self.suspect = true,
            Fault::Broken | Fault::Unsupported => {
                let since = *self.broken_since.get_or_insert(now);
                if now >= since + self.config.broken_watch {
                    let plan = Plan::from_position(ListReason::BrokenWatch);
                    return self.rest(error, Next::List(plan), now, out);
                }
            }
            Fault::Busy | Fault::Refused => {}
        }
        self.rest(error, Next::Follow, now, out)
    }

    pub(super) fn probe_failed(
        &mut self,
        error: ListWatchError,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        match Fault::of(&error) {
            Fault::Away | Fault::Busy | Fault::TooLarge => {
                self.rest(ReflectorError::List(error), Next::Follow, now, out)
            }
            // A user who may only watch, say. What remains are bookmarks that go back.
            Fault::Unsupported | Fault::Refused if !error.is_not_found() => {
                self.can_probe = false;
                self.watch(now)
            }
            // Not to be had now. The doubt remains: a watch from a version that the source never had is silent, and
            // then it is asked again.
            _ => self.watch(now),
        }
    }
}

fn version_of(event: &WatchEvent) -> ResourceVersion {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Object::resource_version(object)
        }
        WatchEvent::Malformed { object, .. } => object.resource_version.clone(),
        WatchEvent::Bookmark { resource_version, .. } => resource_version.clone(),
    }
}
