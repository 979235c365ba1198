//! Replays what kube-apiserver 1.36 said to CustomResourceDefinitions.
//!
//! Each file in `recorded_crds/` holds cases of one subject: the CRD, for updates the stored one, and the errors
//! that the server answered, in its order where it has one. Where the server shows its internal structures as the
//! bad value, the recording has the user's JSON instead.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use skopos_schema::crd::{crd_warnings, default_crd, prepare_crd, validate_crd};

fn check(case: &Value) -> Option<String> {
    let mut crd = case["crd"].clone();
    let old = case.get("old");
    default_crd(&mut crd);
    prepare_crd(&mut crd, old);
    let mut errors: Vec<String> = validate_crd(&crd, old).iter().map(ToString::to_string).collect();
    errors.sort();
    errors.dedup();
    let mut expected: Vec<String> = case["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error.as_str().unwrap().to_owned())
        .collect();
    expected.sort();
    if errors != expected {
        return Some(format!(
            "{}:\n  said     {errors:#?}\n  expected {expected:#?}",
            case["name"]
        ));
    }
    let defaulted = case.get("defaulted")?;
    let same = defaulted["spec"]["names"] == crd["spec"]["names"]
        && defaulted["spec"]["conversion"] == crd["spec"]["conversion"]
        && defaulted["storedVersions"] == crd["status"]["storedVersions"];
    (!same).then(|| format!("{}: defaulted to {crd}, expected {defaulted}", case["name"]))
}

fn replay(cases: &str) {
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(!cases.is_empty());
    let failures: Vec<String> = cases.iter().filter_map(check).collect();
    assert!(
        failures.is_empty(),
        "{} of {} differ:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn names_groups_and_versions_are_checked() {
    replay(include_str!("recorded_crds/spec.json"));
}

#[test]
fn columns_scale_paths_and_selectable_fields_are_checked() {
    replay(include_str!("recorded_crds/columns.json"));
}

#[test]
fn conversion_is_checked() {
    replay(include_str!("recorded_crds/conversion.json"));
}

#[test]
fn schemas_must_be_structural() {
    replay(include_str!("recorded_crds/schema.json"));
}

#[test]
fn defaults_in_schemas_must_be_valid() {
    replay(include_str!("recorded_crds/defaults.json"));
}

#[test]
fn rules_are_checked_in_form() {
    replay(include_str!("recorded_crds/rules.json"));
}

#[test]
fn updates_keep_what_is_fixed() {
    replay(include_str!("recorded_crds/updates.json"));
}

#[test]
fn warns_of_formats_that_nobody_checks_once() {
    let crd = |format: &str| {
        serde_json::json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"a": {"type": "string", "format": format}},
        }}}]}})
    };
    assert_eq!(
        crd_warnings(&crd("nonsense"), None),
        ["unrecognized format \"nonsense\""]
    );
    assert!(crd_warnings(&crd("date-time"), None).is_empty());
    assert!(crd_warnings(&crd("nonsense"), Some(&crd("nonsense"))).is_empty());
}
