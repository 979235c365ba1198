//! What a watch has seen: turns the reports of a reflector into changes with their old and new state.

use std::collections::BTreeMap;

use skopos_informer::{ListReason, Report};
use skopos_object::{Change, Malformed, Object, ObjectKey, Op};

/// A copy of the objects followed. Pure: it only sees what [`Mirror::take`] is given.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    objects: BTreeMap<ObjectKey, Object>,
    listing: Option<Listing>,
    listed: bool,
}

/// A list that is not complete yet.
#[derive(Debug)]
struct Listing {
    reason: ListReason,
    objects: BTreeMap<ObjectKey, Object>,
}

/// Something that happened to one object, and how it is known.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) change: Change,
    pub(crate) cause: Cause,
}

/// How a change is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The object was there when the watch began.
    First,
    /// The server told of it.
    Watch,
    /// Found by comparing a list with what was known before; by the first one if the kind is new.
    Relist(ListReason),
    /// The kind of the object is no longer served.
    KindGone,
}

impl Cause {
    /// The name for machines.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::First => ListReason::First.as_str(),
            Self::Watch => "watch",
            Self::Relist(reason) => reason.as_str(),
            Self::KindGone => "kind_gone",
        }
    }
}

impl Mirror {
    /// Of a kind that did not exist when the watch began: whatever is found later was created since.
    pub(crate) fn of_nothing() -> Self {
        Self {
            listed: true,
            ..Self::default()
        }
    }

    /// Takes one report of the reflector and returns what it means.
    pub(crate) fn take(&mut self, report: Report) -> Vec<Seen> {
        match report {
            Report::Replace { reason } => {
                let objects = BTreeMap::new();
                self.listing = Some(Listing { reason, objects });
            }
            Report::Listed(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.objects.insert(object.key(), object);
                }
            }
            Report::Unlisted(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.objects.remove(&object.key());
                }
            }
            Report::Replaced { .. } => return self.replace(),
            Report::Applied(object) => return self.apply(object, Cause::Watch),
            Report::Deleted(object) => {
                self.objects.remove(&object.key());
                return vec![seen(Change::deleted(object), Cause::Watch)];
            }
            Report::Malformed { op, object } => return self.unreadable(op, &object),
            Report::Bookmark(_) | Report::Watching | Report::Trouble { .. } | Report::Resumed => {}
        }
        Vec::new()
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The kind is gone, and all its objects with it.
    pub(crate) fn clear(&mut self) -> Vec<Seen> {
        let gone = std::mem::take(&mut self.objects);
        let lost = |object| seen(Change::missing(object), Cause::KindGone);
        gone.into_values().map(lost).collect()
    }

    /// A list is complete: what is missing from it was deleted while nobody looked.
    fn replace(&mut self) -> Vec<Seen> {
        let Some(Listing { reason, objects }) = self.listing.take() else {
            return Vec::new();
        };
        if !std::mem::replace(&mut self.listed, true) {
            self.objects = objects;
            let existing = |object| seen(Change::created(object), Cause::First);
            return self.objects.values().cloned().map(existing).collect();
        }
        let cause = Cause::Relist(reason);
        let gone = self.objects.extract_if(.., |key, _| !objects.contains_key(key));
        let mut found: Vec<Seen> = gone
            .map(|(_, object)| seen(Change::missing(object), cause))
            .collect();
        for object in objects.into_values() {
            found.extend(self.apply(object, cause));
        }
        found
    }

    fn apply(&mut self, new: Object, cause: Cause) -> Vec<Seen> {
        match self.objects.insert(new.key(), new.clone()) {
            None => vec![seen(Change::created(new), cause)],
            Some(old) if old.uid() != new.uid() => {
                vec![
                    seen(Change::missing(old), cause),
                    seen(Change::created(new), cause),
                ]
            }
            Some(old) if old.resource_version() == new.resource_version() => Vec::new(),
            Some(old) => vec![seen(Change::updated(old, new), cause)],
        }
    }

    /// What cannot be read is there all the same: of a list, what was known of it is kept.
    fn unreadable(&mut self, op: Op, object: &Malformed) -> Vec<Seen> {
        let Some(key) = &object.key else {
            return Vec::new();
        };
        match (&mut self.listing, op) {
            (Some(listing), Op::Deleted) => {
                listing.objects.remove(key);
            }
            (Some(listing), _) => {
                if let Some(known) = self.objects.get(key) {
                    listing.objects.insert(key.clone(), known.clone());
                }
            }
            (None, Op::Deleted) => {
                let last = self.objects.remove(key);
                let lost = |object| seen(Change::missing(object), Cause::Watch);
                return last.map(lost).into_iter().collect();
            }
            (None, _) => {}
        }
        Vec::new()
    }
}

