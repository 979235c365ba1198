//! Definitions, and resources by them, as a server would take them.

use std::collections::BTreeMap;

use serde_json::Value;
use skopos_api::Loaded;

use super::creation::{Kind, Said, define};
use super::{Report, place, title};
use crate::manifest::Manifest;
use crate::rule_files::{RuleFiles, name};

/// A definition, and whether a server would take it.
#[derive(Debug)]
pub(super) struct Defined<'a> {
    definition: &'a Value,
    is_taken: bool,
}

/// Checks definitions.
pub(super) fn definitions<'a>(files: &'a RuleFiles, report: &mut Report) -> Vec<Defined<'a>> {
    let mut all = Vec::new();
    for manifest in &files.definitions {
        let said = define(manifest.object.clone());
        all.push(Defined {
            definition: &manifest.object,
            is_taken: said.problems.is_empty(),
        });
        tell(report, &place_of(manifest), &title_of(&manifest.object), said);
    }
    all
}

/// Checks resources by the definitions of their kinds.
pub(super) fn resources(files: &RuleFiles, defined: &[Defined<'_>], report: &mut Report) {
    let mut known = BTreeMap::new();
    for manifest in &files.others {
        let object = &manifest.object;
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let found = known
            .entry((text("apiVersion"), text("kind")))
            .or_insert_with_key(|(api_version, kind)| Found::new(defined, api_version, kind));
        let (place, title) = (place_of(manifest), title_of(object));
        match found {
            Found::Kind(kind) => tell(report, &place, &title, kind.create(object.clone())),
            Found::NotServed(versions) => {
                let message = format!(
                    "its definition serves no such version, but {}",
                    versions.join(", ")
                );
                report.problem(&place, &title, message);
            }
            Found::Nothing => report.unchecked += 1,
        }
    }
}

/// Checks our kinds by their definitions. What cannot be read was told before.
pub(super) fn own(files: &RuleFiles, report: &mut Report) {
    let definitions = skopos_api::definitions();
    let kinds = definitions.iter().filter_map(|definition| {
        let kind = definition["spec"]["names"]["kind"].as_str()?;
        Some((kind, Kind::new(definition, &definition["spec"]["versions"][0])?))
    });
    let kinds: BTreeMap<&str, Kind> = kinds.collect();
    let read: BTreeMap<_, &Loaded> = files
        .ours
        .iter()
        .map(|loaded| (identity(loaded), loaded))
        .collect();
    for manifest in &files.own_manifests {
        let kind = manifest.object["kind"].as_str().unwrap_or_default();
        if let (Some(kind), Some(loaded)) = (kinds.get(kind), read.get(&identity_of(manifest))) {
            let said = kind.create(manifest.object.clone());
            tell(report, &place(loaded), &title(&loaded.resource), said);
        }
    }
}

type Identity = (String, String, String, String);

fn identity(loaded: &Loaded) -> Identity {
    let (kind, namespace, name) = name(&loaded.resource);
    (
        loaded.file.display().to_string(),
        kind.to_owned(),
        namespace,
        name,
    )
}

fn identity_of(manifest: &Manifest) -> Identity {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (&manifest.object["kind"], &manifest.object["metadata"]);
    let namespace = metadata["namespace"].as_str().unwrap_or("default").to_owned();
    (
        manifest.place.file.clone(),
        text(kind),
        namespace,
        text(&metadata["name"]),
    )
}

/// What definitions say of a kind.
enum Found {
    Kind(Box<Kind>),
    NotServed(Vec<String>),
    Nothing,
}

impl Found {
    fn new(defined: &[Defined<'_>], api_version: &str, kind: &str) -> Found {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_meant = |one: &&Defined<'_>| {
            let spec = &one.definition["spec"];
            spec["group"] == group && spec["names"]["kind"] == kind
        };
        let Some(found) = defined.iter().find(is_meant) else {
            return Found::Nothing;
        };
        let versions = found.definition["spec"]["versions"].as_array();
        let served = versions.into_iter().flatten().filter(|one| one["served"] == true);
        let served: Vec<&Value> = served.collect();
        let Some(version) = served.iter().find(|one| one["name"] == version) else {
            let names = served.iter().filter_map(|one| one["name"].as_str());
            return Found::NotServed(names.map(str::to_owned).collect());
        };
        match Kind::new(found.definition, version) {
            Some(kind) if found.is_taken => Found::Kind(Box::new(kind)),
            Some(kind) => Found::Kind(Box::new(kind.without_rules())),
            // Without a schema that can be read anything goes; what is wrong with it was said.
            None => Found::Nothing,
        }
    }
}

fn tell(report: &mut Report, place: &str, title: &str, said: Said) {
    for problem in said.problems {
        report.problem(place, title, problem);
    }
    for warning in said.warnings {
        report.warning(place, title, warning);
    }
}

fn place_of(manifest: &Manifest) -> String {
    format!("{}:{}", manifest.place.file, manifest.place.line)
}

fn title_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = object["metadata"]["namespace"].as_str();
    let namespace = namespace.map_or(String::new(), |namespace| format!("{namespace}/"));
    format!(
        "{} {namespace}{}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A definition with a rule, and a version that is not served.
    const JARS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jars.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: jars, kind: Jar}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          size: {type: integer, x-kubernetes-validations: [{rule: self > 0}]}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
";

    fn jar(fields: &str) -> String {
        format!("apiVersion: example.com/v1\nkind: Jar\n{fields}\n")
    }

    fn problems(documents: &[&str]) -> Vec<String> {
        let (mut files, mut report) = (RuleFiles::default(), Report::default());
        files.parse(Path::new("f.yaml"), &documents.join("---\n"));
        let defined = definitions(&files, &mut report);
        resources(&files, &defined, &mut report);
        own(&files, &mut report);
        let found = report.problems.iter();
        found
            .map(|one| format!("{} {}: {}", one.place, one.object, one.message))
            .collect()
    }

    #[track_caller]
    fn check(documents: &[&str], expect: &[&str]) {
        assert_eq!(problems(documents), expect);
    }

    #[test]
    fn a_resource_that_breaks_a_rule_is_a_problem() {
        let (good, bad) = (
            jar("metadata: {name: a}\nsize: 1"),
            jar("metadata: {name: b}\nsize: 0"),
        );
        check(
            &[JARS, &good, &bad],
            &["f.yaml:24 Jar b: size: Invalid value: 0: failed rule: self > 0"],
        );
        check(&[&good, &bad], &[]);
    }

    #[test]
    fn a_rule_that_does_not_compile_is_told_once() {
        let jars = JARS.replace("self > 0", "self > ''");
        let found = problems(&[&jars, &jar("metadata: {name: a}\nsize: 0")]);
        let [only] = found.as_slice() else {
            panic!("{found:?}");
        };
        let start = "f.yaml:1 CustomResourceDefinition jars.example.com: spec.versions[0].schema";
        assert!(
            only.starts_with(start) && only.contains("found no matching overload"),
            "{only}"
        );
    }

    #[test]
    fn a_version_that_is_not_served_is_a_problem() {
        let expect = ["f.yaml:19 Jar a: its definition serves no such version, but v1"];
        for version in ["v0", "v9"] {
            let jar = jar("metadata: {name: a}").replace("v1", version);
            check(&[JARS, &jar], &expect);
        }
    }

    #[test]
    fn a_definition_of_a_version_of_old_is_a_problem() {
        let old = JARS.replace("k8s.io/v1", "k8s.io/v1beta1");
        let why =
            "no server has definitions in apiextensions.k8s.io/v1beta1: write it as apiextensions.k8s.io/v1";
        check(
            &[&old],
            &[&format!(
                "f.yaml:1 CustomResourceDefinition jars.example.com: {why}"
            )],
        );
    }

    /// As a server, which looks at the path of the request, and cuts long names before it adds to them.
    #[test]
    fn what_a_server_sets_is_no_problem() {
        let prefix = "x".repeat(70);
        check(&[JARS, &jar("metadata: {name: a, namespace: b}")], &[]);
        check(
            &[JARS, &jar(&format!("metadata: {{generateName: {prefix}}}"))],
            &[],
        );
    }

    #[test]
    fn an_object_of_ours_that_cannot_be_read_is_told_of_by_who_read_it() {
        let sink = "apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: A_b}\nspec: {}\n";
        check(&[sink], &[]);
    }
}
