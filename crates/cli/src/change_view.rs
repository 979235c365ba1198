//! Shows one change of a watch, for people or for machines.

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_client::Resource;
use skopos_object::Object;

use crate::diff_view::{changes, created, deleted, updated};
use crate::mirror::Seen;
use crate::output::without_managed_fields;
use crate::terminal::{ADDED, CHANGED, DELETED, FAINT, STRONG};

/// A block of text: what happened to which object, then the fields.
pub(crate) fn block(seen: &Seen, resource: &Resource, now: Timestamp) -> String {
    let (object, style, op) = parts(seen);
    let fields = match seen {
        Seen::Existing(_) => String::new(),
        Seen::Created(new) => created(&new.to_value()),
        Seen::Updated { old, new } => updated(&old.to_value(), &new.to_value()),
        Seen::Deleted(old) => deleted(&old.to_value()),
    };
    let name = resource.group_resource();
    let (key, version) = (object.key(), object.resource_version());
    format!(
        "{FAINT}{now:.0}{FAINT:#}  {style}{op}{style:#}  {name} {STRONG}{key}{STRONG:#}  {FAINT}(version {version}){FAINT:#}\n{fields}"
    )
}

/// One line of JSON.
pub(crate) fn line(seen: &Seen, resource: &Resource, now: Timestamp) -> String {
    let (object, _, op) = parts(seen);
    let value = object.to_value();
    let diff = match seen {
        Seen::Existing(_) => Vec::new(),
        Seen::Created(new) => changes(&json!({}), &new.to_value()),
        Seen::Updated { old, new } => changes(&old.to_value(), &new.to_value()),
        Seen::Deleted(old) => changes(&old.to_value(), &json!({})),
    };
    let field = |change: &skopos_object::FieldChange| {
        let mut entry = json!({"path": change.path});
        if let Some(old) = &change.old {
            entry["old"] = old.clone();
        }
        if let Some(new) = &change.new {
            entry["new"] = new.clone();
        }
        entry
    };
    let diff: Vec<Value> = diff.iter().map(field).collect();
    json!({
        "time": format!("{now:.3}"),
        "op": op,
        "resource": resource.group_resource().to_string(),
        "key": object.key().to_string(),
        "resourceVersion": object.resource_version().as_str(),
        "diff": diff,
        "object": without_managed_fields(value),
    })
    .to_string()
}

fn parts(seen: &Seen) -> (&Object, anstyle::Style, &'static str) {
    match seen {
        Seen::Existing(object) => (object, FAINT, "existing"),
        Seen::Created(object) => (object, ADDED, "created"),
        Seen::Updated { new, .. } => (new, CHANGED, "updated"),
        Seen::Deleted(object) => (object, DELETED, "deleted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skopos_object::GroupVersionKind;

    fn object(replicas: u32, image: Option<&str>, version: u32) -> Object {
        let image = image.map(|i| format!(r#","image":"{i}""#)).unwrap_or_default();
        let text = format!(
            r#"{{"apiVersion":"myapps.example.com/v1","kind":"Application","metadata":{{"name":"web","namespace":"default",
            "uid":"u","resourceVersion":"{version}","generation":{version},"labels":{{"tier":"web"}}}},
            "spec":{{"replicas":{replicas}{image}}}}}"#
        );
        Object::parse(text.into()).unwrap()
    }

    fn resource() -> Resource {
        let gvk = GroupVersionKind {
            group: "myapps.example.com".into(),
            version: "v1".into(),
            kind: "Application".into(),
        };
        Resource::known(&gvk, "applications", true)
    }

    fn plain(seen: &Seen) -> String {
        let text = block(seen, &resource(), Timestamp::UNIX_EPOCH);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn created_object_shows_its_fields() {
        let expect = "\
1970-01-01T00:00:00Z  created  applications.myapps.example.com default/web  (version 7)
    + metadata.labels.tier: \"web\"
    + spec.image: \"nginx\"
    + spec.replicas: 2
";
        assert_eq!(plain(&Seen::Created(object(2, Some("nginx"), 7))), expect);
    }

    #[test]
    fn updated_object_shows_old_and_new() {
        let seen = Seen::Updated {
            old: object(2, Some("nginx"), 7),
            new: object(3, None, 8),
        };
        let expect = "\
1970-01-01T00:00:00Z  updated  applications.myapps.example.com default/web  (version 8)
    - spec.image: \"nginx\"
    ~ spec.replicas: 2 -> 3
";
        assert_eq!(plain(&seen), expect);
    }

    #[test]
    fn bookkeeping_alone_is_named_as_such() {
        let seen = Seen::Updated {
            old: object(2, None, 7),
            new: object(2, None, 8),
        };
        assert!(plain(&seen).ends_with("    (only bookkeeping fields changed)\n"));
    }

    #[test]
    fn deleted_object_shows_what_it_was() {
        let text = plain(&Seen::Deleted(object(2, None, 9)));
        assert!(text.starts_with("1970-01-01T00:00:00Z  deleted  "), "{text}");
        assert!(text.contains("    - spec.replicas: 2\n"), "{text}");
    }

    #[test]
    fn machines_get_one_line_with_everything() {
        let seen = Seen::Updated {
            old: object(2, None, 7),
            new: object(3, None, 8),
        };
        let line = line(&seen, &resource(), Timestamp::UNIX_EPOCH);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(value["op"], "updated");
        assert_eq!(value["key"], "default/web");
        assert_eq!(value["resourceVersion"], "8");
        assert_eq!(value["object"]["spec"]["replicas"], 3);
        let replicas = value["diff"]
            .as_array()
            .unwrap()
            .iter()
            .find(|d| d["path"] == "spec.replicas")
            .unwrap();
        assert_eq!(
            (replicas["old"].as_i64(), replicas["new"].as_i64()),
            (Some(2), Some(3))
        );
    }
}
