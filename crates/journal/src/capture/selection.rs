//! Which objects of a collection are written down.

use skopos_object::{LabelSelector, Object};

/// Which objects of a collection are written down: those that any part takes. The default is all.
///
/// An object that was taken once stays known until it is gone: the change by which it leaves is written down, and its
/// deletion; what happens to it between is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    #[default]
    Everything,
    /// Those that any of these takes.
    Parts(Vec<SelectionPart>),
}

/// Some objects of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionPart {
    /// Only in these namespaces; empty means all.
    pub namespaces: Vec<String>,
    /// Only with these labels.
    pub labels: LabelSelector,
}

impl Selection {
    /// Nothing, until parts are added.
    pub fn nothing() -> Self {
        Self::Parts(Vec::new())
    }

    /// Takes what a part takes, too.
    pub fn add(&mut self, part: SelectionPart) {
        let Self::Parts(parts) = self else {
            return;
        };
        if part.namespaces.is_empty() && part.labels.is_everything() {
            *self = Self::Everything;
        } else if !parts.contains(&part) {
            parts.push(part);
        }
    }

    /// Whether an object is written down, as it is.
    pub fn takes(&self, object: &Object) -> bool {
        match self {
            Self::Everything => true,
            Self::Parts(parts) => parts.iter().any(|part| part.takes(object)),
        }
    }

    /// Whether all that another one takes is certainly taken by this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::Parts(_), Self::Everything) => false,
            (Self::Parts(ours), Self::Parts(theirs)) => theirs.iter().all(|part| ours.contains(part)),
        }
    }

    /// As it stands on disk; empty for everything.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Everything => String::new(),
            // A line each: neither namespaces nor selectors have ends of lines or tabs.
            Self::Parts(parts) => parts.iter().map(SelectionPart::to_line).collect(),
        }
    }

    /// Reads it back. What cannot be read took nothing, so that a list tells what is there.
    pub(crate) fn from_text(text: &str) -> Self {
        match text.is_empty() {
            true => Self::Everything,
            false => Self::Parts(text.lines().filter_map(SelectionPart::from_line).collect()),
        }
    }
}

impl SelectionPart {
    /// All of them.
    pub fn everything() -> Self {
        Self {
            namespaces: Vec::new(),
            labels: LabelSelector::everything(),
        }
    }

    fn takes(&self, object: &Object) -> bool {
        let is_in = || {
            let key = object.key();
            self.namespaces.contains(&key.namespace)
        };
        (self.namespaces.is_empty() || is_in()) && object.is_selected_by(&self.labels)
    }

    fn to_line(&self) -> String {
        format!("{}\t{}\n", self.namespaces.join(","), self.labels)
    }

    fn from_line(line: &str) -> Option<Self> {
        let (namespaces, labels) = line.split_once('\t')?;
        let names = namespaces.split(',').filter(|name| !name.is_empty());
        Some(Self {
            namespaces: names.map(str::to_owned).collect(),
            labels: LabelSelector::parse(labels).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(namespaces: &[&str], labels: &str) -> SelectionPart {
        SelectionPart {
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            labels: LabelSelector::parse(labels).unwrap(),
        }
    }

    #[test]
    fn is_the_union_of_its_parts_and_reads_back() {
        let mut selection = Selection::nothing();
        selection.add(part(&["a", "b"], ""));
        selection.add(part(&[], "tier in (gold, silver),!old"));
        let object = |namespace: &str, labels: &str| {
            skopos_testkit::object(&format!(
                "{{kind: Widget, metadata: {{name: w, namespace: {namespace}, labels: {labels}}}}}"
            ))
        };
        assert!(selection.takes(&object("b", "{}")));
        assert!(selection.takes(&object("c", "{tier: gold}")));
        assert!(!selection.takes(&object("c", "{tier: gold, old: x}")));
        assert!(!selection.takes(&object("c", "{}")));
        let read = Selection::from_text(&selection.to_text());
        assert_eq!(read, selection);
        assert!(Selection::Everything.covers(&selection) && !selection.covers(&Selection::Everything));
        selection.add(part(&[], ""));
        assert_eq!(selection, Selection::Everything);
        assert_eq!(Selection::from_text(&selection.to_text()), Selection::Everything);
    }
}
