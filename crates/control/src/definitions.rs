//! What is known about kinds: their names and, for custom resources, their schema.

use serde_json::Value;
use skopos_object::{Object, compare_versions};
use skopos_react::rule::KindNames;
use skopos_schema::Structural;

/// A kind that a definition describes.
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) names: KindNames,
    /// Whether its objects are in namespaces.
    pub(crate) namespaced: bool,
    pub(crate) schema: Option<Structural>,
}

/// Finds the definition of a kind among all of them, by any of its names.
pub(crate) fn find(
    definitions: &[Object],
    group: &str,
    kind: &str,
    version: Option<&str>,
) -> Option<Defined> {
    definitions.iter().find_map(|definition| {
        if definition.get(&["spec", "group"])?.as_str()? != group {
            return None;
        }
        let spec = definition.get(&["spec"])?;
        let names = names(&spec);
        names.is_meant_by(group, kind).then(|| Defined {
            namespaced: spec["scope"] != "Cluster",
            schema: schema_of(&spec, version),
            names,
        })
    })
}

/// Whether a definition is of the kind that a rule or record names: by kind, plural, singular or short name.
pub fn is_definition_of(definition: &Value, group: &str, name: &str) -> bool {
    let known = names(&definition["spec"]);
    known.is_meant_by(group, name) || known.group == group && known.kind.eq_ignore_ascii_case(name)
}

/// The version in which changes of a defined kind are captured: of those that are served, the server prefers the one
/// that sorts highest.
pub fn captured_version(definition: &Value) -> Option<&str> {
    captured_of(&definition["spec"])
}

/// The schema of a version of a definition; of the one in which changes are captured if none is named.
pub fn schema(definition: &Value, version: Option<&str>) -> Option<Structural> {
    schema_of(&definition["spec"], version)
}

/// The names in the specification of a definition.
pub(crate) fn names(spec: &Value) -> KindNames {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &spec["names"];
    let short_names = names["shortNames"].as_array().into_iter().flatten();
    let kind = text(&names["kind"]);
    KindNames {
        group: text(&spec["group"]),
        plural: text(&names["plural"]),
        singular: names["singular"]
            .as_str()
            .map_or_else(|| kind.to_lowercase(), str::to_owned),
        kind,
        short_names: short_names.map(text).collect(),
    }
}

/// A schema that we cannot read checks nothing.
fn schema_of(spec: &Value, version: Option<&str>) -> Option<Structural> {
    let meant = version.or_else(|| captured_of(spec))?;
    let mut versions = spec["versions"].as_array()?.iter();
    let found = versions.find(|one| one["name"] == meant)?;
    Structural::from_json(found.pointer("/schema/openAPIV3Schema")?).ok()
}

fn captured_of(spec: &Value) -> Option<&str> {
    let versions = spec["versions"].as_array()?.iter();
    let served = versions.filter(|one| one["served"] != false);
    let names = served.filter_map(|one| one["name"].as_str());
    names.max_by(|a, b| compare_versions(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_is_found_by_any_of_its_names() {
        let definition = Object::from_value(&json!({"metadata": {"name": "backups.velero.io"}, "spec": {
            "group": "velero.io",
            "names": {"kind": "Backup", "plural": "backups", "singular": "backup", "shortNames": ["bk"]},
            "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}))
        .unwrap();
        let all = [definition];
        for name in ["Backup", "backups", "backup", "bk"] {
            let found = find(&all, "velero.io", name, None).unwrap();
            assert_eq!(found.names.plural, "backups");
            assert!(found.schema.is_some());
        }
        assert!(find(&all, "other.io", "Backup", None).is_none());
        assert!(find(&all, "velero.io", "Restore", None).is_none());
        assert!(
            find(&all, "velero.io", "Backup", Some("v3"))
                .unwrap()
                .schema
                .is_none()
        );
    }

    #[test]
    fn a_rule_is_checked_by_the_version_that_is_captured() {
        let version = |name: &str, is_served: bool, is_stored: bool| {
            let spec = json!({"type": "object", "properties": {name: {"type": "string"}}});
            let schema = json!({"type": "object", "properties": {"spec": spec}});
            json!({"name": name, "served": is_served, "storage": is_stored, "schema": {"openAPIV3Schema": schema}})
        };
        let versions = [
            version("v1beta1", true, true),
            version("v1", true, false),
            version("v2", false, false),
        ];
        let definition = json!({"spec": {"versions": versions}});
        assert_eq!(captured_version(&definition), Some("v1"));
        let mut object = json!({"spec": {"v1": "kept", "v1beta1": "unknown"}});
        let found = schema(&definition, None).unwrap();
        skopos_schema::prune(&found, &mut object, skopos_schema::Root::Resource);
        assert_eq!(object, json!({"spec": {"v1": "kept"}}));
    }
}
