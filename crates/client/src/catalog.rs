//! Everything a server serves, and how a user's word finds one of them.

use std::fmt;

use skopos_object::GroupVersionKind;

use crate::resource::Resource;

/// The resources of one server, in the server's order of preference.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Resources; within a group, those of its preferred version come first.
    pub resources: Vec<Resource>,
    /// Group versions of which the server says that it does not know what they serve now.
    pub failures: Vec<GroupFailure>,
}

/// A group version that could not be read, such as that of an aggregated API server that is away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{group}/{version}: {reason}")]
pub struct GroupFailure {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// Why.
    pub reason: String,
}

/// What is found under a name.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    None,
    One(&'a Resource),
    /// The text says which.
    Several(String),
}

/// A resource that a word stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// The resource chosen.
    pub resource: &'a Resource,
    /// Another resource that the same word could have meant, if a user should be told.
    pub also: Option<&'a Resource>,
}

/// No resource has that name. Refreshing the catalog may help if a kind was just installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server doesn't have a resource type \"{word}\"{}", hint(.suggestions))]
pub struct UnknownResource {
    /// What was asked for.
    pub word: String,
    /// Names that look like it, best first.
    pub suggestions: Vec<String>,
}

fn hint(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        some => format!("; did you mean {}?", some.join(" or ")),
    }
}

/// How well a name fits, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Plural,
    ShortName,
    Singular,
    Kind,
}

impl Catalog {
    /// Finds a resource by plural, singular, kind or short name, alone or followed by `.group` or
    /// `.version.group`, in any case.
    ///
    /// Where several fit, a plural goes before a short name before a singular before a kind, and among equals
    /// the server's order decides.
    pub fn resolve(&self, word: &str) -> Result<Resolved<'_>, UnknownResource> {
        let lower = word.to_lowercase();
        let mut best: Option<(Fit, &Resource)> = None;
        let mut also = None;
        for resource in &self.resources {
            let Some(fit) = fit(resource, &lower) else {
                continue;
            };
            match best {
                Some((known, _)) if known <= fit => {}
                _ => best = Some((fit, resource)),
            }
        }
        let Some((_, resource)) = best else {
            return Err(self.unknown(word, &lower));
        };
        for other in &self.resources {
            if fit(other, &lower).is_some() && worth_telling(resource, other) {
                also = Some(other);
                break;
            }
        }
        Ok(Resolved { resource, also })
    }

    /// Finds a resource of one group by any of its names, in one version or in the preferred one.
    pub(crate) fn find(&self, group: &str, version: Option<&str>, word: &str) -> Found<'_> {
        let lower = word.to_lowercase();
        let mut best: Vec<(Fit, &Resource)> = Vec::new();
        for resource in self.resources.iter().filter(|r| r.group == group) {
            if version.is_some_and(|version| version != resource.version) {
                continue;
            }
            let fit = names(resource).find(|(_, name)| name.to_lowercase() == lower);
            let Some((fit, _)) = fit else { continue };
            best.retain(|(known, _)| *known <= fit);
            let worse = best
                .iter()
                .any(|(known, other)| *known < fit || other.plural == resource.plural);
            if !worse {
                best.push((fit, resource));
            }
        }
        match best.as_slice() {
            [] => Found::None,
            [(_, resource)] => Found::One(resource),
            several => {
                let plurals: Vec<String> = several
                    .iter()
                    .map(|(_, r)| r.group_resource().to_string())
                    .collect();
                Found::Several(format!("{word} can mean {}", plurals.join(" or ")))
            }
        }
    }

    /// Finds the resource that holds objects of this kind.
    pub fn by_kind(&self, gvk: &GroupVersionKind) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|r| r.kind == gvk.kind && r.group == gvk.group && r.version == gvk.version)
    }

    /// Finds a resource by exact group, version and plural.
    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|r| r.plural == plural && r.group == group && r.version == version)
    }

    /// Returns the resources of a category such as `all`, each in its preferred version.
    pub fn category(&self, name: &str) -> Vec<&Resource> {
        let mut members: Vec<&Resource> = Vec::new();
        for resource in self
            .resources
            .iter()
            .filter(|r| r.categories.iter().any(|c| c == name))
        {
            let known = members
                .iter()
                .any(|m| m.plural == resource.plural && m.group == resource.group);
            if !known {
                members.push(resource);
            }
        }
        members
    }

    fn unknown(&self, word: &str, lower: &str) -> UnknownResource {
        const SHOWN: usize = 3;
        let head = lower.split('.').next().unwrap_or(lower);
        let limit = (head.chars().count() / 3).clamp(1, 3);
        let mut near: Vec<(usize, String)> = Vec::new();
        for resource in &self.resources {
            let names = names(resource)
                .map(|(_, name)| distance(head, &name.to_lowercase()))
                .min();
            let Some(far) = names.filter(|far| *far <= limit) else {
                continue;
            };
            near.push((far, resource.group_resource().to_string()));
        }
        near.sort();
        near.dedup();
        let suggestions = near.into_iter().take(SHOWN).map(|(_, name)| name).collect();
        UnknownResource {
            word: word.to_owned(),
            suggestions,
        }
    }
}

