//! What a watch has seen: turns lists and events into changes with their old and new state.

use std::collections::BTreeMap;

use skopos_client::Follow;
use skopos_object::{Object, ObjectKey};

/// A copy of the objects followed. Pure: it only sees what [`Mirror::take`] is given.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    objects: BTreeMap<ObjectKey, Object>,
    listing: BTreeMap<ObjectKey, Object>,
    listed: bool,
}

/// Something that happened to one object.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// It was there when the watch began.
    Existing(Object),
    Created(Object),
    Updated {
        old: Object,
        new: Object,
    },
    /// The last state known.
    Deleted(Object),
}

impl Mirror {
    /// Takes one report of the follower and returns what it means.
    pub(crate) fn take(&mut self, follow: Follow) -> Vec<Seen> {
        match follow {
            Follow::Listing(_) => {
                self.listing.clear();
                Vec::new()
            }
            Follow::Item(object) => {
                self.listing.insert(object.key(), object);
                Vec::new()
            }
            Follow::Listed { .. } => self.replace(),
            Follow::Applied(object) => self.apply(object),
            Follow::Deleted(object) => {
                self.objects.remove(&object.key());
                vec![Seen::Deleted(object)]
            }
            Follow::Trouble { .. } | Follow::Resumed => Vec::new(),
        }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// A list is complete: what is missing from it was deleted while nobody looked.
    fn replace(&mut self) -> Vec<Seen> {
        let fresh = std::mem::take(&mut self.listing);
        if !std::mem::replace(&mut self.listed, true) {
            self.objects = fresh;
            return self.objects.values().cloned().map(Seen::Existing).collect();
        }
        let gone: Vec<ObjectKey> = self
            .objects
            .keys()
            .filter(|key| !fresh.contains_key(key))
            .cloned()
            .collect();
        let mut seen: Vec<Seen> = gone
            .iter()
            .filter_map(|key| self.objects.remove(key))
            .map(Seen::Deleted)
            .collect();
        for object in fresh.into_values() {
            seen.extend(self.apply(object));
        }
        seen
    }

    fn apply(&mut self, new: Object) -> Vec<Seen> {
        match self.objects.insert(new.key(), new.clone()) {
            None => vec![Seen::Created(new)],
            Some(old) if old.uid() != new.uid() => vec![Seen::Deleted(old), Seen::Created(new)],
            Some(old) if old.resource_version() == new.resource_version() => Vec::new(),
            Some(old) => vec![Seen::Updated { old, new }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skopos_client::Why;

    fn object(name: &str, uid: &str, version: u32) -> Object {
        let text = format!(
            r#"{{"apiVersion":"x.io/v1","kind":"T","metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Object::parse(text.into()).unwrap()
    }

    fn list(mirror: &mut Mirror, objects: &[(&str, &str, u32)]) -> String {
        let mut seen = mirror.take(Follow::Listing(Why::Expired));
        for (name, uid, version) in objects {
            seen.extend(mirror.take(Follow::Item(object(name, uid, *version))));
        }
        seen.extend(mirror.take(Follow::Listed {
            resource_version: "9".into(),
        }));
        text(&seen)
    }

    fn text(seen: &[Seen]) -> String {
        let one = |seen: &Seen| match seen {
            Seen::Existing(o) => format!("={}", o.key()),
            Seen::Created(o) => format!("+{}", o.key()),
            Seen::Updated { new, .. } => format!("~{}", new.key()),
            Seen::Deleted(o) => format!("-{}", o.key()),
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
        assert_eq!(relist, "-c ~b -d +d +e");
    }

    #[test]
    fn unfinished_list_is_forgotten() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        mirror.take(Follow::Listing(Why::Expired));
        mirror.take(Follow::Item(object("ghost", "9", 9)));
        assert_eq!(list(&mut mirror, &[("a", "1", 1)]), "");
    }

    #[test]
    fn events_change_it() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[("a", "1", 1)]);
        assert_eq!(text(&mirror.take(Follow::Applied(object("a", "1", 1)))), "");
        assert_eq!(text(&mirror.take(Follow::Applied(object("a", "1", 2)))), "~a");
        assert_eq!(text(&mirror.take(Follow::Applied(object("a", "2", 5)))), "-a +a");
        assert_eq!(text(&mirror.take(Follow::Deleted(object("a", "2", 6)))), "-a");
        assert_eq!(mirror.len(), 0);
    }
}
