//! Webhook configurations and admission policies.

use serde_json::{Value, json};

use super::{items, or};

pub(super) fn configuration(kind: &str, object: &mut Value) {
    match kind {
        "ValidatingWebhookConfiguration" => items(object, "webhooks").for_each(webhook),
        "MutatingWebhookConfiguration" => items(object, "webhooks").for_each(|hook| {
            webhook(hook);
            or(hook, "reinvocationPolicy", "Never");
        }),
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let spec = &mut object["spec"];
            or(spec, "failurePolicy", "Fail");
            if let Some(constraints) = spec.get_mut("matchConstraints") {
                match_resources(constraints);
            }
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            if let Some(resources) = object["spec"].get_mut("matchResources") {
                match_resources(resources);
            }
        }
        _ => {}
    }
}

fn webhook(webhook: &mut Value) {
    or(webhook, "failurePolicy", "Fail");
    or(webhook, "matchPolicy", "Equivalent");
    or(webhook, "namespaceSelector", json!({}));
    or(webhook, "objectSelector", json!({}));
    or(webhook, "timeoutSeconds", 10);
    for rule in items(webhook, "rules") {
        or(rule, "scope", "*");
    }
    if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
        service_port(service);
    }
}

fn match_resources(resources: &mut Value) {
    or(resources, "matchPolicy", "Equivalent");
    or(resources, "namespaceSelector", json!({}));
    or(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items(resources, list) {
            or(rule, "scope", "*");
        }
    }
}

pub(super) fn api_service(service: &mut Value) {
    if let Some(reference) = service.pointer_mut("/spec/service") {
        service_port(reference);
    }
}

/// Services are reached at 443 unless they say otherwise.
pub(super) fn service_port(service: &mut Value) {
    or(service, "port", 443);
}
