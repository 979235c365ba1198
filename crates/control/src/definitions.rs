//! What is known about kinds: their names and, for custom resources, their schema.

use serde_json::Value;
use skopos_object::Object;
use skopos_react::rule::KindNames;
use skopos_schema::Structural;

/// A kind that a definition describes.
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) names: KindNames,
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
        let names = names(&spec, group)?;
        names.is_meant_by(group, kind).then(|| Defined {
            schema: schema(&spec, version),
            names,
        })
    })
}

fn names(spec: &Value, group: &str) -> Option<KindNames> {
    let names = spec.get("names")?;
    let text = |field: &str| {
        names
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let short = names.get("shortNames").and_then(Value::as_array);
    Some(KindNames {
        group: group.into(),
        kind: text("kind"),
        plural: text("plural"),
        singular: text("singular"),
        short_names: short
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect(),
    })
}

/// The schema of a version, or of the one that is stored. A schema that we cannot read checks nothing.
fn schema(spec: &Value, version: Option<&str>) -> Option<Structural> {
    let versions = spec.get("versions")?.as_array()?;
    let named = |one: &&Value| match version {
        Some(version) => one.get("name").and_then(Value::as_str) == Some(version),
        None => one.get("storage").and_then(Value::as_bool) == Some(true),
    };
    let found = versions.iter().find(named)?;
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
