//! The `/scale` subresource: replicas of any resource through one small kind.

use serde_json::{Map, Value, json};
use skopos_object::Status;
use skopos_schema::{Replicas, Scale, ScalePathError};

use crate::call::{Answer, Call};
use crate::options::WriteOptions;
use crate::present::{self, Types};
use crate::registry::Resource;
use crate::state::Shared;
use crate::versions;
use crate::write::{Change, ObjectExt as _, Patch, modify};

pub(crate) fn get(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let entry = shared
        .store
        .get(&call.resource.space, &call.key())
        .ok_or_else(|| call.not_found())?;
    let object = versions::from_entry(&call.resource, &entry)?;
    Ok(Answer::Object {
        code: 200,
        value: scale_of(&call.resource, &object)?,
    })
}

pub(crate) async fn update(shared: &Shared, call: &Call, options: &WriteOptions) -> Result<Answer, Status> {
    let wanted = decode(call)?;
    let name = wanted.name();
    if name != call.target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    write(shared, call, options, &|_| Ok(wanted.clone())).await
}

/// A scale is a built-in kind, whatever it scales: it has a protobuf form and may leave out what it is.
fn decode(call: &Call) -> Result<Value, Status> {
    let wanted = present::decode_body(&call.headers, &call.body, "Scale", Types::Optional)?.value;
    let text = |field: &str| wanted.get(field).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !["", "Scale"].contains(&kind) || !["", "autoscaling/v1"].contains(&api_version) {
        let version = api_version.rsplit('/').next().unwrap_or("");
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a Scale: it is no autoscaling/v1 Scale"
        )));
    }
    Ok(wanted)
}

pub(crate) async fn patch(
    shared: &Shared,
    call: &Call,
    patch: &Patch,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    write(shared, call, options, &|scale| patch.apply(call, scale)).await
}

/// Changes the replicas of the object to what `change` makes of its scale.
async fn write(
    shared: &Shared,
    call: &Call,
    options: &WriteOptions,
    change: &(dyn Fn(&Value) -> Result<Value, Status> + Sync),
) -> Result<Answer, Status> {
    let apply = |old: &Value| {
        let scale = change(&scale_of(&call.resource, old)?)?;
        let replicas = scale
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let mut new = old.clone();
        paths_of(&call.resource)?
            .set_replicas(&mut new, replicas)
            .map_err(|error| Status::internal(error.to_string()))?;
        if !scale.meta_str("resourceVersion").is_empty() {
            let version = scale.meta_str("resourceVersion").to_owned();
            new.set_meta("resourceVersion", version);
        }
        Ok(new)
    };
    let entry = modify(shared, call, options.dry_run, Change::Apply(&apply)).await?;
    let object = versions::from_entry(&call.resource, &entry)?;
    Ok(Answer::Object {
        code: 200,
        value: scale_of(&call.resource, &object)?,
    })
}

/// Built-in kinds keep their replicas where most custom resources do.
fn paths_of(resource: &Resource) -> Result<Scale, Status> {
    let built_in = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let scale = match resource.custom() {
        Some(custom) => custom.scale.clone(),
        None => Scale::from_json(&built_in),
    };
    scale.ok_or_else(Status::generic_not_found)
}

fn scale_of(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let paths = paths_of(resource)?;
    let failed = |error: ScalePathError| Status::internal(error.to_string());
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.meta(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut spec = Map::new();
    match paths.replicas(Replicas::Spec, object).map_err(failed)? {
        // A typed scale leaves out what is zero.
        Some(0) => {}
        Some(replicas) => {
            spec.insert("replicas".into(), replicas.into());
        }
        None if resource.custom().is_some() => {
            let path = paths.replicas_path(Replicas::Spec);
            return Err(Status::internal(format!(
                "the spec replicas field {path:?} does not exist"
            )));
        }
        None => {}
    }
    let replicas = paths
        .replicas(Replicas::Status, object)
        .map_err(failed)?
        .unwrap_or(0);
    let mut status = json!({"replicas": replicas});
    let selector = match resource.custom() {
        Some(_) => paths.selector(object).map_err(failed)?.map(str::to_owned),
        None => built_in_selector(object),
    };
    if let Some(selector) = selector {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status,
    }))
}

fn built_in_selector(object: &Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    let structured = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let selector = if structured {
        selector.clone()
    } else {
        json!({"matchLabels": selector})
    };
    skopos_object::LabelSelector::from_match(&selector)
        .ok()
        .map(|parsed| parsed.to_string())
}
