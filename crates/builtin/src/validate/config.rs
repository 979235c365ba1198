//! Config maps and secrets.

use serde_json::Value;
use skopos_object::FieldPath;
use skopos_object::validation::pattern_error;

use super::check::{Check, has, text};
use crate::base64;

const MAX_BYTES: usize = 1024 * 1024;

pub(super) fn config_map(check: &mut Check, map: &Value) {
    let mut size = 0;
    for (key, value) in map["data"].as_object().into_iter().flatten() {
        let path = FieldPath::root().child("data").key(key);
        config_key(check, &path, key);
        if has(&map["binaryData"], key) {
            check.invalid(&path, key.as_str(), "duplicate of key present in binaryData");
        }
        size += text(value).len();
    }
    for (key, value) in map["binaryData"].as_object().into_iter().flatten() {
        config_key(check, &FieldPath::root().child("binaryData").key(key), key);
        size += decoded_len(value);
    }
    if size > MAX_BYTES {
        check.too_long(&FieldPath::root().key(""), MAX_BYTES);
    }
}

/// A key of a config map or secret: usable as a file name.
pub(super) fn config_key(check: &mut Check, path: &FieldPath, key: &str) {
    if key.len() > 253 {
        check.invalid(path, key, "must be no more than 253 characters");
    }
    let plain = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    if !plain {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        check.invalid(
            path,
            key,
            pattern_error(rule, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]),
        );
    }
    if key == "." {
        check.invalid(path, key, "must not be '.'");
    } else if key == ".." {
        check.invalid(path, key, "must not be '..'");
    } else if key.starts_with("..") {
        check.invalid(path, key, "must not start with '..'");
    }
}

fn decoded_len(value: &Value) -> usize {
    let text = text(value);
    (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|b| *b == b'=').count())
}

pub(super) fn secret(check: &mut Check, secret: &Value) {
    let data = FieldPath::root().child("data");
    let mut size = 0;
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        config_key(check, &data.key(key), key);
        size += decoded_len(value);
    }
    if size > MAX_BYTES {
        check.too_long(&data, MAX_BYTES);
    }
    let needs = |check: &mut Check, key: &str| {
        let given = has(&secret["data"], key);
        if !given {
            check.required(&data.key(key), "");
        }
        given
    };
    match text(&secret["type"]) {
        "kubernetes.io/tls" => {
            needs(check, "tls.crt");
            needs(check, "tls.key");
        }
        "kubernetes.io/basic-auth" => {
            let either = ["username", "password"]
                .iter()
                .any(|key| has(&secret["data"], key));
            if !either {
                needs(check, "username");
                needs(check, "password");
            }
        }
        "kubernetes.io/ssh-auth" => drop(needs(check, "ssh-privatekey")),
        "kubernetes.io/dockerconfigjson" => docker_config(check, secret, ".dockerconfigjson"),
        "kubernetes.io/dockercfg" => docker_config(check, secret, ".dockercfg"),
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"][annotation]).is_empty() {
                let path = FieldPath::root()
                    .child("metadata")
                    .child("annotations")
                    .key(annotation);
                check.required(&path, "");
            }
        }
        _ => {}
    }
}

/// The credentials must be JSON; what is wrong with them is said, not what they are.
fn docker_config(check: &mut Check, secret: &Value, key: &str) {
    let path = FieldPath::root().child("data").key(key);
    if !has(&secret["data"], key) {
        return check.required(&path, "");
    }
    let bytes = base64::decode(text(&secret["data"][key])).unwrap_or_default();
    if let Err(error) = skopos_object::json::decode(&bytes) {
        check.invalid(&path, "<secret contents redacted>", error.to_string());
    }
}
