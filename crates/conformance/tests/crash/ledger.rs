//! What the writers know: the last acknowledged state of each object, and what was asked but not answered.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

/// An object as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// What the writer put in.
    pub(crate) value: u64,
    /// The revision of that write.
    pub(crate) revision: u64,
}

impl Stored {
    /// Reads an object and checks that it is whole: its two fields are written together and must agree.
    pub(crate) fn read(object: &Value) -> anyhow::Result<Stored> {
        let field = |name: &str| object["data"][name].as_str().context("a field is missing");
        let value = field("value")?.parse()?;
        let tail = field("tail")?;
        anyhow::ensure!(tail == tail_of(value), "half of a write is visible: {object}");
        let revision = object["metadata"]["resourceVersion"]
            .as_str()
            .context("no revision")?
            .parse()?;
        Ok(Stored { value, revision })
    }
}

/// Text that depends on the value, long enough to be torn.
pub(crate) fn tail_of(value: u64) -> String {
    format!("{value:016x}").repeat(32)
}

/// One object's record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// The last acknowledged state; none after an acknowledged delete.
    pub(crate) known: Option<Stored>,
    /// What was asked last and not answered: a value, or none for a delete.
    pub(crate) asked: Option<Option<u64>>,
}

/// The records of all objects by name, and the highest revision that was acknowledged.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ledger {
    records: BTreeMap<String, Record>,
    highest: u64,
}

impl Ledger {
    /// The highest acknowledged revision.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// The part that one writer works on.
    pub(crate) fn of_writer(&self, number: usize) -> Ledger {
        let prefix = format!("w{number}-");
        let mine = self.records.iter().filter(|(name, _)| name.starts_with(&prefix));
        Ledger {
            records: mine
                .map(|(name, record)| (name.clone(), record.clone()))
                .collect(),
            highest: 0,
        }
    }

    /// Takes back the part of a writer.
    pub(crate) fn merge(&mut self, other: Ledger) {
        self.records.extend(other.records);
        self.highest = self.highest.max(other.highest);
    }

    /// The state a writer knows.
    pub(crate) fn known(&self, name: &str) -> Option<&Stored> {
        self.records.get(name)?.known.as_ref()
    }

    /// Notes what is about to be asked.
    pub(crate) fn ask(&mut self, name: &str, value: Option<u64>) {
        self.records.entry(name.to_owned()).or_default().asked = Some(value);
    }

    /// Notes an acknowledged write.
    pub(crate) fn acknowledge(&mut self, name: &str, known: Option<Stored>) -> anyhow::Result<()> {
        if let Some(stored) = &known {
            let before = self.known(name).map_or(0, |stored| stored.revision);
            anyhow::ensure!(
                stored.revision > before,
                "{name}: revision {} after {before}",
                stored.revision
            );
            self.highest = self.highest.max(stored.revision);
        }
        self.records
            .insert(name.to_owned(), Record { known, asked: None });
        Ok(())
    }

    /// Compares with what is stored after a restart, and takes it as known.
    pub(crate) fn settle(&mut self, mut stored: BTreeMap<String, Stored>) -> anyhow::Result<()> {
        for (name, record) in &mut self.records {
            let found = stored.remove(name);
            let acknowledged = found == record.known;
            let asked = record
                .asked
                .is_some_and(|asked| asked == found.as_ref().map(|stored| stored.value));
            anyhow::ensure!(
                acknowledged || asked,
                "{name}: {found:?} is stored, the writer knows {record:?}"
            );
            *record = Record {
                known: found,
                asked: None,
            };
        }
        anyhow::ensure!(stored.is_empty(), "nobody wrote {stored:?}");
        Ok(())
    }
}
