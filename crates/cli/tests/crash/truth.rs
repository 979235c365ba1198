//! What really happened, and whether what was received adds up to it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::data;

/// Changes by object, in their order: `created`, versions, `deleted`.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    by_object: BTreeMap<String, Vec<String>>,
}

impl Truth {
    pub(crate) fn note(&mut self, object: &Value, what: &str) {
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        self.by_object.entry(uid).or_default().push(what.to_owned());
    }

    /// Whether the end of each object's story was received, as far as its beginning was.
    pub(crate) fn is_settled(&self, received: &[Value]) -> bool {
        let received = stories(received);
        self.by_object.iter().all(|(uid, happened)| {
            let last = happened.last().unwrap();
            match received.get(uid) {
                Some(story) => story.iter().any(|told| told.stands_for(last)),
                // It came and went while nobody could know.
                None => last == "deleted",
            }
        })
    }

    /// Nothing is out of order, and only what was overwritten inside a hole is missing.
    pub(crate) fn check(&self, received: &[Value], seed: u64) {
        assert!(self.is_settled(received), "seed {seed}: something never arrived");
        let received = stories(received);
        for (uid, story) in &received {
            let happened = self
                .by_object
                .get(uid)
                .unwrap_or_else(|| panic!("seed {seed}: {uid} never was"));
            let mut at = 0;
            for told in story {
                let found = happened.iter().position(|what| told.stands_for(what));
                let found = found.unwrap_or_else(|| panic!("seed {seed}: {told:?} never happened"));
                assert!(found >= at, "seed {seed}: {told:?} is out of order");
                let skipped = found - at;
                assert!(
                    skipped == 0 || told.is_found_later,
                    "seed {seed}: {skipped} changes before {told:?} are missing"
                );
                at = found + 1;
            }
        }
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
    /// An object that a list shows for the first time may have changed since it was made.
    fn stands_for(&self, what: &str) -> bool {
        self.what == what || self.what == "created" && self.is_found_later && self.version == what
    }
}

/// What was received by object, each change once.
fn stories(received: &[Value]) -> BTreeMap<String, Vec<Told>> {
    let mut stories: BTreeMap<String, Vec<Told>> = BTreeMap::new();
    for event in received {
        let id = event["id"].as_str().unwrap();
        let (change, _) = id.split_once('/').unwrap();
        let (uid, what) = change.split_once('.').unwrap();
        let source = &data(event)["source"];
        let told = Told {
            what: what.into(),
            version: source["resourceVersion"].as_str().unwrap_or_default().into(),
            is_found_later: matches!(source["observed"].as_str(), Some("relist" | "first")),
        };
        let story = stories.entry(uid.into()).or_default();
        if !story.iter().any(|known| known.what == told.what) {
            story.push(told);
        }
    }
    stories
}
