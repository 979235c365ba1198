//! CustomResourceDefinitions: defaults, checks, warnings.
//!
//! Start at [`default_crd`], then [`validate_crd`]. Both work on the JSON of `apiextensions.k8s.io/v1`.
//!
//! Errors name fields the way kube-apiserver does, which is not always where the user wrote them: what all
//! versions have in common is reported at the top of the spec, so the schema of a CRD with one version is
//! `spec.validation.openAPIV3Schema`. Where kube-apiserver shows internal structures as the bad value, these
//! errors show the JSON that the user wrote.

mod approval;
mod conversion;
mod defaults;
mod deprecation;
mod field_path;
mod names;
mod options;
mod props;
mod rules;
mod schema;
mod spec;
mod structural;
mod version;
mod view;

use serde_json::{Map, Value, json};
use skopos_object::validation::dns1123_subdomain;
use skopos_object::{FieldError, FieldPath};

pub use self::deprecation::deprecation;

use self::field_path::Notation;
use self::options::Options;
use self::props::Props;
use self::view::Crd;
use crate::format::Format;
use crate::metadata::{NameCheck, validate_object_meta, validate_object_meta_update};
use crate::structural::{Structural, Type};

/// Fills in what a CRD may leave out: singular, list kind, conversion, webhook port, stored versions.
pub fn default_crd(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        default_names(names);
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
    if let Some(service) = conversion
        .pointer_mut("/webhook/clientConfig/service")
        .and_then(Value::as_object_mut)
    {
        let port = service.entry("port").or_insert(Value::Null);
        if port.is_null() {
            *port = 443.into();
        }
    }
    let storage = storage_version(spec).map(str::to_owned);
    let stored = crd
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    if let (false, Some(storage), Some(crd)) = (stored, storage, crd.as_object_mut()) {
        let status = crd.entry("status").or_insert_with(|| Value::Object(Map::new()));
        if let Some(status) = status.as_object_mut() {
            status.insert("storedVersions".to_owned(), json!([storage]));
        }
    }
}

fn default_names(names: &mut Map<String, Value>) {
    let text = |names: &Map<String, Value>, key: &str| -> String {
        names
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let kind = text(names, "kind");
    if text(names, "singular").is_empty() && !kind.is_empty() {
        names.insert("singular".to_owned(), kind.to_lowercase().into());
    }
    if text(names, "listKind").is_empty() && !kind.is_empty() {
        names.insert("listKind".to_owned(), format!("{kind}List").into());
    }
}

fn storage_version(spec: &Map<String, Value>) -> Option<&str> {
    let versions = spec.get("versions")?.as_array()?;
    let storage = versions
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))?;
    storage.get("name")?.as_str()
}

/// Sets what a writer of a CRD does not decide: its status and its generation.
///
/// A new CRD starts with a status that only names its storage version. An update keeps the old status, remembers
/// a storage version that is new, and counts a change of the spec.
pub fn prepare_crd(new: &mut Value, old: Option<&Value>) {
    let storage = new
        .get("spec")
        .and_then(Value::as_object)
        .and_then(storage_version)
        .map(str::to_owned);
    let generation = match old {
        None => 1,
        Some(old) => {
            let before = old
                .pointer("/metadata/generation")
                .and_then(Value::as_i64)
                .unwrap_or(0);
            before + i64::from(old.get("spec") != new.get("spec"))
        }
    };
    let Some(crd) = new.as_object_mut() else { return };
    if let Some(metadata) = crd.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".to_owned(), generation.into());
    }
    let mut status = old
        .and_then(|old| old.get("status"))
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let (Some(storage), Some(status)) = (storage, status.as_object_mut()) {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Some(stored) = stored
            .as_array_mut()
            .filter(|stored| !stored.contains(&json!(storage)))
        {
            stored.push(storage.into());
        }
    }
    crd.insert("status".to_owned(), status);
}

