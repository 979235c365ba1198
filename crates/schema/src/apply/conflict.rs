//! What an applier is told when others own what it wants to change.

use skopos_object::quote;

use super::element::Element;
use super::element::path_text;
use super::managed::{Operation, Owner};
use super::set::FieldSet;

/// One field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages show it: `"name" using g/v`.
    pub manager: String,
    /// The field: `.spec.replicas`.
    pub field: String,
    pub(super) owner_id: String,
    pub(super) path: Vec<Element>,
}

impl Conflict {
    /// The message of the cause that the answer lists for this field.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

pub(super) fn conflicts(found: &[(Owner, FieldSet)]) -> Vec<Conflict> {
    let mut out = Vec::new();
    for (owner, set) in found {
        let (manager, owner_id) = (describe(owner), owner.id());
        set.each(&mut Vec::new(), &mut |path| {
            out.push(Conflict {
                manager: manager.clone(),
                field: path_text(path),
                owner_id: owner_id.clone(),
                path: path.to_vec(),
            });
        });
    }
    // Stable: the fields of one owner keep their order.
    out.sort_by(|a, b| a.owner_id.cmp(&b.owner_id));
    out
}

fn describe(owner: &Owner) -> String {
    let mut text = quote(&owner.manager);
    if !owner.subresource.is_empty() {
        text = format!("{text} with subresource {}", quote(&owner.subresource));
    }
    match owner.operation {
        Operation::Apply => text,
        Operation::Update => format!("{text} using {}", owner.api_version),
    }
}

pub(super) fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", only.message(), only.field);
    }
    let mut lines = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.owner_id) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.owner_id);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}
