//! What is said to whoever uses an old version.

use serde_json::Value;
use skopos_object::compare_versions;

/// The warning to users of a deprecated version of a CRD: its own words, or which version to use instead.
#[must_use]
pub fn deprecation(crd: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let name = text(&version["name"]);
    let hint = match newer(spec, &name) {
        Some(best) => format!("; use {group}/{best} {kind}"),
        None => String::new(),
    };
    Some(format!("{group}/{name} {kind} is deprecated{hint}"))
}

/// The newest served version after this one that is not deprecated too.
fn newer<'v>(spec: &'v Value, name: &str) -> Option<&'v str> {
    let versions = spec["versions"].as_array()?.iter();
    versions
        .filter(|one| one["served"] == true && one["deprecated"] != true)
        .filter_map(|one| one["name"].as_str())
        .filter(|other| compare_versions(name, other).is_lt())
        .max_by(|a, b| compare_versions(a, b))
}
