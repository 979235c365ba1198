//! The `/scale` subresource: replicas of any resource through one small kind.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use skopos_object::{Reason, Status};
use skopos_schema::{
    Manager, Replicas, ReplicasPaths, Scale, ScalePathError, Target, entries_after_scale, scale_entries,
};

use crate::call::{Answer, Call};
use crate::options::WriteOptions;
use crate::present::{self, Types};
use crate::registry::Resource;
use crate::state::Shared;
use crate::versions;
use crate::write::{
    Change, Configuration, ObjectExt as _, Patch, check_uid, modify, no_object, refusal, rfc3339,
};

pub(crate) fn get(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let entry = shared
        .store
        .get(&call.resource.space, &call.key())
        .ok_or_else(|| call.not_found())?;
    let object = versions::from_entry(&call.resource, &entry)?;
    Ok(Answer::Object {
        code: 200,
        value: scale_of(&call.resource, &object, Missing::Refused)?,
    })
}

pub(crate) async fn update(shared: &Shared, call: &Call, options: &WriteOptions) -> Result<Answer, Status> {
    let wanted = decode(call)?;
    check_name(call, &wanted)?;
    write(shared, call, options, &|scale| {
        check_uid(call, &wanted, scale.uid())?;
        tracked(call, options, scale, wanted.clone()).map_err(|why| {
            Status::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: {why}"
            ))
        })
    })
    .await
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
    let change = |scale: &Value| {
        let new = patch.apply(call, scale)?;
        check_name(call, &new)?;
        let shown = in_go_order(&new);
        tracked(call, options, scale, new).map_err(|why| no_object(&shown, &why))
    };
    write(shared, call, options, &change).await
}

/// Applies a configuration of the scale, not of the object behind it.
pub(crate) async fn apply(
    shared: &Shared,
    call: &Call,
    configuration: &Configuration,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let change = |scale: &Value| {
        let applied = &configuration.object;
        let merge = |target: &Target<'_>, manager: &Manager<'_>| {
            skopos_schema::apply(target, Some(scale), applied, manager, options.force)
        };
        let merged = with_target(call, options, merge).map_err(refusal)?;
        check_convertible(call, scale, &merged, applied)?;
        configuration.check(call, options.field_validation)?;
        check_name(call, &merged)?;
        Ok(merged)
    };
    write(shared, call, options, &change).await
}

fn check_name(call: &Call, scale: &Value) -> Result<(), Status> {
    let (name, wanted) = (scale.name(), &call.target.name);
    if name == wanted {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({wanted})"
    )))
}

/// kube-apiserver cannot apply a change to the scale of a custom resource: it takes the scale for one.
fn check_convertible(call: &Call, live: &Value, merged: &Value, applied: &Value) -> Result<(), Status> {
    let same = live["spec"] == merged["spec"] && live["status"] == merged["status"];
    if call.resource.custom().is_none() || same {
        return Ok(());
    }
    let message = format!(
        "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
        applied.namespace(),
        applied.name()
    );
    Err(Status::failure(500, Reason::Unknown, message))
}

/// A scale as refusals show it: its metadata has the order of Go's structure.
fn in_go_order(scale: &Value) -> String {
    const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let member = |(name, value): (&str, &Value)| format!("{name:?}:{value}");
    let metadata = |metadata: &Map<String, Value>| {
        let first = METADATA
            .iter()
            .filter_map(|name| Some((*name, metadata.get(*name)?)));
        let rest = metadata
            .iter()
            .filter(|(name, _)| !METADATA.contains(&name.as_str()));
        let rest = rest.map(|(name, value)| (name.as_str(), value));
        format!(
            "{{{}}}",
            first.chain(rest).map(member).collect::<Vec<_>>().join(",")
        )
    };
    let fields = scale.as_object().into_iter().flatten();
    let members = fields.map(|(name, value)| match value {
        Value::Object(fields) if name == "metadata" => format!("{name:?}:{}", metadata(fields)),
        _ => member((name, value)),
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// A changed scale that says who owns its replicas.
///
/// # Errors
/// Why it is no scale.
fn tracked(call: &Call, options: &WriteOptions, live: &Value, mut new: Value) -> Result<Value, String> {
    if new.is_object() {
        new["apiVersion"] = "autoscaling/v1".into();
        new["kind"] = "Scale".into();
    }
    if let Some(Err(why)) = skopos_builtin::decode_type("autoscaling.v1.Scale", &mut new) {
        return Err(why);
    }
    with_target(call, options, |target, manager| {
        skopos_schema::track_update(target, Some(live), &mut new, manager);
    });
    Ok(new)
}

fn with_target<T>(
    call: &Call,
    options: &WriteOptions,
    work: impl FnOnce(&Target<'_>, &Manager<'_>) -> T,
) -> T {
    let target = Target {
        kind: "Scale",
        schema: skopos_schema::scale_schema(),
        versions: &[],
        convert: None,
        empty: None,
        reset: None,
    };
    let manager = Manager {
        name: &options.field_manager,
        api_version: "autoscaling/v1",
        subresource: "scale",
        time: &rfc3339(call.now),
    };
    work(&target, &manager)
}

/// Changes the replicas of the object to what `change` makes of its scale.
async fn write(
    shared: &Shared,
    call: &Call,
    options: &WriteOptions,
    change: &(dyn Fn(&Value) -> Result<Value, Status> + Sync),
) -> Result<Answer, Status> {
    let paths = replicas_paths(&call.resource);
    let paths: Vec<(&str, Vec<&str>)> = paths
        .iter()
        .map(|(version, path)| (version.as_str(), path.iter().map(String::as_str).collect()))
        .collect();
    let paths: Vec<(&str, &[&str])> = paths
        .iter()
        .map(|(version, path)| (*version, path.as_slice()))
        .collect();
    let rescale = |old: &Value| {
        let mut live = scale_of(&call.resource, old, Missing::Zero)?;
        if let Some(entries) = scale_entries(old.meta("managedFields"), &paths) {
            live.set_meta("managedFields", entries);
        }
        let scale = change(&live)?;
        rescaled(call, old, &scale, &paths)
    };
    let entry = modify(shared, call, options, Change::Scaled(&rescale)).await?;
    let object = versions::from_entry(&call.resource, &entry)?;
    Ok(Answer::Object {
        code: 200,
        value: scale_of(&call.resource, &object, Missing::Refused)?,
    })
}

/// The object with the replicas of `scale`, and with what its owners say of them.
fn rescaled(call: &Call, old: &Value, scale: &Value, paths: &ReplicasPaths<'_>) -> Result<Value, Status> {
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
    let api_version = call.resource.api_version();
    match entries_after_scale(
        old.meta("managedFields"),
        scale.meta("managedFields"),
        &api_version,
        paths,
    ) {
        Some(entries) => new.set_meta("managedFields", entries),
        None => new.remove_meta("managedFields"),
    }
    Ok(new)
}

fn replicas_paths(resource: &Resource) -> Arc<Vec<(String, Vec<String>)>> {
    match resource.custom() {
        Some(custom) => Arc::clone(&custom.replicas_paths),
        None => {
            let path = ["spec", "replicas"].map(str::to_owned);
            Arc::new(vec![(resource.api_version(), path.to_vec())])
        }
    }
}

/// What replicas that are not set mean: a scale can be written to, but not shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Zero,
    Refused,
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

fn scale_of(resource: &Resource, object: &Value, missing: Missing) -> Result<Value, Status> {
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
        None if resource.custom().is_some() && missing == Missing::Refused => {
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
