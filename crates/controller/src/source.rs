//! What a controller listens to, and which of its objects a change concerns.

use std::fmt;
use std::sync::Arc;

use skopos_informer::Wanted;
use skopos_object::{Change, GroupVersionKind, Object, ObjectKey};

use crate::Predicate;
use crate::panics::caught;

/// A collection whose changes lead to reconciles.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) wanted: Wanted,
    pub(crate) concerns: Concerns,
    pub(crate) predicate: Predicate,
}

/// The kind that a controller is for, as it is served.
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    pub(crate) kind: GroupVersionKind,
    pub(crate) namespaced: bool,
}

/// Names the objects that another concerns, unless that one cannot be read.
type Map = Arc<dyn Fn(&Object) -> Result<Vec<ObjectKey>, String> + Send + Sync>;

/// Which objects a change of another concerns.
#[derive(Clone)]
pub(crate) enum Concerns {
    /// The object itself.
    Itself,
    /// The object that controls it.
    Controller,
    /// Those that a function names.
    Named(Map),
}

impl fmt::Debug for Concerns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Itself => "Itself",
            Self::Controller => "Controller",
            Self::Named(_) => "Named",
        })
    }
}

/// What went wrong while a change was looked at, with its text.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A predicate panicked.
    Predicate(String),
    /// A map panicked.
    Map(String),
    /// A state of the object does not fit the type that the map takes.
    Unfit(String),
}

impl Source {
    /// Whether a change counts. It does if the predicate panics: a reconcile too many does no harm.
    pub(crate) fn counts(&self, change: &Change, troubles: &mut Vec<Trouble>) -> bool {
        caught(|| self.predicate.counts(change)).unwrap_or_else(|text| {
            troubles.push(Trouble::Predicate(text));
            true
        })
    }

    /// The keys that a change concerns, of the object before and after: it may have moved from one to another.
    ///
    /// A state of the object for which the map panics, or that does not fit its type, concerns nobody.
    pub(crate) fn keys(
        &self,
        change: &Change,
        primary: &Primary,
        troubles: &mut Vec<Trouble>,
    ) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for object in [&change.old, &change.new].into_iter().flatten() {
            let concerned = caught(|| self.concerns.keys(object, primary));
            let concerned = concerned.map_err(Trouble::Map).flatten();
            let concerned = concerned.map_err(|trouble| troubles.push(trouble));
            for key in concerned.unwrap_or_default() {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }
}

impl Concerns {
    fn keys(&self, object: &Object, primary: &Primary) -> Result<Vec<ObjectKey>, Trouble> {
        match self {
            Self::Itself => Ok(vec![object.key()]),
            Self::Named(name) => name(object).map_err(Trouble::Unfit),
            Self::Controller => Ok(object
                .owners()
                .filter(|owner| owner.controller && owner.kind == primary.kind.kind)
                // The version is left out: an owner may have been written in another one.
                .filter(|owner| group(&owner.api_version) == primary.kind.group)
                .map(|owner| primary.key(object.namespace(), owner.name))
                .collect()),
        }
    }
}

impl Primary {
    fn key(&self, namespace: &str, name: String) -> ObjectKey {
        if self.namespaced {
            ObjectKey::namespaced(namespace, name)
        } else {
            ObjectKey::cluster(name)
        }
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use skopos_testkit::object;

    use super::*;

    fn owned_by(owner: &str, api_version: &str) -> Object {
        object(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: shop, ownerReferences: [
              {{apiVersion: {api_version}, kind: App, name: {owner}, uid: u, controller: true}},
              {{apiVersion: x.io/v1, kind: App, name: bystander, uid: v}}]}}}}"
        ))
    }

    fn primary(namespaced: bool) -> Primary {
        Primary {
            kind: GroupVersionKind::new("x.io", "v1", "App"),
            namespaced,
        }
    }

    /// Whom a change concerns, if it concerns those who control the object.
    fn concerned(change: &Change, primary: &Primary) -> Vec<ObjectKey> {
        let source = Source {
            wanted: "services".into(),
            concerns: Concerns::Controller,
            predicate: Predicate::any(),
        };
        source.keys(change, primary, &mut Vec::new())
    }

    #[test]
    fn both_the_old_and_the_new_owner_hear_of_a_change_of_owner() {
        let change = Change::updated(owned_by("before", "x.io/v1"), owned_by("after", "x.io/v2"));
        let primary = primary(true);
        let keys = concerned(&change, &primary);
        assert_eq!(
            keys,
            [ObjectKey::from("shop/before"), ObjectKey::from("shop/after")]
        );
    }

    #[test]
    fn owners_of_another_group_are_not_ours() {
        let change = Change::missing(owned_by("a", "y.io/v1"));
        let primary = primary(true);
        assert!(concerned(&change, &primary).is_empty());
    }

    #[test]
    fn an_owner_without_namespace_is_found_without() {
        let change = Change::created(owned_by("a", "x.io/v1"));
        let keys = concerned(&change, &primary(false));
        assert_eq!(keys, [ObjectKey::cluster("a")]);
    }

    #[test]
    fn a_deletion_that_was_only_noticed_concerns_the_owner_of_the_last_known_state() {
        let change = Change::missing(owned_by("a", "x.io/v1"));
        let primary = primary(true);
        let keys = concerned(&change, &primary);
        assert_eq!(keys, [ObjectKey::from("shop/a")]);
    }
}
