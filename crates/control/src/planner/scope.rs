//! What of a kind is captured where only some namespaces are looked at: each of them is a collection of its own.

use skopos_journal::SelectionPart;
use skopos_object::CollectionName;

use super::{Found, Planner};

/// What is captured for a rule or a record.
#[derive(Debug, Default)]
pub(super) struct Scoped {
    pub(super) parts: Vec<(CollectionName, SelectionPart)>,
    /// What is asked for and not looked at.
    pub(super) problem: Option<String>,
}

impl Planner {
    /// Those of the namespaces that are asked for which are looked at; all of them if all are asked for.
    pub(super) fn looked_at(&self, asked: &[String]) -> Vec<String> {
        let looked_at = &self.around.namespaces;
        match (looked_at.as_slice(), asked) {
            ([], asked) => asked.to_vec(),
            (looked_at, []) => looked_at.to_vec(),
            (looked_at, asked) => {
                let both = asked.iter().filter(|one| looked_at.contains(one));
                both.cloned().collect()
            }
        }
    }

    /// The collections that hold what is asked for of a kind.
    pub(super) fn scoped(&self, found: &Found, name: &CollectionName, part: &SelectionPart) -> Scoped {
        let looked_at = &self.around.namespaces;
        if looked_at.is_empty() {
            return Scoped {
                parts: vec![(name.clone(), part.clone())],
                problem: None,
            };
        }
        if !found.namespaced {
            let problem = format!(
                "spec.watch: {name} are in no namespace, and only namespaces are looked at here ({})",
                looked_at.join(", ")
            );
            return Scoped {
                problem: Some(problem),
                ..Scoped::default()
            };
        }
        let within = |namespace: String| {
            let all_of_it = SelectionPart {
                namespaces: Vec::new(),
                ..part.clone()
            };
            (name.clone().within(namespace), all_of_it)
        };
        let unseen = part.namespaces.iter().filter(|one| !looked_at.contains(one));
        let unseen: Vec<&str> = unseen.map(String::as_str).collect();
        Scoped {
            parts: self.looked_at(&part.namespaces).into_iter().map(within).collect(),
            problem: (!unseen.is_empty()).then(|| {
                let looked_at = looked_at.join(", ");
                format!(
                    "spec.watch: {} is not looked at here, only {looked_at}",
                    unseen.join(", ")
                )
            }),
        }
    }
}
