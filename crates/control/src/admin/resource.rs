//! Which kind a word means, and which kinds were captured.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_journal::{Captured, Wanted};
use skopos_object::GroupResource;

use super::{Admin, Question, Reason, Refusal};

/// Which kinds were captured?
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collections {}

/// The kinds that were captured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionViews {
    /// Each once.
    pub collections: Vec<CollectionView>,
}

/// A kind that is or was captured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectionView {
    /// As `plural.group`.
    pub resource: String,
    /// The version and group of its objects.
    pub api_version: String,
    /// Their kind.
    pub kind: String,
    /// How many exist.
    pub objects: usize,
    /// Up to when it is completely known; nothing if that is not so now.
    pub known_until: Option<Timestamp>,
}

/// Which kind does a word mean?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// Plural, kind, singular or short name in any case, alone or with its group after a dot.
    pub resource: String,
}

/// The kind that a word means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// As `plural.group`.
    pub resource: String,
}

impl Question for Resolve {
    const NAME: &'static str = "resource";
    type Answer = Resolved;

    async fn answer(&self, admin: &Admin) -> Result<Resolved, Refusal> {
        let (group, plural) = admin.kind_of(&self.resource)?;
        Ok(Resolved {
            resource: GroupResource::new(group, plural).to_string(),
        })
    }
}

impl Question for Collections {
    const NAME: &'static str = "collections";
    type Answer = CollectionViews;

    async fn answer(&self, admin: &Admin) -> Result<CollectionViews, Refusal> {
        let collections = admin.journal().collections();
        Ok(CollectionViews {
            collections: collections.iter().map(CollectionView::new).collect(),
        })
    }
}

impl CollectionView {
    fn new(captured: &Captured) -> Self {
        Self {
            resource: name(captured),
            api_version: captured.kind.api_version(),
            kind: captured.kind.kind.clone(),
            objects: captured.n_objects,
            known_until: captured.known_until,
        }
    }
}

impl Admin {
    /// The kind that a word means: a plural, kind, singular or short name in any case, alone or with its group after a
    /// dot. Short names count only where nothing else fits.
    pub(crate) fn kind_of(&self, word: &str) -> Result<(String, String), Refusal> {
        let known = self.journal().collections();
        let mut found: Vec<&Captured> = known.iter().filter(|one| is_meant(one, word)).collect();
        if found.is_empty() {
            found = known.iter().filter(|one| is_short_for(one, word)).collect();
        }
        found.sort_by_key(|one| name(one));
        found.dedup_by_key(|one| name(one));
        match found.as_slice() {
            [one] => Ok((one.kind.group.clone(), one.plural.clone())),
            [] => Err(unknown(word, &known)),
            several => {
                let names: Vec<String> = several.iter().map(|one| name(one)).collect();
                let message = format!("{word:?} may mean {}", names.join(" or "));
                Err(Refusal::bad(message).hint("write one of them"))
            }
        }
    }

    /// Narrows what is wanted to a resource, if one is named.
    pub(crate) fn wanted(&self, resource: Option<&str>) -> Result<Wanted, Refusal> {
        let kind = resource.map(|word| self.kind_of(word)).transpose()?;
        Ok(Wanted {
            kind,
            ..Wanted::default()
        })
    }
}

/// The name of a captured kind, as `plural.group`.
fn name(captured: &Captured) -> String {
    GroupResource::new(captured.kind.group.clone(), captured.plural.clone()).to_string()
}

fn is_meant(captured: &Captured, word: &str) -> bool {
    let names = [&captured.plural, &captured.kind.kind, &captured.singular];
    is_one_of(captured, word, names.into_iter())
}

fn is_short_for(captured: &Captured, word: &str) -> bool {
    is_one_of(captured, word, captured.short_names.iter())
}

fn is_one_of<'a>(captured: &Captured, word: &str, mut names: impl Iterator<Item = &'a String>) -> bool {
    let (word, group) = word
        .split_once('.')
        .map_or((word, None), |(word, group)| (word, Some(group)));
    let kind = &captured.kind;
    let with_version = format!("{}.{}", kind.version, kind.group);
    let is_group = group.is_none_or(|group| group == kind.group || group == with_version);
    is_group && !word.is_empty() && names.any(|name| name.eq_ignore_ascii_case(word))
}

fn unknown(word: &str, known: &[Captured]) -> Refusal {
    let mut names: Vec<String> = known.iter().map(name).collect();
    names.sort();
    names.dedup();
    let hint = match names.as_slice() {
        [] => "nothing was captured yet: a Record or a Rule says what is".to_owned(),
        names => format!(
            "captured are {}; a Record makes Skopos capture more",
            names.join(", ")
        ),
    };
    let message = format!("no changes of {word:?} were captured");
    Refusal::new(Reason::UnknownResource, message).hint(hint)
}
