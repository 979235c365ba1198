//! The served kinds, from the generated table.

use std::sync::OnceLock;

use crate::types::{self, Id};

/// A built-in kind in one version.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version, `v1`.
    pub version: &'static str,
    /// Kind, `Deployment`.
    pub kind: &'static str,
    /// Kind of a list, `DeploymentList`.
    pub list_kind: &'static str,
    /// Plural, `deployments`.
    pub plural: &'static str,
    /// Singular, `deployment`.
    pub singular: &'static str,
    /// Short names, `deploy`.
    pub short_names: &'static [&'static str],
    /// Categories, `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Verbs in the order of discovery.
    pub verbs: &'static [&'static str],
    /// Subresources in the order of discovery.
    pub subresources: &'static [Subresource],
    pub(crate) ty: Id,
}

/// A subresource such as `status` or `scale`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Subresource {
    /// Name after the slash, `status`.
    pub name: &'static str,
    /// Group of the kind that the subresource speaks, `autoscaling` for `scale`.
    pub group: &'static str,
    /// Version of that kind.
    pub version: &'static str,
    /// The kind itself.
    pub kind: &'static str,
    /// Verbs in the order of discovery.
    pub verbs: &'static [&'static str],
}

impl Kind {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether objects are stored; reviews and bindings are only ever created and answered.
    pub fn stored(&self) -> bool {
        self.verbs.contains(&"watch")
    }

    /// The subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// All built-in kinds: the core group first, the others by priority.
pub fn kinds() -> &'static [Kind] {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        include_str!("table/kinds.txt")
            .lines()
            .filter_map(parse)
            .collect()
    })
}

/// The kind with this group, version and name.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    kinds()
        .iter()
        .find(|k| k.kind == kind && k.version == version && k.group == group)
}

fn parse(line: &'static str) -> Option<Kind> {
    let columns: Vec<&'static str> = line.split('\t').collect();
    let &[
        ty,
        group,
        version,
        kind,
        plural,
        singular,
        short_names,
        categories,
        scope,
        subresources,
    ] = columns.as_slice()
    else {
        return None;
    };
    Some(Kind {
        group,
        version,
        kind,
        list_kind: leak(format!("{kind}List")),
        plural,
        singular,
        short_names: words(short_names, ','),
        categories: words(categories, ','),
        namespaced: scope.starts_with('n'),
        verbs: verbs(scope.get(1..)?),
        subresources: parse_subresources(subresources),
        ty: types::find(ty)?,
    })
}

fn parse_subresources(text: &'static str) -> &'static [Subresource] {
    let parse = |text: &'static str| {
        let mut parts = text.split(':');
        Some(Subresource {
            name: parts.next()?,
            group: parts.next()?,
            version: parts.next()?,
            kind: parts.next()?,
            verbs: verbs(parts.next()?),
        })
    };
    let all: Vec<Subresource> = text.split(' ').filter_map(parse).collect();
    if all.is_empty() { &[] } else { Vec::leak(all) }
}

// The table is parsed once for the life of the process, so leaking it costs nothing more than keeping it.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn words(text: &'static str, separator: char) -> &'static [&'static str] {
    if text.is_empty() {
        return &[];
    }
    Vec::leak(text.split(separator).collect())
}

/// Nearly all kinds share one of these lists.
fn verbs(letters: &str) -> &'static [&'static str] {
    match letters {
        "cdDglpuw" => &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "cdglpuw" => &["create", "delete", "get", "list", "patch", "update", "watch"],
        "gpu" => &["get", "patch", "update"],
        "c" => &["create"],
        "g" => &["get"],
        "u" => &["update"],
        "gl" => &["get", "list"],
        "cg" => &["create", "get"],
        "cdgpu" => &["create", "delete", "get", "patch", "update"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_kind() {
        assert_eq!(kinds().len(), include_str!("table/kinds.txt").lines().count());
        for kind in kinds() {
            assert!(
                !kind.verbs.is_empty(),
                "{} has verbs that are not in the list",
                kind.plural
            );
            assert!(
                kind.subresources.iter().all(|s| !s.verbs.is_empty()),
                "{}",
                kind.plural
            );
        }
    }

    #[test]
    fn finds_a_kind_by_group_version_and_name() {
        let deployment = kind("apps", "v1", "Deployment").unwrap();
        assert_eq!(deployment.plural, "deployments");
        assert_eq!(deployment.short_names, ["deploy"]);
        assert!(deployment.namespaced && deployment.stored());
        assert_eq!(deployment.subresource("scale").unwrap().kind, "Scale");
        assert!(kind("apps", "v1beta1", "Deployment").is_none());
        assert!(
            !kind("authorization.k8s.io", "v1", "SubjectAccessReview")
                .unwrap()
                .stored()
        );
    }
}
