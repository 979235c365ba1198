//! What serves a kind, or what is known of one that nothing serves now.

use skopos_journal::Captured;
use skopos_object::{CollectionName, Object};
use skopos_react::rule::KindNames;
use skopos_schema::Structural;

use super::{Planner, chain};
use crate::definitions;

/// A kind that is served, or that was.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) names: KindNames,
    /// In which its changes are captured, if that is known without asking.
    pub(super) version: Option<String>,
    pub(super) namespaced: bool,
    pub(super) schema: Option<Structural>,
}

/// Nothing is known to serve a kind now.
#[derive(Debug)]
pub(super) struct NotServed {
    pub(super) reason: String,
    /// What the journal knows of it, if it was captured. Whoever asks for it goes on asking: only who follows a collection
    /// finds out that it is certainly gone, and with it its objects.
    pub(super) captured: Option<Found>,
}

impl NotServed {
    /// The kind, whether it is served or was.
    pub(super) fn known(found: &Result<Found, Self>) -> Option<&Found> {
        found.as_ref().map_or_else(|not| not.captured.as_ref(), Some)
    }
}

impl Planner {
    /// Finds what serves a kind, by any of its names.
    pub(super) async fn find(
        &self,
        group: &str,
        kind: &str,
        definitions: &[Object],
    ) -> Result<Found, NotServed> {
        if let Some(defined) = definitions::find(definitions, group, kind, None) {
            return Ok(Found {
                names: defined.names,
                version: None,
                namespaced: defined.namespaced,
                schema: defined.schema,
            });
        }
        let name = CollectionName::new(group, kind);
        let found = self.around.collections.open(&name).await;
        let found = found.map_err(|error| NotServed {
            reason: chain(&error),
            captured: self.captured(group, kind),
        })?;
        let names = KindNames {
            group: group.into(),
            singular: singular(found.singular, &found.kind.kind),
            kind: found.kind.kind,
            plural: found.plural,
            short_names: found.short_names,
        };
        Ok(Found {
            names: called(names, kind),
            version: Some(found.kind.version),
            namespaced: found.namespaced,
            schema: None,
        })
    }

    /// What the journal knows of a kind, by any of its names.
    fn captured(&self, group: &str, kind: &str) -> Option<Found> {
        Some(Found {
            names: captured_names(&self.around.journal.collections(), group, kind)?,
            // What serves it next may do so in another one.
            version: None,
            // Of those without namespaces it is captured only for who names none, so that this makes no difference.
            namespaced: true,
            schema: None,
        })
    }
}

/// The names of the kind among those that were captured which is called so, in any case. Its own names count before a short
/// one, which may be that of several.
pub(crate) fn captured_names(captured: &[Captured], group: &str, kind: &str) -> Option<KindNames> {
    let same = |name: &String| name.eq_ignore_ascii_case(kind);
    let all = captured.iter().filter(|one| one.kind.group == group);
    let all: Vec<KindNames> = all.map(names).collect();
    let is_own = |one: &&KindNames| [&one.kind, &one.plural, &one.singular].into_iter().any(same);
    let is_short = |one: &&KindNames| one.short_names.iter().any(same);
    let found = all.iter().find(is_own).or_else(|| all.iter().find(is_short))?;
    Some(called(found.clone(), kind))
}

/// The names of a kind, with the one by which it was found: that may be one of them in another case, and a rule knows its
/// kind only by what it wrote.
fn called(mut names: KindNames, kind: &str) -> KindNames {
    if !names.is_meant_by(&names.group, kind) {
        names.short_names.push(kind.to_owned());
    }
    names
}

fn names(captured: &Captured) -> KindNames {
    KindNames {
        group: captured.kind.group.clone(),
        kind: captured.kind.kind.clone(),
        plural: captured.plural.clone(),
        singular: singular(captured.singular.clone(), &captured.kind.kind),
        short_names: captured.short_names.clone(),
    }
}

/// The name for one object; the kind in small letters if none is known.
fn singular(known: String, kind: &str) -> String {
    match known.is_empty() {
        true => kind.to_lowercase(),
        false => known,
    }
}
