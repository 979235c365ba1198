//! Random servers: whatever they answer, what is reported adds up to what they have.

use std::{collections::BTreeMap, time::Duration};

use skopos_object::{ListWatchError, Object, ResourceVersion, Status};

use super::{Action, Input, Machine, away, bookmark, deleted, end, item, modified};
use crate::{ReflectorConfig, Report};

/// A collection with a history, and what a follower made of the reports.
struct World {
    rng: fastrand::Rng,
    revision: u64,
    objects: BTreeMap<String, u64>,
    /// What happened after `compacted`, in order.
    history: Vec<(u64, String, bool)>,
    compacted: u64,
    /// The version up to which the open watch has reported.
    cursor: Option<u64>,
    mirror: BTreeMap<String, u64>,
    staged: BTreeMap<String, u64>,
}

impl World {
    fn write(&mut self) {
        self.revision += self.rng.u64(1..4);
        let name = format!("thing-{}", self.rng.u8(0..6));
        let is_deleted = self.objects.contains_key(&name) && self.rng.bool();
        if is_deleted {
            self.objects.remove(&name);
        } else {
            self.objects.insert(name.clone(), self.revision);
        }
        self.history.push((self.revision, name, is_deleted));
    }

    fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    fn refusal(&mut self) -> ListWatchError {
        match self.rng.u8(0..5) {
            0 => away(),
            1 => ListWatchError::Refused(Status::too_many_requests("busy", 3)),
            2 => ListWatchError::Refused(Status::internal("oops")),
            3 => ListWatchError::Unsupported("initial events"),
            _ => ListWatchError::Refused(Status::too_large_resource_version(9, 8, 1)),
        }
    }

    /// The inputs that answer a request, perhaps cut short.
    fn answer(&mut self, action: &Action, faults: bool) -> Vec<Input> {
        self.cursor = None;
        if *action == Action::Rest {
            return Vec::new();
        }
        if faults && self.rng.u8(0..4) == 0 {
            return vec![Input::Failed(self.refusal())];
        }
        if *action == Action::Identify {
            return vec![Input::Identified(None)];
        }
        let mut inputs = vec![Input::Opened];
        match action {
            Action::List(request) => {
                let present = self.objects.iter().map(|(name, version)| item(name, *version));
                inputs.extend(present.take(request.limit.unwrap_or(usize::MAX)));
                inputs.push(end(self.revision, None));
            }
            Action::Watch(request) if request.initial_events => {
                let present = self.objects.iter();
                inputs.extend(present.map(|(name, version)| super::added(name, *version)));
                inputs.push(bookmark(self.revision, true));
                self.cursor = Some(self.revision);
            }
            Action::Watch(request) => {
                let from = number(&request.from);
                if from < self.compacted {
                    return vec![Input::Failed(ListWatchError::Refused(Status::expired("old")))];
                }
                self.cursor = Some(from);
            }
            Action::Keep | Action::Rest | Action::Identify => {}
        }
        if faults && self.rng.u8(0..4) == 0 {
            inputs.truncate(self.rng.usize(1..=inputs.len()));
            let failed = self.rng.bool();
            inputs.push(if failed {
                Input::Failed(away())
            } else {
                Input::Ended
            });
            self.cursor = None;
        }
        inputs
    }

    /// What the open watch has to say.
    fn news(&mut self, faults: bool) -> Vec<Input> {
        let Some(cursor) = self.cursor else {
            return Vec::new();
        };
        if cursor < self.compacted {
            self.cursor = None;
            return vec![Input::Failed(ListWatchError::Refused(Status::expired("old")))];
        }
        let after = self.history.iter().filter(|(revision, ..)| *revision > cursor);
        let mut inputs: Vec<_> = after
            .map(|(revision, name, is_deleted)| match is_deleted {
                true => deleted(name, *revision),
                false => modified(name, *revision),
            })
            .collect();
        inputs.push(bookmark(self.revision, false));
        self.cursor = Some(self.revision);
        if faults && self.rng.u8(0..6) == 0 {
            inputs.truncate(self.rng.usize(..inputs.len()));
            inputs.push(Input::Ended);
            self.cursor = None;
        }
        inputs
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Replace { .. } => self.staged.clear(),
            Report::Listed(object) => {
                let (name, version) = pair(&object);
                self.staged.insert(name, version);
            }
            Report::Unlisted(object) => {
                self.staged.remove(object.name());
            }
            Report::Replaced { .. } => self.mirror = self.staged.clone(),
            Report::Applied(object) => {
                let (name, version) = pair(&object);
                self.mirror.insert(name, version);
            }
            Report::Deleted(object) => {
                self.mirror.remove(object.name());
            }
            _ => {}
        }
    }
}

fn number(version: &ResourceVersion) -> u64 {
    version.as_str().parse().unwrap_or_default()
}

fn pair(object: &Object) -> (String, u64) {
    (object.name().to_owned(), number(&object.resource_version()))
}

/// Runs one seed; at the end the faults cease, and the mirror must be what the server has.
fn run(seed: u64) {
    let mut world = World {
        rng: fastrand::Rng::with_seed(seed),
        revision: 10,
        objects: BTreeMap::new(),
        history: Vec::new(),
        compacted: 0,
        cursor: None,
        mirror: BTreeMap::new(),
        staged: BTreeMap::new(),
    };
    let seed = Some(seed);
    let mut machine = Machine::new(
        ReflectorConfig {
            seed,
            ..ReflectorConfig::default()
        },
        "".into(),
    );
    let mut now = Duration::ZERO;
    let mut queue = std::collections::VecDeque::from([Input::Woken]);
    for round in 0..160 {
        let faults = round < 110;
        let quiet = round >= 125;
        match world.rng.u8(0..10) {
            0..6 if !quiet => world.write(),
            6 if faults && world.rng.bool() => world.compact(),
            _ => {}
        }
        if queue.is_empty() {
            queue.extend(world.news(faults));
        }
        if queue.is_empty() || world.rng.u8(0..20) == 0 {
            now = now.max(machine.deadline());
            queue.push_front(Input::Woken);
        }
        now += Duration::from_millis(world.rng.u64(0..2000));
        while let Some(input) = queue.pop_front() {
            let mut reports = Vec::new();
            let action = machine.step(input, now, &mut reports);
            for report in reports {
                world.take(report);
            }
            if action != Action::Keep {
                queue.clear();
                queue.extend(world.answer(&action, faults));
            }
        }
    }
    assert_eq!(world.mirror, world.objects, "SEED={seed:?}");
}

#[test]
fn mirror_ends_as_the_server_whatever_it_answers() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run(seed);
    }
    let first = fastrand::u64(..u64::MAX / 2);
    for seed in first..first + 1000 {
        run(seed);
    }
}
