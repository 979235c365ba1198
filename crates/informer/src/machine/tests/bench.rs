//! A machine on a bench: inputs by hand, a clock by hand.

use std::time::Duration;

use serde_json::json;
use skopos_object::{
    HistoryId, ListEnd, ListItem, ListRequest, ListWatchError, Malformed, Object, Status, WatchEvent,
    WatchRequest,
};

use super::{Action, Input, Machine};
use crate::{ReflectorConfig, Report};

/// A machine, a clock, and what it did last.
pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) now: Duration,
    pub(super) action: Action,
    pub(super) reports: Vec<String>,
    /// What the source says at once when it is asked for its history; nothing if the test says it itself.
    pub(super) history: Option<Option<HistoryId>>,
}

impl Bench {
    pub(super) fn new(config: ReflectorConfig) -> Self {
        Self::from(config, "")
    }

    pub(super) fn from(config: ReflectorConfig, version: &str) -> Self {
        let seed = Some(7);
        let machine = Machine::new(ReflectorConfig { seed, ..config }, version.into());
        let mut bench = Self {
            machine,
            now: Duration::ZERO,
            action: Action::Rest,
            reports: Vec::new(),
            history: Some(None),
        };
        bench.give(Input::Woken);
        bench
    }

    /// Lists only, no initial events.
    pub(super) fn listing() -> Self {
        Self::new(ReflectorConfig {
            initial_events: false,
            ..ReflectorConfig::default()
        })
    }

    /// Has listed at a version and watches from there.
    pub(super) fn watching(version: u64) -> Self {
        let mut bench = Self::listing();
        bench.give(Input::Opened);
        bench.give(end(version, None));
        bench.after(60);
        bench.give(Input::Opened);
        bench.reports.clear();
        bench
    }

    pub(super) fn give(&mut self, input: Input) -> &mut Self {
        let mut reports = Vec::new();
        let action = self.machine.step(input, self.now, &mut reports);
        if action != Action::Keep {
            self.action = action;
        }
        self.reports.extend(reports.iter().map(describe));
        match (&self.action, &self.history) {
            (Action::Identify, Some(history)) => self.give(Input::Identified(history.clone())),
            _ => self,
        }
    }

    pub(super) fn fail(&mut self, status: Status) -> &mut Self {
        self.give(Input::Failed(ListWatchError::Refused(status)))
    }

    pub(super) fn refuse(&mut self) -> &mut Self {
        self.give(Input::Failed(away()))
    }

    pub(super) fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    /// Lets the clock run to the deadline.
    pub(super) fn wake(&mut self) -> Duration {
        let waited = self.machine.deadline().saturating_sub(self.now);
        self.now = self.machine.deadline();
        self.give(Input::Woken);
        waited
    }

    pub(super) fn list(&self) -> &ListRequest {
        match &self.action {
            Action::List(request) => request,
            other => panic!("not a list: {other:?}"),
        }
    }

    pub(super) fn watch(&self) -> &WatchRequest {
        match &self.action {
            Action::Watch(request) => request,
            other => panic!("not a watch: {other:?}"),
        }
    }

    pub(super) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reports)
    }
}

pub(super) fn history(name: &str) -> Option<HistoryId> {
    Some(HistoryId(name.to_owned()))
}

pub(super) fn away() -> ListWatchError {
    ListWatchError::Unavailable("connection refused".into())
}

fn describe(report: &Report) -> String {
    match report {
        Report::Replace { reason } => format!("replace {reason}"),
        Report::Listed(object) => format!("listed {}", object.name()),
        Report::Unlisted(object) => format!("unlisted {}", object.name()),
        Report::Replaced { version } => format!("replaced {version}"),
        Report::Applied(object) => format!("applied {}", object.name()),
        Report::Deleted(object) => format!("deleted {}", object.name()),
        Report::Malformed { .. } => "malformed".to_owned(),
        Report::Bookmark(version) => format!("bookmark {version}"),
        Report::Watching => "watching".to_owned(),
        Report::Trouble { error, .. } => format!("trouble: {error}"),
        Report::Resumed => "resumed".to_owned(),
    }
}

pub(super) fn thing(name: &str, version: u64) -> Object {
    let metadata =
        json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string()});
    Object::from_value(&json!({"kind": "Thing", "metadata": metadata})).unwrap()
}

pub(super) fn item(name: &str, version: u64) -> Input {
    Input::Item(ListItem::Object(thing(name, version)))
}

pub(super) fn end(version: u64, token: Option<&str>) -> Input {
    Input::Item(ListItem::End(ListEnd {
        resource_version: version.into(),
        continue_token: token.map(Into::into),
        remaining: None,
    }))
}

pub(super) fn added(name: &str, version: u64) -> Input {
    Input::Event(WatchEvent::Added(thing(name, version)))
}

pub(super) fn modified(name: &str, version: u64) -> Input {
    Input::Event(WatchEvent::Modified(thing(name, version)))
}

pub(super) fn deleted(name: &str, version: u64) -> Input {
    Input::Event(WatchEvent::Deleted(thing(name, version)))
}

pub(super) fn bookmark(version: u64, initial_events_end: bool) -> Input {
    Input::Event(WatchEvent::Bookmark {
        resource_version: version.into(),
        initial_events_end,
    })
}

pub(super) fn malformed(version: &str) -> Malformed {
    Malformed {
        key: None,
        resource_version: version.into(),
        text: "{".into(),
        reason: "not JSON".to_owned(),
    }
}

pub(super) fn too_large() -> Status {
    Status::too_large_resource_version(90, 40, 1)
}
