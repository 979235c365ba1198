//! Reviews: questions about users that are answered and never stored.

use serde_json::{Value, json};
use skopos_object::Status;

use crate::call::{Answer, Call};
use crate::edge::User;
use crate::present::Types;
use crate::state::Shared;
use crate::write::rfc3339;

/// Answers a create of a resource that is not stored.
pub(crate) fn review(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let mut review = call.decode_body(Types::Optional)?.value;
    review["apiVersion"] = call.resource.api_version().into();
    review["kind"] = call.resource.kind.clone().into();
    review["metadata"] = json!({"creationTimestamp": rfc3339(call.now)});
    review["status"] = match call.resource.plural.as_str() {
        "selfsubjectreviews" => json!({"userInfo": user_info(&call.user)}),
        "tokenreviews" => identity(shared, review["spec"]["token"].as_str().unwrap_or("")),
        "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => access(),
        "selfsubjectrulesreviews" => all_rules(),
        _ => {
            return Err(Status::method_not_supported(
                &call.resource.group_resource(),
                "create",
            ));
        }
    };
    Ok(Answer::Object {
        code: 201,
        value: review,
    })
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Whose token it is.
fn identity(shared: &Shared, token: &str) -> Value {
    match shared.tokens.find(token) {
        Some(user) => json!({"authenticated": true, "user": user_info(&user)}),
        None => json!({"user": {}, "error": "[invalid bearer token, unknown token]"}),
    }
}

/// Whoever is authenticated may do anything: roles are stored but not enforced.
fn access() -> Value {
    json!({"allowed": true, "reason": "this server authenticates but does not enforce roles"})
}

fn all_rules() -> Value {
    json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    })
}
