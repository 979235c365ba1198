//! Replays what kube-apiserver 1.36 did with applied configurations and updates of a custom resource.
//!
//! Each line of `apply/*.jsonl` is one request: the live object before it, what was sent, and the object or the
//! error that came back; `previous` is the object that the last request of the scenario left. Objects are compared with their managedFields and the times in them, but without what
//! only a server sets. The CRD serves the same schema, `apply/schema.json`, as v1 and
//! v2, and after a change of list and map types `apply/schema_changed.json`.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json as value};
use skopos_object::{FieldPath, GroupKind, Status, json, merge_patch};
use skopos_schema::{
    ApplyError, FieldSet, Manager, Root, Structural, Target, apply, default, entries_after_scale, keep_times,
    prune, prune_nulls, scale_entries, scale_schema, track_update, validate, validate_list_types,
};

const GROUP: &str = "ssa.skopos.test";

fn schema(text: &str) -> Structural {
    Structural::from_json(&serde_json::from_str(text).unwrap()).unwrap()
}

/// Does to an object what the storage strategy of custom resources does before it is stored.
fn finish(schema: &Structural, object: &mut Value, live: Option<&Value>, subresource: &str) {
    if subresource == "status" {
        let live = live.unwrap();
        let entries = object["metadata"]["managedFields"].take();
        object["spec"] = live["spec"].clone();
        object["metadata"] = live["metadata"].clone();
        object["metadata"]["managedFields"] = entries;
    } else {
        match live.and_then(|live| live.get("status")) {
            Some(status) => object["status"] = status.clone(),
            None => drop(object.as_object_mut().unwrap().remove("status")),
        }
    }
    prune(schema, object, Root::Resource);
    default(schema, object);
    if let Some(live) = live {
        keep_times(live, object);
    }
}

fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
        metadata.remove(name);
    }
    tidy_metadata(&mut object);
    object
}

/// Metadata is decoded and encoded by every write, which drops what is empty.
fn tidy_metadata(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|_, value| !value.is_null() && *value != value!({}) && *value != value!([]));
}

fn error_json(error: &ApplyError) -> Value {
    let (code, causes) = match error {
        ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: &skopos_schema::Conflict| value!({"reason": "FieldManagerConflict", "message": conflict.message(), "field": conflict.field});
            (409, conflicts.iter().map(cause).collect())
        }
        ApplyError::BadRequest(_) => (400, Value::Null),
        ApplyError::Invalid(_) => (500, Value::Null),
    };
    value!({"code": code, "message": error.to_string(), "causes": causes})
}

/// The refusal of an object that is not valid after the merge.
fn invalid(schema: &Structural, object: &Value, live: Option<&Value>) -> Result<(), Value> {
    let mut errors = validate(schema, &FieldPath::root(), object, live);
    errors.extend(validate_list_types(schema, object, live));
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: GROUP.to_owned(),
        kind: "Thing".to_owned(),
    };
    let status = Status::invalid(&kind, object["metadata"]["name"].as_str().unwrap(), errors).to_json();
    Err(value!({"code": 422, "message": status["message"], "causes": status["details"]["causes"]}))
}

/// The answer of the engine: an object or an error.
fn answer(schema: &Structural, case: &Value) -> Result<Value, Value> {
    let text = |name: &str| case[name].as_str().unwrap_or_default();
    let (v1, v2) = (format!("{GROUP}/v1"), format!("{GROUP}/v2"));
    let reset = match text("subresource") {
        "status" => FieldSet::of_paths(&[&["metadata"], &["spec"]]),
        _ => FieldSet::of_paths(&[&["status"]]),
    };
    let versions = [(v1.as_str(), schema), (v2.as_str(), schema)];
    let target = Target {
        kind: "Thing",
        schema,
        versions: &versions,
        convert: None,
        empty: None,
        reset: Some(&reset),
    };
    let manager = Manager {
        name: text("manager"),
        api_version: text("version"),
        subresource: text("subresource"),
        time: text("time"),
    };
    let live = case.get("live");
    if manager.subresource == "scale" {
        return scaled(live.unwrap(), case, &manager);
    }
    if text("op") == "apply" {
        let force = case["force"] == true;
        let mut object =
            apply(&target, live, &case["applied"], &manager, force).map_err(|error| error_json(&error))?;
        finish(schema, &mut object, live, manager.subresource);
        invalid(schema, &object, live)?;
        // Reading what was written leaves nulls out.
        prune_nulls(schema, &mut object);
        return Ok(comparable(&object));
    }
    let mut new = case["sent"].clone();
    if let (Some(patch), Some(live)) = (case.get("patch"), live) {
        new = live.clone();
        merge_patch(&mut new, patch).unwrap();
    }
    tidy_metadata(&mut new);
    prune(schema, &mut new, Root::Resource);
    prune_nulls(schema, &mut new);
    default(schema, &mut new);
    track_update(&target, live, &mut new, &manager);
    finish(schema, &mut new, live, manager.subresource);
    Ok(comparable(&new))
}

