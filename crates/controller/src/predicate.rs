//! Which changes are worth a reconcile.

use std::fmt;
use std::sync::Arc;

use skopos_object::{Change, Object, Op};

/// Decides which changes of an object are worth a reconcile.
///
/// The ones made here look at updates only: what appears and what goes always counts.
#[derive(Clone)]
pub struct Predicate(Arc<dyn Fn(&Change) -> bool + Send + Sync>);

impl Predicate {
    /// Counts the changes of which `test` is true.
    pub fn new(test: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// Counts every change.
    pub fn any() -> Self {
        Self::new(|_| true)
    }

    /// Counts every change but those of the status alone: what a controller itself writes there does not run
    /// it again. The default for the kind that a controller is for.
    ///
    /// Of kinds that count generations, a change counts if the generation, or any metadata that users and
    /// deletion write, is another; a finalizer that is only added is no reason. Of kinds that do not, every
    /// change counts.
    pub fn beyond_status() -> Self {
        Self::updates(|old, new| {
            old.generation() == 0
                || old.generation() != new.generation()
                || differs(old, new, &METADATA)
                || loses_finalizer(old, new)
        })
    }

    /// Counts a change if the generation is another, the object begins to be deleted, or its finalizers change.
    pub fn generation() -> Self {
        const DELETION: [&str; 2] = ["deletionTimestamp", "finalizers"];
        Self::updates(|old, new| old.generation() != new.generation() || differs(old, new, &DELETION))
    }

    /// Counts a change if the labels are others.
    pub fn labels() -> Self {
        Self::updates(|old, new| differs(old, new, &["labels"]))
    }

    /// Counts a change if the annotations are others.
    pub fn annotations() -> Self {
        Self::updates(|old, new| differs(old, new, &["annotations"]))
    }

    /// Counts what either counts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.counts(change) || other.counts(change))
    }

    /// Counts what both count.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.counts(change) && other.counts(change))
    }

    /// Whether a change counts.
    pub fn counts(&self, change: &Change) -> bool {
        (self.0)(change)
    }

    fn updates(test: impl Fn(&Object, &Object) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match (change.op, &change.old, &change.new) {
            (Op::Updated, Some(old), Some(new)) => test(old, new),
            _ => true,
        })
    }
}

/// What users and deletion write there.
const METADATA: [&str; 4] = ["labels", "annotations", "deletionTimestamp", "ownerReferences"];

fn differs(old: &Object, new: &Object, fields: &[&str]) -> bool {
    let field = |object: &Object, name: &str| object.get(&["metadata", name]);
    fields.iter().any(|name| field(old, name) != field(new, name))
}

fn loses_finalizer(old: &Object, new: &Object) -> bool {
    old.finalizers()
        .any(|name| new.finalizers().all(|other| other != name))
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

#[cfg(test)]
mod tests {
    use skopos_testkit::object;

    use super::*;

    fn update(old: &str, new: &str) -> Change {
        let text = |metadata: &str| {
            format!("{{apiVersion: x.io/v1, kind: Thing, metadata: {{name: a, uid: u, {metadata}}}}}")
        };
        Change::updated(object(&text(old)), object(&text(new)))
    }

    #[test]
    fn status_alone_is_no_reason_but_deletion_labels_and_finalizers_are() {
        let counts = |old, new| Predicate::beyond_status().counts(&update(old, new));
        assert!(!counts(
            "generation: 1, resourceVersion: '1'",
            "generation: 1, resourceVersion: '2'"
        ));
        assert!(counts("generation: 1", "generation: 2"));
        assert!(counts("generation: 1", "generation: 1, labels: {a: b}"));
        assert!(counts("generation: 1, finalizers: [a/b]", "generation: 1"));
        assert!(!counts("generation: 1", "generation: 1, finalizers: [a/b]"));
        assert!(counts(
            "generation: 1",
            "generation: 1, deletionTimestamp: '2026-01-01T00:00:00Z'"
        ));
    }

    #[test]
    fn kinds_without_generation_count_every_change() {
        let change = update("resourceVersion: '1'", "resourceVersion: '2'");
        assert!(Predicate::beyond_status().counts(&change));
    }

    #[test]
    fn what_appears_and_goes_always_counts() {
        let thing = object("{apiVersion: x.io/v1, kind: Thing, metadata: {name: a, generation: 1}}");
        for change in [Change::created(thing.clone()), Change::missing(thing)] {
            let both = Predicate::generation().and(Predicate::labels());
            assert!(both.counts(&change));
        }
    }

    #[test]
    fn generation_predicate_hears_of_the_begin_of_a_deletion() {
        let change = update(
            "generation: 1",
            "generation: 1, deletionTimestamp: '2026-01-01T00:00:00Z'",
        );
        assert!(Predicate::generation().counts(&change));
        assert!(!Predicate::labels().counts(&change));
        assert!(Predicate::labels().or(Predicate::generation()).counts(&change));
    }
}
