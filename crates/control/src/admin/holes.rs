//! Where may changes be missing?

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_journal::{Hole, Log as _};
use skopos_object::GroupResource;

use super::{Admin, Question, Refusal};

/// Where may changes be missing?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Holes {
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Only those that end after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those that begin before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The times for which changes may be missing, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoleViews {
    /// Each.
    pub holes: Vec<HoleView>,
}

/// A time for which a kind's changes are not completely known: a later list was compared with what was known before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoleView {
    /// The kind, as `plural.group`.
    pub resource: String,
    /// Everything before this is known.
    pub from: Timestamp,
    /// Everything after this is known.
    pub to: Timestamp,
    /// Why.
    pub reason: String,
    /// The first change that the comparison found.
    pub seq: u64,
}

impl Question for Holes {
    const NAME: &'static str = "holes";
    type Answer = HoleViews;

    async fn answer(&self, admin: &Admin) -> Result<HoleViews, Refusal> {
        let wanted = self
            .resource
            .as_deref()
            .map(|word| admin.kind_of(word))
            .transpose()?;
        let known = admin.journal().collections();
        let mut holes = Vec::new();
        for hole in admin.journal().holes() {
            let of = known.iter().find(|one| one.name == hole.collection);
            let kind = of.map(|one| (one.kind.group.clone(), one.plural.clone()));
            let is_wanted = (wanted.is_none() || wanted == kind)
                && self.since.is_none_or(|since| hole.to >= since)
                && self.until.is_none_or(|until| hole.from < until);
            if is_wanted {
                let name = kind.map(|(group, plural)| GroupResource::new(group, plural).to_string());
                holes.push(HoleView::new(hole, name));
            }
        }
        Ok(HoleViews { holes })
    }
}

impl HoleView {
    fn new(hole: Hole, name: Option<String>) -> Self {
        Self {
            resource: name.unwrap_or(hole.collection),
            from: hole.from,
            to: hole.to,
            reason: hole.reason,
            seq: hole.seq.0,
        }
    }
}
