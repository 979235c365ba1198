//! What is known about kinds: their names and, for custom resources, their schema.

use serde_json::Value;
use skopos_object::Object;
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

/// The schema of a version of a definition; of the one that is stored if none is named.
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
    let versions = spec["versions"].as_array()?;
    let is_meant = |one: &&Value| match version {
        Some(version) => one["name"] == version,
        None => one["storage"] == true,
    };
    let found = versions.iter().find(is_meant)?;
    Structural::from_json(found.pointer("/schema/openAPIV3Schema")?).ok()
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
            find(&all, "velero.io", "Backup", Some("v2"))
                .unwrap()
                .schema
                .is_none()
        );
    }
}
