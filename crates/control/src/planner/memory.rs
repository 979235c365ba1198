//! The last good form of each rule and record, remembered over restarts: while the newest has a mistake, or its file cannot
//! be read, that one stays in force.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use skopos_api::{RecordSpec, RuleSpec};
use skopos_object::ObjectKey;

use super::Surroundings;
use crate::{Kinds, kinds::Given};

/// What is to be written down: names and texts, or nothing where one is to be forgotten.
pub(crate) type News = BTreeMap<String, Option<Vec<u8>>>;

/// The last good forms, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) rules: BTreeMap<String, Form<RuleSpec>>,
    pub(super) records: BTreeMap<String, Form<RecordSpec>>,
}

/// Something as it was when nothing was wrong with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Form<S> {
    pub(super) generation: i64,
    pub(super) uid: String,
    pub(super) created: Option<Timestamp>,
    pub(super) is_from_file: bool,
    pub(super) spec: S,
}

const RULES: &str = "rule/";
const RECORDS: &str = "record/";

impl Memory {
    /// Reads what was written down. What cannot be read is not remembered.
    pub(super) fn read(notes: &BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            rules: forms(notes, RULES),
            records: forms(notes, RECORDS),
        }
    }

    /// What is different from what was written down.
    pub(super) fn news(&self, written: &Self) -> News {
        let mut news = News::new();
        compare(RULES, &self.rules, &written.rules, &mut news);
        compare(RECORDS, &self.records, &written.records, &mut news);
        news
    }

    /// The rules that nobody looks for in this run: they may be there or not.
    pub(super) fn elsewhere(&self, around: &Surroundings) -> Vec<String> {
        let forms = self.rules.iter();
        let elsewhere = forms.filter(|(name, form)| !around.looks_for(name, form.is_from_file));
        elsewhere.map(|(name, _)| name.clone()).collect()
    }

    /// What is asked for, with what is remembered of files that cannot be read now. A rule can wait until it is sure what
    /// is there; what a record leaves out cannot.
    pub(super) fn complete(&self, kinds: &Kinds) -> Kinds {
        let mut kinds = kinds.clone();
        if !kinds.unreadable.is_empty() {
            complete(&mut kinds.rules, &self.rules);
        }
        if !kinds.is_complete() {
            complete(&mut kinds.records, &self.records);
        }
        kinds
    }
}

impl<S: Clone> Form<S> {
    pub(super) fn of(given: &Given<S>, spec: &S) -> Self {
        Self {
            generation: given.generation,
            uid: given.uid.clone(),
            created: given.created,
            is_from_file: given.is_from_file,
            spec: spec.clone(),
        }
    }

    /// As if it were asked for in this form.
    pub(super) fn given(&self, key: ObjectKey) -> Given<S> {
        Given {
            key,
            uid: self.uid.clone(),
            generation: self.generation,
            created: self.created,
            is_from_file: self.is_from_file,
            spec: Ok(self.spec.clone()),
        }
    }

    /// Whether it is one of the forms of what is asked for: not of another one of the same name.
    pub(super) fn is_of<T>(&self, given: &Given<T>) -> bool {
        self.uid == given.uid && self.is_from_file == given.is_from_file
    }
}

fn forms<S: DeserializeOwned>(notes: &BTreeMap<String, Vec<u8>>, kind: &str) -> BTreeMap<String, Form<S>> {
    let of_kind = notes
        .iter()
        .filter_map(|(name, text)| Some((name.strip_prefix(kind)?, text)));
    let read = of_kind.filter_map(|(name, text)| {
        let form = serde_json::from_slice(text);
        let warn = |error: &serde_json::Error| {
            tracing::warn!(name, %error, "the last good form cannot be read and is not remembered");
        };
        Some((name.to_owned(), form.inspect_err(warn).ok()?))
    });
    read.collect()
}

fn compare<S: PartialEq + Serialize>(
    kind: &str,
    now: &BTreeMap<String, Form<S>>,
    written: &BTreeMap<String, Form<S>>,
    news: &mut News,
) {
    for (name, form) in now {
        if written.get(name) != Some(form) {
            news.insert(format!("{kind}{name}"), serde_json::to_vec(form).ok());
        }
    }
    for name in written.keys().filter(|name| !now.contains_key(*name)) {
        news.insert(format!("{kind}{name}"), None);
    }
}

fn complete<S: Clone>(all: &mut BTreeMap<String, Given<S>>, remembered: &BTreeMap<String, Form<S>>) {
    for (name, form) in remembered.iter().filter(|(_, form)| form.is_from_file) {
        let (namespace, own) = name.split_once('/').unwrap_or(("", name));
        let given = || form.given(ObjectKey::namespaced(namespace, own));
        all.entry(name.clone()).or_insert_with(given);
    }
}
