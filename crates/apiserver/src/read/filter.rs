//! Selectors applied to stored objects without parsing them whole.

use skopos_object::{FieldSelector, LabelSelector, Status, raw_path};
use skopos_store::Entry;

use crate::options::ListOptions;
use crate::registry::{Resource, Source};
use crate::versions;

/// The label and field selectors of a request, checked against what the resource supports.
#[derive(Debug)]
pub(crate) struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    /// `name` narrows the filter to one object, for watches on a single path.
    pub(crate) fn new(resource: &Resource, options: &ListOptions) -> Result<Filter, Status> {
        for requirement in options.fields.requirements() {
            check_supported(resource, &requirement.path)?;
        }
        Ok(Filter {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
        })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The name that the field selector pins, so that only one key need be read.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    pub(crate) fn matches(&self, resource: &Resource, entry: &Entry) -> bool {
        self.matches_labels(entry) && self.matches_fields(resource, entry)
    }

    fn matches_labels(&self, entry: &Entry) -> bool {
        if self.labels.is_everything() {
            return true;
        }
        let labels = raw_path(&entry.value, &["metadata", "labels"])
            .and_then(|raw| serde_json::from_slice::<serde_json::Value>(raw).ok())
            .unwrap_or_default();
        self.labels.matches_value(&labels)
    }

    fn matches_fields(&self, resource: &Resource, entry: &Entry) -> bool {
        self.fields.is_everything()
            || self
                .fields
                .matches(|label| Some(field_value(resource, entry, label)))
    }
}

fn check_supported(resource: &Resource, label: &str) -> Result<(), Status> {
    if label == "metadata.name" || (label == "metadata.namespace" && resource.namespaced) {
        return Ok(());
    }
    match &resource.source {
        Source::Custom(custom) => {
            if custom.selectable_fields.iter().any(|field| field.label == label) {
                return Ok(());
            }
            Err(Status::bad_request(format!("field label not supported: {label}")))
        }
        Source::BuiltIn(kind) => {
            if skopos_builtin::field_labels(kind).contains(&label) {
                return Ok(());
            }
            Err(Status::bad_request(skopos_builtin::field_label_error(
                kind, label,
            )))
        }
    }
}

/// The value of a field as field selectors see it; absent reads as empty.
fn field_value(resource: &Resource, entry: &Entry, label: &str) -> String {
    let (namespace, name) = entry.key.rsplit_once('/').unwrap_or(("", &entry.key));
    match label {
        "metadata.name" => return name.to_owned(),
        "metadata.namespace" => return namespace.to_owned(),
        _ => {}
    }
    let Ok(object) = versions::from_entry(resource, entry) else {
        return String::new();
    };
    match &resource.source {
        Source::Custom(custom) => {
            let field = custom.selectable_fields.iter().find(|field| field.label == label);
            field
                .map(|f| skopos_schema::selectable_value(&f.path, &object))
                .unwrap_or_default()
        }
        Source::BuiltIn(kind) => skopos_builtin::field_value(kind, &object, label).unwrap_or_default(),
    }
}
