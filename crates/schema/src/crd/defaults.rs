//! Checks of the defaults inside a schema.

use serde_json::{Value, json};
use skopos_object::{FieldError, FieldErrors, FieldPath};

use super::props::Props;
use crate::embedded::{coerce_embedded, validate_embedded};
use crate::metadata::Invalid;
use crate::prune::{Root, prune};
use crate::structural::Structural;
use crate::validate::validate_default;

/// Complaints about defaults that the schema itself would not accept.
pub(super) fn errors(schema: &Structural, path: &FieldPath, pruned: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.below.defaults {
        let walk = Walk {
            resource: schema,
            steps: Vec::new(),
            inside_meta: false,
            pruned,
        };
        walk.node(schema, true, path, &mut errors);
    }
    errors
}

/// Whether a stored schema has defaults with unknown fields, so that an update may keep them.
pub(super) fn has_unpruned(schema: Props<'_>) -> bool {
    let Ok(schema) = Structural::from_json(&Value::Object(schema.0.clone())) else {
        return false;
    };
    errors(&schema, &FieldPath::root(), true)
        .iter()
        .any(|error| error.detail == UNKNOWN_FIELDS)
}

const UNKNOWN_FIELDS: &str = "must not have unknown fields";

/// A step from a resource to the node whose default is checked.
#[derive(Clone)]
enum Step<'s> {
    Field(&'s str),
    Item,
}

/// Where the walk stands, relative to the innermost resource around it.
#[derive(Clone)]
struct Walk<'s> {
    resource: &'s Structural,
    steps: Vec<Step<'s>>,
    inside_meta: bool,
    pruned: bool,
}

impl<'s> Walk<'s> {
    fn node(mut self, schema: &'s Structural, root: bool, path: &FieldPath, errors: &mut Vec<FieldError>) {
        if !schema.below.defaults {
            return;
        }
        let resource = root || schema.embedded;
        if resource {
            self = Walk {
                resource: schema,
                steps: Vec::new(),
                inside_meta: false,
                ..self
            };
        }
        if let Some(default) = &schema.default {
            let at = path.child("default");
            match self.inside_meta {
                true => self.metadata_default(schema, default, &at, errors),
                false => self.plain_default(schema, resource, default, &at, errors),
            }
        }
        if let Some(item) = schema.items() {
            self.below(Step::Item)
                .node(item, false, &path.child("items"), errors);
        }
        for (name, property) in schema.properties() {
            let mut inner = self.below(Step::Field(name));
            inner.inside_meta |= resource && matches!(name, "metadata" | "apiVersion" | "kind");
            inner.node(property, false, &path.child("properties").key(name), errors);
        }
    }

    fn below(&self, step: Step<'s>) -> Walk<'s> {
        let mut inner = self.clone();
        inner.steps.push(step);
        inner
    }

    fn plain_default(
        &self,
        schema: &Structural,
        resource: bool,
        default: &Value,
        path: &FieldPath,
        errors: &mut Vec<FieldError>,
    ) {
        let root = if resource { Root::Resource } else { Root::Plain };
        let mut value = default.clone();
        if self.pruned {
            prune(schema, &mut value, root);
            if value != *default {
                errors.push(FieldError::invalid(path, default.clone(), UNKNOWN_FIELDS));
                value = default.clone();
            }
        }
        if let Err(mut error) = coerce_embedded(schema, &mut value, root, Invalid::Reject) {
            error.field = path.child(&error.field).to_string();
            return errors.push(error);
        }
        let complaints = validate_embedded(schema, path, &value, root);
        if !complaints.is_empty() {
            return errors.extend(complaints);
        }
        errors.extend(validate_default(schema, path, &value));
    }

    /// A default inside metadata is checked as part of a whole object around it.
    fn metadata_default(
        &self,
        schema: &Structural,
        default: &Value,
        path: &FieldPath,
        errors: &mut Vec<FieldError>,
    ) {
        let mut object = self.surround(default);
        let complain = |why: String| {
            FieldError::invalid(
                path,
                default.clone(),
                format!("must result in valid metadata: {why}"),
            )
        };
        if let Err(error) = coerce_embedded(self.resource, &mut object, Root::Resource, Invalid::Reject) {
            return errors.push(complain(error.to_string()));
        }
        let complaints = validate_embedded(self.resource, &FieldPath::root(), &object, Root::Resource);
        if !complaints.is_empty() {
            return errors.push(complain(FieldErrors(&complaints).to_string()));
        }
        errors.extend(validate_default(schema, path, default));
    }

    fn surround(&self, default: &Value) -> Value {
        let mut value = default.clone();
        for step in self.steps.iter().rev() {
            value = match step {
                Step::Field(name) => json!({ *name: value }),
                Step::Item => json!([value]),
            };
        }
        if let Some(map) = value.as_object_mut() {
            map.entry("kind").or_insert_with(|| "Validation".into());
            map.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        value
    }
}