fn seen(change: Change, cause: Cause) -> Seen {
    Seen { change, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str, version: u32) -> Object {
        let text = format!(
            r#"{{"apiVersion":"x.io/v1","kind":"T","metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Object::parse(text.into()).unwrap()
    }

    fn malformed(name: &str) -> Malformed {
        Malformed {
            key: Some(ObjectKey {
                namespace: String::new(),
                name: name.into(),
            }),
            resource_version: "9".into(),
            text: Default::default(),
            reason: "no".into(),
        }
    }

    fn listing(mirror: &mut Mirror, objects: &[(&str, &str, u32)]) {
        mirror.take(Report::Replace {
            reason: ListReason::Expired,
        });
        for (name, uid, version) in objects {
            mirror.take(Report::Listed(object(name, uid, *version)));
        }
    }

    fn list(mirror: &mut Mirror, objects: &[(&str, &str, u32)]) -> String {
        listing(mirror, objects);
        text(&mirror.take(Report::Replaced { version: "9".into() }))
    }

    fn text(seen: &[Seen]) -> String {
        let one = |Seen { change, cause }: &Seen| {
            let sign = match (change.op, change.is_final) {
                _ if *cause == Cause::First => "=",
                (Op::Created, _) => "+",
                (Op::Updated, _) => "~",
                (Op::Deleted, true) => "-",
                (Op::Deleted, false) => "?",
            };
            format!("{sign}{}", change.key().unwrap())
        };
        seen.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn first_list_is_what_exists() {
        let mut mirror = Mirror::default();
        assert_eq!(list(&mut mirror, &[("a", "1", 1), ("b", "2", 2)]), "=a =b");
        assert_eq!(mirror.len(), 2);
    }

    #[test]
    fn relist_reports_what_happened_in_the_hole() {
        let mut mirror = Mirror::default();
        list(
            &mut mirror,
            &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("d", "4", 4)],
        );
        let relist = list(
            &mut mirror,
            &[("a", "1", 1), ("b", "2", 7), ("d", "5", 8), ("e", "6", 9)],
        );
        assert_eq!(relist, "?c ~b ?d +d +e");
    }

    #[test]
    fn unfinished_list_is_forgotten() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        listing(&mut mirror, &[("ghost", "9", 9)]);
        assert_eq!(list(&mut mirror, &[("a", "1", 1)]), "");
    }

    #[test]
    fn object_that_goes_while_it_is_listed_is_not_in_the_list() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        listing(&mut mirror, &[("a", "1", 1), ("b", "2", 2)]);
        mirror.take(Report::Unlisted(object("a", "1", 3)));
        assert_eq!(
            text(&mirror.take(Report::Replaced { version: "9".into() })),
            "?a +b"
        );
    }

    #[test]
    fn events_change_it() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        assert_eq!(text(&mirror.take(Report::Applied(object("a", "1", 1)))), "");
        assert_eq!(text(&mirror.take(Report::Applied(object("a", "1", 2)))), "~a");
        assert_eq!(text(&mirror.take(Report::Applied(object("a", "2", 5)))), "?a +a");
        assert_eq!(text(&mirror.take(Report::Deleted(object("a", "2", 6)))), "-a");
        assert_eq!(mirror.len(), 0);
    }

    #[test]
    fn unreadable_object_is_not_taken_for_deleted() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        listing(&mut mirror, &[]);
        let unreadable = |op| Report::Malformed {
            op,
            object: malformed("a"),
        };
        mirror.take(unreadable(Op::Created));
        assert_eq!(text(&mirror.take(Report::Replaced { version: "9".into() })), "");
        assert_eq!(text(&mirror.take(unreadable(Op::Updated))), "");
        assert_eq!(text(&mirror.take(unreadable(Op::Deleted))), "?a");
    }

    #[test]
    fn objects_go_with_their_kind_and_come_anew_with_it() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        assert_eq!(text(&mirror.clear()), "?a");
        assert_eq!(list(&mut mirror, &[("a", "2", 7)]), "+a");
    }
}
