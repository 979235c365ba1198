//! Replays what kube-apiserver 1.36 did with applied configurations and updates of built-in kinds.
//!
//! Each line of `apply/requests.jsonl` is one request: the live object before it, what was sent, and the object or
//! the error that came back; `previous` is the object that the last request of the scenario left. Objects are
//! compared with their managedFields and the times in them, but without what only a server sets.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json as value};
use skopos_builtin::{
    Kind, decode, default, kind, prepare_create, prepare_status_update, prepare_update, reset_fields, schema,
};
use skopos_object::{json, merge_patch};
use skopos_schema::{ApplyError, Manager, Target, apply, keep_times, track_update};

/// Does to an object what happens to it before it is stored.
fn finish(kind: &Kind, object: &mut Value, live: Option<&Value>, subresource: &str) {
    decode(kind, object).unwrap();
    default(kind, object);
    match live {
        None => prepare_create(kind, object),
        Some(live) if subresource == "status" => prepare_status_update(kind, object, live),
        Some(live) => prepare_update(kind, object, live),
    }
    if let Some(live) = live {
        keep_times(live, object);
    }
}

fn comparable(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
        metadata.remove(name);
    }
    // Allocated and admitted by the server itself.
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec.filter(|_| matches!(kind.kind, "Service" | "Pod")) {
        for name in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "priority",
            "preemptionPolicy",
        ] {
            spec.remove(name);
        }
        for name in [
            "serviceAccount",
            "serviceAccountName",
            "tolerations",
            "volumes",
            "containers",
        ] {
            spec.remove(name);
        }
    }
    object
}

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_default()
}

fn error_json(error: &ApplyError) -> Value {
    let (code, causes) = match error {
        ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: &skopos_schema::Conflict| value!({"reason": "FieldManagerConflict", "message": conflict.message(), "field": conflict.field});
            (409, conflicts.iter().map(cause).collect())
        }
        ApplyError::BadRequest(_) => (400, value!([])),
        ApplyError::Invalid(_) => (500, value!([])),
    };
    value!({"code": code, "message": error.to_string(), "causes": causes})
}

/// The answer of the engine: an object or an error.
fn answer(kind: &Kind, case: &Value) -> Result<Value, Value> {
    let subresource = text(case, "subresource");
    let (schema, reset) = (schema(kind), reset_fields(kind, subresource));
    let mut empty = value!({"apiVersion": text(case, "version"), "kind": kind.kind});
    decode(kind, &mut empty).unwrap();
    let target = Target {
        kind: kind.kind,
        schema: &schema,
        versions: &[],
        convert: None,
        empty: Some(&empty),
        reset: Some(&reset),
    };
    let manager = Manager {
        name: text(case, "manager"),
        api_version: text(case, "version"),
        subresource,
        time: text(case, "time"),
    };
    let live = case.get("live");
    let mut new = if text(case, "op") == "apply" {
        apply(&target, live, &case["applied"], &manager, case["force"] == true)
            .map_err(|error| error_json(&error))?
    } else {
        let mut new = case["sent"].clone();
        if let (Some(patch), Some(live)) = (case.get("patch"), live) {
            new = live.clone();
            merge_patch(&mut new, patch).unwrap();
        }
        decode(kind, &mut new).unwrap();
        default(kind, &mut new);
        track_update(&target, live, &mut new, &manager);
        new
    };
    finish(kind, &mut new, live, subresource);
    Ok(comparable(kind, &new))
}

/// The server lists causes of several managers in any order.
fn sorted_causes(mut error: Value) -> Value {
    let mut causes = error["causes"].as_array().cloned().unwrap_or_default();
    causes.sort_by_key(Value::to_string);
    error["causes"] = causes.into();
    error
}

/// What differs from the server's answer, if anything does.
fn check(case: &Value) -> Option<String> {
    let (group, version) = text(case, "version")
        .split_once('/')
        .unwrap_or(("", text(case, "version")));
    let kind = kind(group, version, text(case, "kind")).unwrap();
    let expected = match case.get("error") {
        Some(error) => Err(sorted_causes(error.clone())),
        None => Ok(comparable(kind, &case["expect"])),
    };
    let found = answer(kind, case).map_err(sorted_causes);
    (found != expected).then(|| {
        let (scenario, op, manager) = (&case["scenario"], &case["op"], &case["manager"]);
        let (expected, found) = (show(&expected), show(&found));
        format!("{scenario} {op} by {manager}\n  expected {expected}\n  found    {found}")
    })
}

#[test]
fn does_what_the_server_did() {
    let (mut wrong, mut previous) = (Vec::new(), Value::Null);
    for line in include_str!("apply/requests.jsonl").lines() {
        let mut case = json::decode(line.as_bytes()).unwrap().value;
        if case["live"] == "previous" {
            case["live"] = previous.clone();
        }
        if let Some(expect) = case.get("expect") {
            previous = expect.clone();
        }
        wrong.extend(check(&case));
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn show(answer: &Result<Value, Value>) -> String {
    match answer {
        Ok(object) => object.to_string(),
        Err(error) => format!("error {error}"),
    }
}
