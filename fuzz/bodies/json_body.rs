//! Request bodies: JSON and YAML are read without harm, and what is read can be written and read.

use skopos_object::{ManagedFields, Object, Status, json, raw_path, yaml};

pub(crate) fn run(data: &[u8]) {
    if let Ok(decoded) = json::decode(data) {
        let text = decoded.value.to_string();
        assert_eq!(
            json::decode(text.as_bytes()).expect("reads what it wrote").value,
            decoded.value
        );
        let _ = Status::parse(&decoded.value).map(|status| status.to_json());
        let yaml = yaml::encode(&decoded.value);
        let read = yaml::decode(yaml.as_bytes()).unwrap_or_else(|error| panic!("{error} in {yaml:?}"));
        assert_eq!(read.value, decoded.value, "{yaml:?}");
    } else if std::str::from_utf8(data).is_ok() {
        // Only numbers beyond all floats are refused by us alone, and depth.
        let theirs = serde_json::from_slice::<serde_json::Value>(data);
        assert!(
            theirs.is_err() || data.len() >= json::MAX_DEPTH,
            "refused what serde_json reads"
        );
    }
    if let Ok(documents) = yaml::documents(data) {
        for document in documents {
            let again = yaml::decode(yaml::encode(&document.value).as_bytes()).expect("reads what it wrote");
            assert_eq!(again.value, document.value);
        }
    }
    for managed_fields in [ManagedFields::Keep, ManagedFields::Drop] {
        if let Ok(object) = Object::parse_owned(data, managed_fields) {
            read_all(&object);
        }
    }
    let _ = raw_path(data, &["metadata", "labels", "0"]);
}

fn read_all(object: &Object) {
    let _ = (
        object.key(),
        object.group_version_kind(),
        object.resource_version(),
        object.generation(),
    );
    let _ = (
        object.labels().count(),
        object.finalizers().count(),
        object.owners().count(),
    );
    let _ = (object.get(&["spec"]), object.to_value());
}
