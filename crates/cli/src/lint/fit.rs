//! Whether rules and records can ever fire, by the definitions in the files and the built-in kinds.

use serde_json::Value;
use skopos_api::{Loaded, Record, Resource, Rule};
use skopos_control::{captured_version, is_definition_of};
use skopos_react::rule::SYSTEM_NAMESPACE;

use super::{Report, place, title};
use crate::rule_files::{RuleFiles, name};

/// Looks at every rule and record.
pub(super) fn fit(files: &RuleFiles, report: &mut Report) {
    for loaded in &files.ours {
        match &loaded.resource {
            Resource::Rule(rule) => {
                of_rule(files, loaded, rule, report);
                templates(files, loaded, rule, report);
                if matches_everything(rule) {
                    let message = format!(
                        "matches every change of every {}: narrow it by `events`, `fields`, a selector or `when`, or bound it \
                         with `limits`",
                        rule.spec.watch.kind
                    );
                    report.warning(&place(loaded), &title(&loaded.resource), message);
                }
            }
            Resource::Record(record) => of_record(files, loaded, record, report),
            Resource::Sink(_) | Resource::RuleTest(_) => {}
        }
    }
}

fn of_rule(files: &RuleFiles, loaded: &Loaded, rule: &Rule, report: &mut Report) {
    let watch = &rule.spec.watch;
    let named = Named {
        field: "spec.watch",
        group: &watch.group,
        kind: &watch.kind,
        version: watch.version.as_deref(),
        namespaces: &watch.namespaces,
    };
    named.check(files, loaded, report);
}

fn of_record(files: &RuleFiles, loaded: &Loaded, record: &Record, report: &mut Report) {
    for (n, scope) in record.spec.watch.iter().enumerate() {
        let named = Named {
            field: &format!("spec.watch[{n}]"),
            group: &scope.group,
            kind: &scope.kind,
            version: scope.version.as_deref(),
            namespaces: &scope.namespaces,
        };
        named.check(files, loaded, report);
    }
}

/// What a rule or record names.
struct Named<'a> {
    field: &'a str,
    group: &'a str,
    kind: &'a str,
    version: Option<&'a str>,
    namespaces: &'a [String],
}

impl Named<'_> {
    fn check(&self, files: &RuleFiles, loaded: &Loaded, report: &mut Report) {
        let Some(served) = served(files, self.group, self.kind) else {
            return;
        };
        let (place, title, field) = (place(loaded), title(&loaded.resource), self.field);
        if let Some(asked) = self.version
            && !served.captured.iter().any(|one| one == asked)
        {
            let message = format!(
                "{field}.version: changes are captured in version {}, not {asked}: leave the field out",
                served.captured.join(" or ")
            );
            report.problem(&place, &title, message);
        }
        if served.is_namespaced {
            return;
        }
        let (_, namespace, _) = name(&loaded.resource);
        let plural = &served.plural;
        if !self.namespaces.is_empty() {
            let message = format!("{field}.namespaces: {plural} are in no namespace: leave the field out");
            report.problem(&place, &title, message);
        } else if namespace != SYSTEM_NAMESPACE {
            let message = format!(
                "{plural} are in no namespace: in a cluster this sees none of them from the namespace {namespace:?}, only \
                 from {SYSTEM_NAMESPACE}; from a file it does"
            );
            report.warning(&place, &title, message);
        }
    }
}

/// What is known of a kind without a server.
struct Served {
    plural: String,
    /// The versions in which its changes may be captured.
    captured: Vec<String>,
    is_namespaced: bool,
}

fn served(files: &RuleFiles, group: &str, kind: &str) -> Option<Served> {
    let mut definitions = files.definitions.iter().map(|one| &one.object);
    match definitions.find(|one| is_definition_of(one, group, kind)) {
        Some(definition) => Some(defined(definition)),
        None => built_in(group, kind),
    }
}

fn defined(definition: &Value) -> Served {
    let spec = &definition["spec"];
    Served {
        plural: spec["names"]["plural"].as_str().unwrap_or_default().to_owned(),
        captured: captured_version(definition)
            .map(str::to_owned)
            .into_iter()
            .collect(),
        is_namespaced: spec["scope"] != "Cluster",
    }
}

fn built_in(group: &str, name: &str) -> Option<Served> {
    let is_meant = |one: &&skopos_builtin::Kind| {
        let mut names = [one.kind, one.plural, one.singular]
            .into_iter()
            .chain(one.short_names.iter().copied());
        one.group == group && names.any(|own| own == name)
    };
    let found: Vec<_> = skopos_builtin::kinds().iter().filter(is_meant).collect();
    let first = found.first()?;
    Some(Served {
        plural: first.plural.to_owned(),
        captured: found.iter().map(|one| one.version.to_owned()).collect(),
        is_namespaced: first.namespaced,
    })
}

/// A sink that writes objects needs one.
fn templates(files: &RuleFiles, loaded: &Loaded, rule: &Rule, report: &mut Report) {
    let (_, namespace, _) = name(&loaded.resource);
    for (n, action) in rule.spec.actions.iter().enumerate() {
        let wanted = ("Sink", namespace.clone(), action.sink.clone());
        let writes = |one: &Loaded| match &one.resource {
            Resource::Sink(sink) => sink.spec.kubernetes.is_some() && name(&one.resource) == wanted,
            _ => false,
        };
        if action.template.is_none() && files.ours.iter().any(writes) {
            let message = format!(
                "spec.do[{n}].template: the sink {:?} writes objects, and no object is given: write it as the template",
                action.sink
            );
            report.problem(&place(loaded), &title(&loaded.resource), message);
        }
    }
}

/// Nothing narrows the rule, and nothing bounds it.
fn matches_everything(rule: &Rule) -> bool {
    let (spec, watch) = (&rule.spec, &rule.spec.watch);
    let selects = watch
        .selector
        .as_ref()
        .is_some_and(|selector| *selector != skopos_api::Selector::default());
    let narrows = selects
        || !watch.events.is_empty()
        || !watch.match_fields.is_empty()
        || !spec.fields.include.is_empty()
        || spec.when.is_some();
    !narrows && spec.limits.is_none()
}
