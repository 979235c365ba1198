//! Patches: a document on the first line and a patch on the rest. What comes out is a document.

use serde_json::Value;
use skopos_object::{JsonPatch, diff, diff_merge, json, json_patch, merge_patch};

pub(crate) fn run(data: &[u8]) {
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (document, patch) = data.split_at(line);
    let (Ok(document), Ok(patch)) = (json::decode(document), json::decode(patch)) else {
        return;
    };
    let (document, patch) = (document.value, patch.value);
    if let Ok(patch) = JsonPatch::parse(&patch) {
        let mut patched = document.clone();
        if json_patch(&mut patched, &patch).is_ok() {
            check_document(&document, &patched);
        }
    }
    let mut merged = document.clone();
    if merge_patch(&mut merged, &patch).is_ok() {
        check_document(&document, &merged);
    }
}

fn check_document(old: &Value, new: &Value) {
    let read = json::decode(new.to_string().as_bytes()).expect("is within the bounds of a document");
    assert_eq!(&read.value, new);
    assert_eq!(diff(old, new).is_empty(), old == new);
    if old.is_object() && new.is_object() {
        let mut again = old.clone();
        merge_patch(&mut again, &diff_merge(old, new)).expect("is an object");
    }
}
