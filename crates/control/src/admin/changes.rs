//! What happened?

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_api::Event;
use skopos_journal::{Entry, Log as _, ReadError, Seq, Wanted};

use super::{Admin, ChangeName, ChangeView, Part, Question, Refusal, change::op};

/// Changes in one page unless the question says otherwise.
const DEFAULT_LIMIT: usize = 500;
/// Changes in one page at most.
const MAX_LIMIT: usize = 5_000;
/// Changes read from the journal at a time.
const CHUNK: usize = 100;
/// A page ends after so many bytes of states, so that it fits in memory whatever the objects are.
const MAX_PAGE_BYTES: usize = 8 << 20;
/// A page ends after so many looks at the journal, each of up to 20,000 changes, so that others get their turn.
const MAX_LOOKS: usize = 50;

/// What happened, the oldest first? What is not given is not asked for: without anything, all changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Changes {
    /// Only of this kind: plural, kind, or either with its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Only in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<Event>,
    /// Only those written down at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those written down before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Only those after this number.
    #[serde(default)]
    pub after: u64,
    /// At most so many; 500 unless given, 5,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// What of each change is told beside what is always told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// Some changes, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePage {
    /// The changes; may be none although there are more.
    pub changes: Vec<ChangeView>,
    /// Where to go on, as `after`; nothing if this was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
}

/// Changes that cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Damaged {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// What is wrong, and where.
    pub what: String,
}

/// Shows one change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShowChange {
    /// Its number, or its id. By number it is found at once, by id all changes may have to be looked at.
    pub change: String,
    /// What is told beside what is always told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl Question for Changes {
    const NAME: &'static str = "changes";
    type Answer = ChangePage;

    async fn answer(&self, admin: &Admin) -> Result<ChangePage, Refusal> {
        let wanted = Wanted {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ops: self.ops.iter().map(|event| op(*event)).collect(),
            since: self.since,
            until: self.until,
            ..admin.wanted(self.resource.as_deref())?
        };
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let mut walk = Walk::new(wanted, Seq(self.after));
        let mut page = ChangePage::default();
        let mut n_bytes = 0;
        for _ in 0..MAX_LOOKS {
            let room = CHUNK.min(limit - page.changes.len());
            let found = walk.next(admin, room).await?;
            for entry in &found {
                n_bytes += size(entry);
                page.changes.push(ChangeView::new(entry, &self.parts));
            }
            if walk.is_done || page.changes.len() == limit || n_bytes > MAX_PAGE_BYTES {
                break;
            }
        }
        page.next = (!walk.is_done).then_some(walk.after.0);
        page.damaged = walk.damaged;
        Ok(page)
    }
}

impl Question for ShowChange {
    const NAME: &'static str = "change";
    type Answer = ChangeView;

    async fn answer(&self, admin: &Admin) -> Result<ChangeView, Refusal> {
        let entry = admin.find_change(&self.change).await?;
        Ok(ChangeView::new(&entry, &self.parts))
    }
}

impl Admin {
    /// Finds a change by its number or its id.
    pub(crate) async fn find_change(&self, change: &str) -> Result<Entry, Refusal> {
        let name = ChangeName::parse(change);
        if let Some(ChangeName { rule: Some(rule), .. }) = name.as_ref().filter(|one| one.is_reconciled()) {
            let message = format!("{change:?} is no change: the rule told again of an object as it was");
            return Err(Refusal::bad(message).hint(format!("ask about the rule: skopos explain {rule}")));
        }
        let change = name.as_ref().map_or(change, |name| name.change.as_str());
        let found = match change.parse() {
            Ok(seq) => self.journal().get(Seq(seq)).await?,
            Err(_) => self.find_by_id(change).await?,
        };
        let first = self.journal().first();
        found.ok_or_else(|| {
            let hint = format!("changes {first} to {} are kept", self.journal().head());
            Refusal::not_found(format!("there is no change {change:?}")).hint(hint)
        })
    }

    async fn find_by_id(&self, id: &str) -> Result<Option<Entry>, Refusal> {
        let mut walk = Walk::new(Wanted::default(), Seq(0));
        while !walk.is_done {
            let found = walk.next(self, CHUNK).await?;
            if let Some(entry) = found.into_iter().find(|entry| entry.id().as_str() == id) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Goes through the changes that are wanted, over what is damaged or removed meanwhile.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) wanted: Wanted,
    pub(crate) after: Seq,
    pub(crate) is_done: bool,
    pub(crate) damaged: Vec<Damaged>,
}

impl Walk {
    pub(crate) fn new(wanted: Wanted, after: Seq) -> Self {
        Self {
            wanted,
            after,
            is_done: false,
            damaged: Vec::new(),
        }
    }

    /// The next changes; none does not mean the end.
    pub(crate) async fn next(&mut self, admin: &Admin, limit: usize) -> Result<Vec<Entry>, Refusal> {
        let journal = admin.journal();
        match journal.read(self.after, &self.wanted, limit).await {
            Ok((found, looked)) => {
                // Without progress the end of the time that is wanted was reached.
                let is_stuck = found.is_empty() && looked <= self.after;
                self.is_done = is_stuck || looked >= journal.head();
                self.after = looked.max(self.after);
                Ok(found)
            }
            Err(ReadError::Removed(seq)) => {
                self.after = seq;
                Ok(Vec::new())
            }
            Err(ReadError::Damaged { seq, to, what }) => {
                let (from, to_number) = (seq.0, to.0);
                self.damaged.push(Damaged {
                    from,
                    to: to_number,
                    what,
                });
                self.after = to;
                self.is_done = to >= journal.head();
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn size(entry: &Entry) -> usize {
    let states = [&entry.before, &entry.after].into_iter().flatten();
    states.map(|object| object.bytes().len()).sum()
}
