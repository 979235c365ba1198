//! Webhook configurations, admission policies and API services.

use serde_json::Value;
use skopos_object::FieldPath;

use super::check::{Check, PORT_RANGE, dns1123_subdomain, has, list, text};

pub(super) fn configuration(kind: &str, check: &mut Check, object: &Value) {
    if matches!(
        kind,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
    ) {
        for (at, webhook) in list(&object["webhooks"]).iter().enumerate() {
            self::webhook(check, &FieldPath::root().child("webhooks").index(at), webhook);
        }
    }
}

fn webhook(check: &mut Check, path: &FieldPath, webhook: &Value) {
    let name = text(&webhook["name"]);
    let complaints = dns1123_subdomain(name);
    if name.is_empty() {
        check.required(&path.child("name"), "");
    } else if !complaints.is_empty() {
        check.complaints(&path.child("name"), name, complaints);
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        check.invalid(&path.child("name"), name, detail);
    }
    for (at, rule) in list(&webhook["rules"]).iter().enumerate() {
        self::rule(check, &path.child("rules").index(at), rule);
    }
    check.one_of(path, webhook, "failurePolicy", &["Fail", "Ignore"]);
    check.one_of(path, webhook, "matchPolicy", &["Equivalent", "Exact"]);
    match text(&webhook["sideEffects"]) {
        "" => check.required(
            &path.child("sideEffects"),
            "must specify one of None, NoneOnDryRun",
        ),
        _ => check.one_of(path, webhook, "sideEffects", &["None", "NoneOnDryRun"]),
    }
    if let Some(seconds) = webhook["timeoutSeconds"]
        .as_i64()
        .filter(|s| !(1..=30).contains(s))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        check.invalid(&path.child("timeoutSeconds"), seconds, detail);
    }
    for key in ["namespaceSelector", "objectSelector"] {
        check.selector(&path.child(key), &webhook[key]);
    }
    client_config(check, &path.child("clientConfig"), &webhook["clientConfig"]);
    review_versions(
        check,
        &path.child("admissionReviewVersions"),
        &webhook["admissionReviewVersions"],
    );
}

fn rule(check: &mut Check, path: &FieldPath, rule: &Value) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations = list(&rule["operations"]);
    if operations.is_empty() {
        check.required(&path.child("operations"), "");
    }
    for (at, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(&text(operation)) {
            check.unsupported(
                &path.child("operations").index(at),
                operation.clone(),
                &OPERATIONS,
            );
        }
    }
    for (key, word) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let values = list(&rule[key]);
        if values.is_empty() {
            check.required(&path.child(key), "");
        }
        if values.len() > 1 && values.iter().any(|value| value == "*") {
            let detail = format!("if '*' is present, must not specify other {word}");
            check.invalid(&path.child(key), rule[key].clone(), detail);
        }
    }
    let resources = list(&rule["resources"]);
    if resources.is_empty() {
        check.required(&path.child("resources"), "");
    }
    if resources.iter().any(|r| r == "*") && resources.iter().any(|r| !text(r).contains('/') && r != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        check.invalid(&path.child("resources"), rule["resources"].clone(), detail);
    }
}

fn client_config(check: &mut Check, path: &FieldPath, config: &Value) {
    match (config["url"].as_str(), has(config, "service")) {
        (Some(_), true) | (None, false) => check.required(path, "exactly one of url or service is required"),
        (Some(url), false) => {
            if let Some((scheme, _)) = url.split_once("://").filter(|(scheme, _)| *scheme != "https") {
                let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                check.invalid(&path.child("url"), scheme, detail);
            }
        }
        (None, true) => {
            let (path, service) = (path.child("service"), &config["service"]);
            check.present(&path, service, "name");
            check.present(&path, service, "namespace");
            if let Some(port) = service["port"]
                .as_i64()
                .filter(|port| !(1..=65_535).contains(port))
            {
                check.invalid(
                    &path.child("port"),
                    port,
                    format!("port is not valid: {PORT_RANGE}"),
                );
            }
            if let Some(target) = service["path"].as_str() {
                url_path(check, &path.child("path"), target);
            }
        }
    }
}

fn url_path(check: &mut Check, path: &FieldPath, target: &str) {
    if !target.starts_with('/') {
        check.invalid(path, target, "must start with a '/'");
    }
    let segments: Vec<&str> = target.strip_prefix('/').unwrap_or("").split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        if segment.is_empty() && (at + 1 < segments.len() || segments.len() == 1 && target != "/") {
            check.invalid(path, target, format!("segment[{at}] may not be empty"));
        }
    }
}

fn review_versions(check: &mut Check, path: &FieldPath, versions: &Value) {
    if list(versions).is_empty() {
        check.required(path, "must specify one of v1, v1beta1");
    } else if !list(versions).iter().any(|v| v == "v1" || v == "v1beta1") {
        check.invalid(path, versions.clone(), "must include at least one of v1, v1beta1");
    }
}

pub(super) fn api_service(check: &mut Check, service: &Value) {
    let (root, spec) = (FieldPath::root(), &service["spec"]);
    let name = text(&service["metadata"]["name"]);
    let wanted = format!("{}.{}", text(&spec["version"]), text(&spec["group"]));
    if name != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        check.invalid(&root.child("metadata").child("name"), name, detail);
    }
    let path = root.child("spec");
    for (key, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let number = spec[key].as_i64().unwrap_or(0);
        if number <= 0 || number > most {
            check.invalid(
                &path.child(key),
                number,
                format!("must be positive and less than {most}"),
            );
        }
    }
}

/// A request for a certificate.
pub(super) fn signing_request(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    let request = text(&spec["request"]);
    let bytes = crate::base64::decode(request).unwrap_or_default();
    if !String::from_utf8_lossy(&bytes).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        check.invalid(
            &path.child("request"),
            request,
            "PEM block type must be CERTIFICATE REQUEST",
        );
    }
    if list(&spec["usages"]).is_empty() {
        check.required(&path.child("usages"), "");
    }
    let signer = text(&spec["signerName"]);
    if !signer
        .split_once('/')
        .is_some_and(|(domain, name)| domain.contains('.') && !name.is_empty())
    {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        check.invalid(&path.child("signerName"), signer, detail);
    }
}
