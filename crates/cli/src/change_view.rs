//! Shows one change of a watch, for people or for machines.

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_client::Resource;
use skopos_informer::ListReason;
use skopos_object::{Object, Op};

use crate::diff_view::{changes, created, deleted, updated};
use crate::mirror::{Cause, Seen};
use crate::output::without_managed_fields;
use crate::terminal::{ADDED, CHANGED, DELETED, FAINT, STRONG};

/// A block of text: what happened to which object, then the fields.
pub(crate) fn block(seen: &Seen, resource: &Resource, now: Timestamp) -> String {
    let [old, new] = states(seen);
    let fields = match (seen.cause, old, new) {
        (Cause::First, _, _) | (_, None, None) => String::new(),
        (_, None, Some(new)) => created(&new),
        (_, Some(old), Some(new)) => updated(&old, &new),
        (_, Some(old), None) => deleted(&old),
    };
    let (style, op) = op(seen);
    let name = resource.group_resource();
    let (key, version) = (key(seen), version(seen));
    let how = how(seen);
    format!(
        "{FAINT}{now:.0}{FAINT:#}  {style}{op}{style:#}  {name} {STRONG}{key}{STRONG:#}  {FAINT}({version}{how}){FAINT:#}\n{fields}"
    )
}

/// One line of JSON.
pub(crate) fn line(seen: &Seen, resource: &Resource, now: Timestamp) -> String {
    let [old, new] = states(seen);
    let none = || json!({});
    let diff = match seen.cause {
        Cause::First => Vec::new(),
        _ => changes(&old.unwrap_or_else(none), &new.unwrap_or_else(none)),
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
    let object = seen.change.object();
    json!({
        "time": format!("{now:.3}"),
        "op": op(seen).1,
        "reason": seen.cause.as_str(),
        "resource": resource.group_resource().to_string(),
        "key": key(seen),
        "resourceVersion": object.map(|object| object.resource_version().as_str().to_owned()),
        "final": seen.change.is_final,
        "diff": diff,
        "object": object.map(|object| without_managed_fields(object.to_value())),
    })
    .to_string()
}

fn states(seen: &Seen) -> [Option<Value>; 2] {
    [&seen.change.old, &seen.change.new].map(|object| object.as_ref().map(Object::to_value))
}

fn key(seen: &Seen) -> String {
    seen.change.key().map(|key| key.to_string()).unwrap_or_default()
}

/// The version shown. Of an object that was found missing it is the last one known, not that of its end.
fn version(seen: &Seen) -> String {
    let version = seen
        .change
        .object()
        .map(Object::resource_version)
        .unwrap_or_default();
    match seen.change.is_final {
        true => format!("version {version}"),
        false => format!("last known version {version}"),
    }
}

/// How a change is known that the server did not tell of.
fn how(seen: &Seen) -> &'static str {
    match seen.cause {
        Cause::First | Cause::Watch | Cause::Relist(ListReason::First) => "",
        Cause::Relist(_) => ", found by relisting",
        Cause::KindGone => ", its kind is gone",
    }
}

fn op(seen: &Seen) -> (anstyle::Style, &'static str) {
    match (seen.cause, seen.change.op) {
        (Cause::First, _) => (FAINT, "existing"),
        (_, Op::Created) => (ADDED, "created"),
        (_, Op::Updated) => (CHANGED, "updated"),
        (_, Op::Deleted) => (DELETED, "deleted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skopos_object::{Change, GroupVersionKind};

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

    fn told(change: Change) -> Seen {
        let cause = Cause::Watch;
        Seen { change, cause }
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
        assert_eq!(plain(&told(Change::created(object(2, Some("nginx"), 7)))), expect);
    }

    #[test]
    fn updated_object_shows_old_and_new() {
        let seen = told(Change::updated(object(2, Some("nginx"), 7), object(3, None, 8)));
        let expect = "\
1970-01-01T00:00:00Z  updated  applications.myapps.example.com default/web  (version 8)
    - spec.image: \"nginx\"
    ~ spec.replicas: 2 -> 3
";
        assert_eq!(plain(&seen), expect);
    }

    #[test]
    fn bookkeeping_alone_is_named_as_such() {
        let seen = told(Change::updated(object(2, None, 7), object(2, None, 8)));
        assert!(plain(&seen).ends_with("    (only bookkeeping fields changed)\n"));
    }

    #[test]
    fn deleted_object_shows_what_it_was() {
        let text = plain(&told(Change::deleted(object(2, None, 9))));
        assert!(text.starts_with("1970-01-01T00:00:00Z  deleted  "), "{text}");
        assert!(text.contains("    - spec.replicas: 2\n"), "{text}");
    }

    #[test]
    fn deletion_found_by_a_relist_is_told_as_such() {
        let seen = Seen {
            change: Change::missing(object(2, None, 9)),
            cause: Cause::Relist(ListReason::Expired),
        };
        let text = plain(&seen);
        assert!(
            text.contains("default/web  (last known version 9, found by relisting)\n"),
            "{text}"
        );
        let line = line(&seen, &resource(), Timestamp::UNIX_EPOCH);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["op"], &value["reason"]),
            (&json!("deleted"), &json!("expired"))
        );
        assert_eq!(value["final"], false);
        assert_eq!(value["object"]["spec"]["replicas"], 2);
    }

    #[test]
    fn machines_get_one_line_with_everything() {
        let seen = told(Change::updated(object(2, None, 7), object(3, None, 8)));
        let line = line(&seen, &resource(), Timestamp::UNIX_EPOCH);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(value["op"], "updated");
        assert_eq!(value["reason"], "watch");
        assert_eq!(value["final"], true);
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