/// The answer to a write of the scale of `parent`: the parent after it.
fn scaled(parent: &Value, case: &Value, manager: &Manager<'_>) -> Result<Value, Value> {
    let (v1, v2) = (format!("{GROUP}/v1"), format!("{GROUP}/v2"));
    let path: &[&str] = &["spec", "replicas"];
    let paths = [(v1.as_str(), path), (v2.as_str(), path)];
    let entries = &parent["metadata"]["managedFields"];
    let mut scale = value!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": parent["metadata"]["name"], "namespace": parent["metadata"]["namespace"], "uid": "u"},
        "spec": {"replicas": parent["spec"]["replicas"]},
        "status": {"replicas": 0},
    });
    scale["metadata"]["managedFields"] = scale_entries(Some(entries), &paths).unwrap_or_default();
    let target = Target {
        kind: "Scale",
        schema: scale_schema(),
        versions: &[],
        convert: None,
        empty: None,
        reset: None,
    };
    let scale_manager = Manager {
        api_version: "autoscaling/v1",
        ..*manager
    };
    let written = if case["op"] == "apply" {
        apply(
            &target,
            Some(&scale),
            &case["applied"],
            &scale_manager,
            case["force"] == true,
        )
        .map_err(|error| error_json(&error))?
    } else {
        let mut new = scale.clone();
        merge_patch(&mut new, &case["patch"]).unwrap();
        track_update(&target, Some(&scale), &mut new, &scale_manager);
        new
    };
    let after = entries_after_scale(
        Some(entries),
        written["metadata"].get("managedFields"),
        manager.api_version,
        &paths,
    );
    let mut parent = parent.clone();
    parent["spec"]["replicas"] = written["spec"]["replicas"].clone();
    parent["metadata"]["managedFields"] = after.unwrap_or_default();
    Ok(comparable(&parent))
}

/// What differs from the server's answer, if anything does.
fn check(schema: &Structural, case: &Value) -> Option<String> {
    let expected = match case.get("error") {
        Some(error) => Err(sorted_causes(error)),
        None => Ok(comparable(&case["expect"])),
    };
    let found = answer(schema, case).map_err(|error| sorted_causes(&error));
    let show = |answer: &Result<Value, Value>| match answer {
        Ok(object) => object.to_string(),
        Err(error) => format!("error {error}"),
    };
    (found != expected).then(|| {
        let (scenario, op, manager) = (&case["scenario"], &case["op"], &case["manager"]);
        let (expected, found) = (show(&expected), show(&found));
        format!("{scenario} {op} by {manager}\n  expected {expected}\n  found    {found}")
    })
}

fn replay(lines: &str) {
    let first = schema(include_str!("apply/schema.json"));
    let changed = schema(include_str!("apply/schema_changed.json"));
    let (mut wrong, mut previous) = (Vec::new(), Value::Null);
    for line in lines.lines() {
        let mut case = json::decode(line.as_bytes()).unwrap().value;
        if case["live"] == "previous" {
            case["live"] = previous.clone();
        }
        if let Some(expect) = case.get("expect") {
            previous = expect.clone();
        }
        let schema = if case["schema"] == "changed" {
            &changed
        } else {
            &first
        };
        wrong.extend(check(schema, &case));
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The server lists causes of several managers, and errors of several fields, in any order.
fn sorted_causes(error: &Value) -> Value {
    let mut error = error.clone();
    if error["causes"].is_null() {
        error["causes"] = value!([]);
    }
    if error["code"] == 422 {
        error["message"].take();
        for cause in error["causes"].as_array_mut().into_iter().flatten() {
            cause["message"].take();
        }
    }
    if let Some(causes) = error["causes"].as_array_mut() {
        causes.sort_by_key(Value::to_string);
    }
    error
}

#[test]
fn does_what_the_server_did_in_written_scenarios() {
    replay(include_str!("apply/written.jsonl"));
}

#[test]
fn does_what_the_server_did_when_the_schema_changed() {
    replay(include_str!("apply/changed.jsonl"));
}

#[test]
fn does_what_the_server_did_to_scales() {
    replay(include_str!("apply/scale.jsonl"));
}

#[test]
fn does_what_the_server_did_in_random_scenarios() {
    replay(include_str!("apply/random.jsonl"));
}
