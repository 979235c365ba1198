//! What people should see with their rules, sinks and records: what went wrong, once, beside the status that says it for
//! as long as it is so.

use serde_json::Value;
use skopos_controller::{Context, EventKind};
use skopos_object::Object;

use crate::conditions::Shown;

/// Reasons of conditions that somebody should look at. The others pass, or come from what these already tell.
const TOLD: [&str; 8] = [
    "Invalid",
    "Forbidden",
    "ReviewForbidden",
    "HoleBridged",
    "JournalFailed",
    "NoSpace",
    "Suspended",
    "Unreadable",
];

/// Tells what is wrong now, and was not, or otherwise, when the status of an object was last written.
pub(crate) fn tell(object: &Object, conditions: &[Shown], context: &Context) {
    let before = object.get(&["status", "conditions"]).unwrap_or_default();
    for shown in conditions {
        if !shown.holds && TOLD.contains(&shown.reason) && !is_known(&before, shown) {
            context.event(
                EventKind::Warning,
                shown.reason,
                action(shown.kind),
                &shown.message,
            );
        }
    }
}

fn is_known(conditions: &Value, shown: &Shown) -> bool {
    let mut all = conditions.as_array().into_iter().flatten();
    all.any(|one| {
        one["type"] == shown.kind && one["reason"] == shown.reason && one["message"] == shown.message.as_str()
    })
}

/// What is done, or not done, about it.
fn action(condition: &str) -> &'static str {
    match condition {
        "Ready" => "PutInForce",
        "CaptureComplete" => "Capture",
        _ => "Deliver",
    }
}
