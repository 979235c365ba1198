//! Jobs: the selector that ties a job to its pods.

use serde_json::{Value, json};

/// Makes the selector from the job's uid and puts the labels on the template, unless the user does both.
pub(super) fn generate_selector(job: &mut Value) {
    let (Some(uid), Some(name)) = (job["metadata"]["uid"].as_str(), job["metadata"]["name"].as_str()) else {
        return;
    };
    if job["spec"]["manualSelector"] == true || uid.is_empty() {
        return;
    }
    let labels = [
        ("batch.kubernetes.io/controller-uid", uid.to_owned()),
        ("batch.kubernetes.io/job-name", name.to_owned()),
        ("controller-uid", uid.to_owned()),
        ("job-name", name.to_owned()),
    ];
    let uid = uid.to_owned();
    let metadata = &mut job["spec"]["template"]["metadata"];
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    for (key, value) in labels {
        if metadata["labels"].get(key).is_none() {
            metadata["labels"][key] = value.into();
        }
    }
    let selector = &mut job["spec"]["selector"];
    if !selector.is_object() {
        *selector = json!({});
    }
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = json!({});
    }
    selector["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid.into();
}

/// An update that leaves out the generated parts keeps them.
pub(super) fn keep_template(new: &mut Value, old: &Value) {
    super::or_copy(&mut new["spec"], &old["spec"], "selector");
    if let Value::Object(spec) = &mut new["spec"] {
        spec.retain(|_, value| !value.is_null());
    }
}
