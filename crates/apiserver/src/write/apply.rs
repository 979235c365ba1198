//! Server-side apply: PATCH with a configuration, which creates the object if it is not there.

use serde_json::Value;
use skopos_object::{Status, yaml};

use super::commit::storage_error;
use super::ownership::{self, Author};
use super::update::{self, Change, modify};
use super::{ObjectExt as _, create, prepare};
use crate::call::{Answer, Call};
use crate::options::{FieldValidation, WriteOptions};
use crate::present;
use crate::registry::Source;
use crate::state::Shared;

/// A configuration as the request carries it.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) object: Value,
    /// What strict decoding says of it.
    complaints: Vec<String>,
}

impl Configuration {
    pub(super) fn read(call: &Call) -> Result<Configuration, Status> {
        let refused = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        let decoded = yaml::decode(&call.body)
            .map_err(|error| refused(format!("error converting YAML to JSON: {error}")))?;
        let complaints = decoded.strict_errors();
        let object = match decoded.value {
            object @ Value::Object(_) => object,
            Value::Null => Value::Object(serde_json::Map::new()),
            other => {
                let found = present::go_name(&other);
                return Err(refused(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        Ok(Configuration { object, complaints })
    }

    /// Says what is given twice, the way the client asked for.
    pub(crate) fn check(&self, call: &Call, validation: FieldValidation) -> Result<(), Status> {
        if self.complaints.is_empty() || validation == FieldValidation::Ignore {
            return Ok(());
        }
        let why = self.complaints.join("\n");
        match validation {
            FieldValidation::Strict => Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {why}"
            ))),
            FieldValidation::Warn | FieldValidation::Ignore => {
                // The first line only announces the others.
                why.lines().skip(1).for_each(|line| call.warn(line.trim()));
                Ok(())
            }
        }
    }
}

/// Applies a configuration to the object or its status, through the whole pipeline.
pub(super) async fn apply(
    shared: &Shared,
    call: &Call,
    configuration: &Configuration,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let merge = |live: Option<&Value>| {
        let merged = merged(call, live, configuration, options)?;
        update::check_name(call, &merged)?;
        Ok(merged)
    };
    let key = call.key();
    loop {
        if shared.store.get(&call.resource.space, &key).is_some() {
            let change = |old: &Value| merge(Some(old));
            match modify(shared, call, options, Change::Owned(&change)).await {
                // Deleted in between: it is to be created then.
                Err(status) if status.code == 404 => {}
                outcome => return outcome.map(|entry| Answer::Stored { code: 200, entry }),
            }
        }
        if !call.target.subresource.is_empty() {
            return Err(call.not_found());
        }
        let mut object = merge(None)?;
        // Of no meaning to an object that is not there, and not held against it.
        object.remove_meta("resourceVersion");
        let uid = object.uid();
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(
                &call.resource.group_resource(),
                &call.target.name,
                &why,
            ));
        }
        if let Some(entry) = create::insert_once(shared, call, object, options.dry_run).await? {
            return Ok(Answer::Stored { code: 201, entry });
        }
    }
}

/// The object as the configuration makes it, with defaults and owners.
fn merged(
    call: &Call,
    live: Option<&Value>,
    configuration: &Configuration,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let author = Author::of(call, options);
    let mut object = ownership::apply(&call.resource, live, &configuration.object, author, options.force)?;
    configuration.check(call, options.field_validation)?;
    match &call.resource.source {
        Source::BuiltIn(kind) => {
            skopos_builtin::decode(kind, &mut object)
                .map_err(|why| unconvertible(call, configuration, &why))?;
            prepare::default(&call.resource, &mut object);
        }
        // Unlike those of other writes, nulls count, except in the metadata, which is typed.
        Source::Custom(custom) => {
            skopos_schema::default(&custom.schema, &mut object);
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|_, value| !value.is_null());
            }
        }
    }
    Ok(object)
}

/// The merged object is not one of its kind, which the types of its fields did not tell.
fn unconvertible(call: &Call, configuration: &Configuration, why: &str) -> Status {
    let (group, version, kind) = (&call.resource.group, &call.resource.version, &call.resource.kind);
    let applied = &configuration.object;
    let gvk = format!("{group}/{version}, Kind={kind}");
    storage_error(format!(
        "failed to convert new object ({}/{}; {gvk}) to proper version: unable to convert unstructured object to {gvk}: error decoding from json: {why}",
        applied.namespace(),
        applied.name()
    ))
}
