//! Checks of the conversion between versions.

use serde_json::json;
use skopos_object::validation::dns1123_subdomain;
use skopos_object::{FieldError, FieldPath};

use super::names::label_complaint;
use super::options::Options;
use super::props::Props;
use super::view::Crd;

const RECOGNIZED: [&str; 2] = ["v1", "v1beta1"];

/// Checks that a text is given and one of `accepted`.
pub(super) fn check_enum(path: &FieldPath, value: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(path, value, accepted));
    }
}

/// Whether the webhook's review versions have one that this server speaks, or are not given at all.
pub(super) fn has_recognized_review_version(crd: &Crd<'_>) -> bool {
    let webhook = Props::of(Props::of(crd.spec.get("conversion")).get("webhook"));
    let mut versions = webhook.texts("conversionReviewVersions").peekable();
    versions.peek().is_none() || versions.any(|version| RECOGNIZED.contains(&version))
}

pub(super) fn check(crd: &Crd<'_>, options: &Options, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(conversion) = crd.spec.object("conversion") else {
        return;
    };
    let strategy = conversion.text("strategy");
    if strategy != "None" && crd.preserve_unknown_fields() {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&path.child("strategy"), strategy, why));
    }
    check_enum(&path.child("strategy"), strategy, &["None", "Webhook"], errors);
    let webhook = Props::of(conversion.get("webhook"));
    let client = webhook.object("clientConfig");
    let at = path.child("webhookClientConfig");
    if strategy == "Webhook" {
        match client {
            None => errors.push(FieldError::required(
                &at,
                "required when strategy is set to Webhook",
            )),
            Some(client) => {
                check_client(client, &at, errors);
                let bundle = client.text("caBundle");
                if let (true, Some(why)) = (options.valid_ca_bundle, ca_bundle_complaint(bundle)) {
                    errors.push(FieldError::invalid(&at.child("caBundle"), bundle, why));
                }
            }
        }
        check_review_versions(webhook, options, &path.child("conversionReviewVersions"), errors);
        return;
    }
    let unwanted = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(&at, unwanted));
    }
    if webhook.texts("conversionReviewVersions").next().is_some() {
        errors.push(FieldError::forbidden(
            &path.child("conversionReviewVersions"),
            unwanted,
        ));
    }
}

/// Whether the webhook has a certificate bundle that does not load.
pub(super) fn has_bad_ca_bundle(crd: &Crd<'_>) -> bool {
    let webhook = Props::of(Props::of(crd.spec.get("conversion")).get("webhook"));
    ca_bundle_complaint(Props::of(webhook.get("clientConfig")).text("caBundle")).is_some()
}

/// Complains about a bundle without any certificate block. The certificates themselves are not parsed.
fn ca_bundle_complaint(bundle: &str) -> Option<&'static str> {
    const COMPLAINT: &str = "unable to load root certificates: unable to parse bytes as PEM block";
    if bundle.is_empty() {
        return None;
    }
    let Some(decoded) = decode_base64(bundle) else {
        return Some(COMPLAINT);
    };
    let text = String::from_utf8_lossy(&decoded);
    let whole = text.split_once("-----BEGIN CERTIFICATE-----");
    let closed = whole.is_some_and(|(_, rest)| rest.contains("-----END CERTIFICATE-----"));
    (!closed).then_some(COMPLAINT)
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut buffer, mut bits) = (0u32, 0u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        buffer = buffer << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(buffer >> bits & 0xff).ok()?);
        }
    }
    Some(out)
}

fn check_client(client: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match (client.has("url"), client.object("service")) {
        (true, None) => check_url(client.text("url"), &path.child("url"), errors),
        (false, Some(service)) => check_service(service, &path.child("service"), errors),
        _ => errors.push(FieldError::required(
            path,
            "exactly one of url or service is required",
        )),
    }
}

fn check_url(url: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Ok((scheme, rest)) = crate::format::address::split_scheme(url) else {
        let why = format!(
            "url must be a valid URL: parse {}: missing protocol scheme{FORM}",
            skopos_object::quote(url)
        );
        return errors.push(FieldError::required(path, why));
    };
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(user, host)| (Some(user), host));
    let mut complain = |value: &str, why: &str| errors.push(FieldError::invalid(path, value, why));
    let scheme = scheme.to_lowercase();
    if scheme != "https" {
        complain(&scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        complain(host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        complain(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        complain(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        complain(query, "query parameters are not permitted in the URL");
    }
}

fn check_service(service: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    // kube-apiserver passes name and namespace in each other's place, and so its complaints are swapped.
    for (key, complaint) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(key).is_empty() {
            errors.push(FieldError::required(&path.child(complaint), ""));
        }
    }
    let port = service
        .get("port")
        .and_then(serde_json::Value::as_i64)
        .unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, why));
    }
    check_service_path(service.text("path"), &path.child("path"), errors);
}

fn check_service_path(url: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut complain = |why: String| errors.push(FieldError::invalid(path, url, why));
    match url {
        "" | "/" => return,
        "//" => return complain("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    if !url.starts_with('/') {
        complain("must start with a '/'".to_owned());
    }
    let mut rest = url.chars();
    rest.next();
    let steps = rest.as_str();
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            complain(format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in dns1123_subdomain(step) {
            complain(format!("segment[{index}]: {why}"));
        }
    }
}

fn check_review_versions(
    webhook: Props<'_>,
    options: &Options,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let versions: Vec<&str> = webhook.texts("conversionReviewVersions").collect();
    if versions.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    for (index, version) in versions.iter().enumerate() {
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(
                &path.index(index),
                *version,
                "duplicate version",
            ));
        } else if let Some(why) = label_complaint(version) {
            errors.push(FieldError::invalid(&path.index(index), *version, why));
        }
    }
    if options.recognized_review_version && !versions.iter().any(|version| RECOGNIZED.contains(version)) {
        let why = format!("must include at least one of {}", RECOGNIZED.join(", "));
        errors.push(FieldError::invalid(path, json!(versions), why));
    }
}