/// Checks a CRD, already defaulted. With `old` it is an update.
///
/// An update is not blamed for kinds of errors that the old CRD already had: non-structural schemas, unpruned
/// defaults, missing schemas, unknown types and the like stay possible where they are.
///
/// # Examples
/// ```
/// use skopos_schema::crd::{default_crd, validate_crd};
/// let mut crd = serde_json::json!({
///     "metadata": {"name": "foos.example.com"},
///     "spec": {
///         "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
///         "versions": [{"name": "v1", "served": true, "storage": true,
///                       "schema": {"openAPIV3Schema": {"properties": {}}}}],
///     },
/// });
/// default_crd(&mut crd);
/// let errors = validate_crd(&crd, None);
/// assert_eq!(
///     errors[0].to_string(),
///     "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root",
/// );
/// ```
#[must_use]
pub fn validate_crd(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let path = FieldPath::root().child("spec");
    let crd = Crd::new(new);
    if crd.too_deep() {
        return vec![FieldError::invalid(
            &path.child("versions"),
            "",
            "schema nests too deeply",
        )];
    }
    let old_crd = old.map(Crd::new).filter(|old| !old.too_deep());
    let options = old_crd
        .as_ref()
        .map_or_else(Options::create, |old| Options::update(&crd, old));
    let mut errors = check_metadata(&crd, old);
    spec::check(&crd, &options, &path, &mut errors);
    if let Some(old) = &old_crd {
        spec::check_update(&crd, old, &options, &path, &mut errors);
    }
    let status = FieldPath::root().child("status");
    names::check(
        &crd.status("acceptedNames"),
        &status.child("acceptedNames"),
        &mut errors,
    );
    spec::check_stored_versions(&crd, &status.child("storedVersions"), &mut errors);
    approval::check(&crd, old_crd.as_ref(), &mut errors);
    if crd.preserve_unknown_fields() && !old_crd.as_ref().is_some_and(Crd::preserve_unknown_fields) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(
            &path.child("preserveUnknownFields"),
            true,
            why,
        ));
    }
    errors
}

/// A schema of a CRD.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionSchema {
    /// The version that it is of; the first one if all share it.
    pub version: String,
    /// The place that errors name.
    pub path: FieldPath,
    /// The schema itself.
    pub schema: Value,
}

/// The schemas of a CRD: the one that all versions share, or each version's own.
#[must_use]
pub fn schemas(crd: &Value) -> Vec<VersionSchema> {
    let spec = FieldPath::root().child("spec");
    let crd = Crd::new(crd);
    let versions = crd.versions.iter().enumerate().map(|(index, version)| {
        let at = spec.child("versions").index(index).child("schema");
        (at, Some(version), version.schema)
    });
    let shared = (spec.child("validation"), crd.versions.first(), crd.validation);
    let found = std::iter::once(shared).chain(versions);
    found
        .filter_map(|(at, version, validation)| {
            Some(VersionSchema {
                version: version?.raw.text("name").to_owned(),
                path: at.child("openAPIV3Schema"),
                schema: Value::Object(validation?.schema?.0.clone()),
            })
        })
        .collect()
}

/// The field that a rule's `fieldPath` names, below the rule's own: `.a['b']` is `a.b`, or `a[b]` in a map.
/// Nothing if there is no such field.
#[must_use]
pub fn blamed_field(schema: &Structural, field_path: &str) -> Option<String> {
    let found = field_path::find(field_path, schema, Notation::DotsAndBrackets).ok()?;
    Some(found.path)
}

/// Checks an update of a CRD's status.
#[must_use]
pub fn validate_crd_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_metadata(&Crd::new(new), Some(old));
    let path = FieldPath::root().child("status").child("acceptedNames");
    names::check(&Crd::new(new).status("acceptedNames"), &path, &mut errors);
    errors
}

fn check_metadata(crd: &Crd<'_>, old: Option<&Value>) -> Vec<FieldError> {
    let path = FieldPath::root().child("metadata");
    let metadata = crd.metadata();
    if let Some(old) = old {
        return validate_object_meta_update(metadata, old.get("metadata").unwrap_or(&Value::Null), &path);
    }
    let wanted = format!("{}.{}", crd.names().text("plural"), crd.spec.text("group"));
    let check_name = |name: &str, check: NameCheck| {
        let mut complaints = dns1123_subdomain(&check.completed(name));
        if name != wanted {
            complaints.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        complaints
    };
    validate_object_meta(metadata, false, check_name, &path)
}

/// Warnings on a CRD: formats that nobody checks. With `old`, only those that are new.
#[must_use]
pub fn crd_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: Vec<String> = old.map(unrecognized_formats).unwrap_or_default();
    let mut formats = unrecognized_formats(new);
    formats.retain(|format| !known.contains(format));
    formats
        .iter()
        .map(|format| format!("unrecognized format {}", skopos_object::quote(format)))
        .collect()
}

fn unrecognized_formats(crd: &Value) -> Vec<String> {
    let crd = Crd::new(crd);
    let mut found = Vec::new();
    if crd.too_deep() {
        return found;
    }
    for schema in crd.schemas() {
        schema.any(&mut |props: Props<'_>| {
            let format = props.text("format");
            let declared = match props.text("type") {
                "" => Some(None),
                name => Type::parse(name).map(Some),
            };
            let recognized = declared.is_some_and(|declared| Format::parse(format, declared).is_some());
            if !format.is_empty() && !recognized {
                found.push(format.to_owned());
            }
            false
        });
    }
    found
}