/// All names of a resource with how good a match each is.
fn names(resource: &Resource) -> impl Iterator<Item = (Fit, &str)> {
    [(Fit::Plural, resource.plural.as_str())]
        .into_iter()
        .chain(
            resource
                .short_names
                .iter()
                .map(|name| (Fit::ShortName, name.as_str())),
        )
        .chain([
            (Fit::Singular, resource.singular.as_str()),
            (Fit::Kind, resource.kind.as_str()),
        ])
        .filter(|(_, name)| !name.is_empty())
}

fn fit(resource: &Resource, lower: &str) -> Option<Fit> {
    let (head, scope) = match lower.split_once('.') {
        Some((head, scope)) => (head, Some(scope)),
        None => (lower, None),
    };
    if scope.is_some_and(|scope| !in_scope(resource, scope)) {
        return None;
    }
    names(resource)
        .find(|(_, name)| name.to_lowercase() == head)
        .map(|(fit, _)| fit)
}

/// `scope` is what follows the name: `group`, `version.group`, `version.` or `version`.
fn in_scope(resource: &Resource, scope: &str) -> bool {
    if scope == resource.group {
        return true;
    }
    let (version, group) = scope.split_once('.').unwrap_or((scope, ""));
    version == resource.version && group == resource.group
}

/// Built-in groups share names on purpose (events, for one); a user only needs to hear about surprises.
fn worth_telling(chosen: &Resource, other: &Resource) -> bool {
    let built_in =
        |r: &Resource| r.group.is_empty() || !r.group.contains('.') || r.group.ends_with(".k8s.io");
    let same = chosen.group == other.group && chosen.plural == other.plural;
    !(same || built_in(chosen) && built_in(other))
}

/// Levenshtein distance over characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Resolved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource.group_resource())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(gv: (&str, &str), kind: &str, plural: &str, short: &[&str]) -> Resource {
        let gvk = GroupVersionKind {
            group: gv.0.into(),
            version: gv.1.into(),
            kind: kind.into(),
        };
        let mut resource = Resource::known(&gvk, plural, true);
        resource.short_names = short.iter().map(ToString::to_string).collect();
        resource
    }

    fn catalog() -> Catalog {
        Catalog {
            resources: vec![
                resource(("", "v1"), "Pod", "pods", &["po"]),
                resource(("", "v1"), "Event", "events", &["ev"]),
                resource(("apps", "v1"), "Deployment", "deployments", &["deploy"]),
                resource(("events.k8s.io", "v1"), "Event", "events", &["ev"]),
                resource(
                    ("myapps.example.com", "v1"),
                    "Application",
                    "applications",
                    &["app"],
                ),
                resource(
                    ("myapps.example.com", "v1beta1"),
                    "Application",
                    "applications",
                    &["app"],
                ),
                resource(("other.example.com", "v1"), "Application", "applications", &[]),
                resource(("odd.example.com", "v1"), "Oddity", "po", &[]),
            ],
            failures: Vec::new(),
        }
    }

    fn check(word: &str, expect: &str) {
        let catalog = catalog();
        let found = match catalog.resolve(word) {
            Ok(Resolved { resource, also }) => {
                let also = also
                    .map(|r| format!(" also {}", r.group_resource()))
                    .unwrap_or_default();
                format!("{} {}{also}", resource.group_resource(), resource.version)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expect, "{word}");
    }

    #[test]
    fn finds_by_any_name_in_any_case() {
        for word in ["pods", "pod", "Pod", "PODS"] {
            check(word, "pods v1");
        }
        for word in ["deployments", "deploy", "Deployment.apps", "deployments.v1.apps"] {
            check(word, "deployments.apps v1");
        }
        check("pods.v1", "pods v1");
        check("pods.v1.", "pods v1");
    }

    #[test]
    fn group_and_version_choose_among_namesakes() {
        check("app", "applications.myapps.example.com v1");
        check(
            "applications.other.example.com",
            "applications.other.example.com v1",
        );
        check(
            "application.v1beta1.myapps.example.com",
            "applications.myapps.example.com v1beta1",
        );
    }

    #[test]
    fn first_of_the_server_wins_and_surprises_are_told() {
        check("events", "events v1");
        check(
            "applications",
            "applications.myapps.example.com v1 also applications.other.example.com",
        );
        check("po", "po.odd.example.com v1 also pods");
    }

    #[test]
    fn typos_get_suggestions() {
        check(
            "deploymnts",
            r#"the server doesn't have a resource type "deploymnts"; did you mean deployments.apps?"#,
        );
        check("zzzzzz", r#"the server doesn't have a resource type "zzzzzz""#);
        check(
            "pods.nowhere",
            r#"the server doesn't have a resource type "pods.nowhere"; did you mean pods?"#,
        );
    }
}
