//! What really happened, and whether what was received adds up to it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A watch may tell of a change so long after it happened. What nobody heard of before a kill can be older than the
/// last that was heard by as much.
const ON_THE_WAY: SignedDuration = SignedDuration::from_secs(3);

/// Changes by object, in their order.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    by_object: BTreeMap<String, Vec<Change>>,
    /// The last change: of which object, and what.
    last: (String, String),
}

/// One change of an object.
#[derive(Debug)]
struct Change {
    /// `created`, a version, `deleted`.
    what: String,
    /// From the request to its answer.
    begun: Timestamp,
    done: Timestamp,
}

/// A time for which the journal says that changes may be missing.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

impl Hole {
    fn covers(&self, change: &Change) -> bool {
        self.from - ON_THE_WAY <= change.done && change.begun <= self.to
    }
}

impl Truth {
    /// Notes a change whose request was made at `begun` and is answered.
    pub(crate) fn note(&mut self, object: &Value, what: &str, begun: Timestamp) {
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        self.last = (uid.clone(), what.to_owned());
        self.by_object.entry(uid).or_default().push(Change {
            what: what.to_owned(),
            begun,
            done: Timestamp::now(),
        });
    }

    /// Whether the last change is among what was received.
    pub(crate) fn has_last_of(&self, received: &[Value]) -> bool {
        let (uid, what) = &self.last;
        let stories = stories(received);
        let story = stories.get(uid).map(Vec::as_slice).unwrap_or_default();
        story
            .iter()
            .any(|told| told.what == *what || told.version == *what)
    }

    pub(crate) fn n_changes(&self) -> usize {
        self.by_object.values().map(Vec::len).sum()
    }

    /// Nothing is out of order, the end of each story was told, and only what lies in a declared hole is missing.
    /// Returns how much that is, or says what is wrong.
    pub(crate) fn check(&self, received: &[Value], holes: &[Hole]) -> Result<usize, String> {
        let mut received = stories(received);
        let mut n_missing = 0;
        for (uid, happened) in &self.by_object {
            let story = received.remove(uid).unwrap_or_default();
            check_story(&story, happened, holes).map_err(|wrong| format!("{uid}: {wrong}"))?;
            n_missing += happened.len() - story.len();
        }
        match received.keys().next() {
            Some(uid) => Err(format!("{uid} never was")),
            None => Ok(n_missing),
        }
    }
}

fn check_story(story: &[Told], happened: &[Change], holes: &[Hole]) -> Result<(), String> {
    let mut at = 0;
    for told in story {
        let found = told
            .place_in(happened)
            .ok_or_else(|| format!("{told:?} never happened"))?;
        if found < at {
            return Err(format!("{told:?} is out of order"));
        }
        if found > at && !told.is_found_later {
            return Err(format!("{:?} missing before {told:?}", &happened[at..found]));
        }
        excuse(&happened[at..found], holes)?;
        at = found + 1;
    }
    let rest = &happened[at..];
    // One that came and went in a hole has no story. Any other is told to its end.
    if !story.is_empty() && !rest.is_empty() {
        return Err(format!("{rest:?} missing at the end"));
    }
    if rest.last().is_some_and(|last| last.what != "deleted") {
        return Err(format!("it is there, and nothing of it was told: {rest:?}"));
    }
    excuse(rest, holes)
}

/// Each of these may be missing.
fn excuse(missing: &[Change], holes: &[Hole]) -> Result<(), String> {
    let lost = missing
        .iter()
        .find(|change| !holes.iter().any(|hole| hole.covers(change)));
    match lost {
        Some(change) => Err(format!("{change:?} is missing, and in no hole of {holes:?}")),
        None => Ok(()),
    }
}

/// One change as it was received.
#[derive(Debug)]
struct Told {
    what: String,
    version: String,
    /// By comparing a list with what was known.
    is_found_later: bool,
}

impl Told {
    /// Which change it tells of. An object that a list shows for the first time may have changed since it was made.
    fn place_in(&self, happened: &[Change]) -> Option<usize> {
        let place = |what: &str| happened.iter().position(|change| change.what == what);
        let is_listed = self.what == "created" && self.is_found_later;
        let listed = is_listed.then(|| place(&self.version)).flatten();
        listed.or_else(|| place(&self.what))
    }
}

/// How many deliveries there were of something that had been received before.
pub(crate) fn n_repeated(received: &[Value]) -> usize {
    let ids: BTreeSet<_> = received.iter().map(|event| event["id"].as_str()).collect();
    received.len() - ids.len()
}

/// What was received by object, each change once.
fn stories(received: &[Value]) -> BTreeMap<String, Vec<Told>> {
    let mut stories: BTreeMap<String, Vec<Told>> = BTreeMap::new();
    for event in received {
        let id = event["id"].as_str().unwrap();
        let (change, _) = id.split_once('/').unwrap();
        let (uid, what) = change.split_once('.').unwrap();
        let source = &event["data"]["source"];
        let told = Told {
            what: what.into(),
            version: source["resourceVersion"].as_str().unwrap_or_default().into(),
            is_found_later: source["observed"] == "relist",
        };
        let story = stories.entry(uid.into()).or_default();
        if !story.iter().any(|known| known.what == told.what) {
            story.push(told);
        }
    }
    stories
}
