//! Who owns which field: what server-side apply needs to know of a resource, and of who writes to it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_object::{Cause, Details, Reason, Status};
use skopos_schema::{ApplyError, FieldSet, Manager, Structural, Target};

use super::commit::storage_error;
use super::metadata::rfc3339;
use crate::call::Call;
use crate::options::{FIELD_MANAGER_MAX_LENGTH, WriteOptions, is_printable};
use crate::registry::{Resource, Source};
use crate::{definition, versions};

/// How the fields of a resource are tracked; made when something is first written to it.
#[derive(Debug)]
pub(crate) struct Tracking {
    api_version: String,
    schema: Arc<Structural>,
    /// The other versions.
    others: Vec<(String, Arc<Structural>)>,
    empty: Option<Value>,
    /// What cannot be written, by subresource; the object itself is the empty one.
    resets: Vec<(String, FieldSet)>,
}

impl Tracking {
    pub(crate) fn of(resource: &Resource) -> Tracking {
        let endpoints = std::iter::once("").chain(resource.subresources.iter().map(|s| s.name.as_str()));
        let resets = endpoints
            .map(|endpoint| (endpoint.to_owned(), reset_fields(resource, endpoint)))
            .collect();
        let api_version = resource.api_version();
        let (schema, others, empty) = match &resource.source {
            Source::BuiltIn(kind) => {
                let mut empty = json!({"apiVersion": api_version, "kind": kind.kind});
                // Cannot fail: an object that says no more than its kind fits every kind.
                let _ = skopos_builtin::decode(kind, &mut empty);
                let others = definition::other_versions(kind);
                let others = others.map(|kind| (kind.api_version(), skopos_builtin::schema(kind)));
                (skopos_builtin::schema(kind), others.collect(), Some(empty))
            }
            Source::Custom(custom) => {
                let others = custom
                    .schemas
                    .iter()
                    .filter(|(name, _)| **name != resource.version);
                let others = others
                    .map(|(name, schema)| (format!("{}/{name}", resource.group), Arc::clone(schema)))
                    .collect();
                (Arc::clone(&custom.schema), others, None)
            }
        };
        Tracking {
            api_version,
            schema,
            others,
            empty,
            resets,
        }
    }
}

fn reset_fields(resource: &Resource, endpoint: &str) -> FieldSet {
    match (&resource.source, endpoint) {
        (Source::BuiltIn(kind), _) => skopos_builtin::reset_fields(kind, endpoint),
        (Source::Custom(_), "status") => FieldSet::of_paths(&[&["metadata"], &["spec"]]),
        (Source::Custom(custom), "") if custom.status => FieldSet::of_paths(&[&["status"]]),
        (Source::Custom(_), _) => FieldSet::default(),
    }
}

/// Who writes, through which endpoint, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

impl<'a> Author<'a> {
    pub(crate) fn of(call: &'a Call, options: &'a WriteOptions) -> Author<'a> {
        Author {
            name: &options.field_manager,
            subresource: &call.target.subresource,
            now: call.now,
        }
    }
}

/// Notes in a new or changed object who wrote what; `new` has its defaults already.
pub(crate) fn track(resource: &Resource, live: Option<&Value>, new: &mut Value, author: Author<'_>) {
    with_target(resource, author, |target, manager| {
        skopos_schema::track_update(target, live, new, manager);
    });
}

/// Writes that the server makes on its own, by the name of who makes them in a real cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnWrite {
    Server,
    ServerStatus,
    /// Through a subresource, or none.
    Controller(&'static str),
}

/// Notes what the server itself writes.
pub(crate) fn track_own(resource: &Resource, live: Option<&Value>, new: &mut Value, write: OwnWrite) {
    // An object in the form of a version that is not served any more keeps its owners as they are.
    if new["apiVersion"] != resource.api_version().as_str() {
        return;
    }
    let (name, subresource) = match write {
        OwnWrite::Server => ("kube-apiserver", ""),
        OwnWrite::ServerStatus => ("kube-apiserver", "status"),
        OwnWrite::Controller(subresource) => ("kube-controller-manager", subresource),
    };
    let now = Timestamp::now();
    let author = Author {
        name,
        subresource,
        now,
    };
    track(resource, live, new, author);
}

/// Merges an applied configuration into an object, or into none.
pub(super) fn apply(
    resource: &Resource,
    live: Option<&Value>,
    applied: &Value,
    author: Author<'_>,
    force: bool,
) -> Result<Value, Status> {
    with_target(resource, author, |target, manager| {
        skopos_schema::apply(target, live, applied, manager, force)
    })
    .map_err(refusal)
}

fn with_target<T>(
    resource: &Resource,
    author: Author<'_>,
    work: impl FnOnce(&Target<'_>, &Manager<'_>) -> T,
) -> T {
    let tracking = resource.tracking.get_or_init(|| Tracking::of(resource));
    let others: Vec<(&str, &Structural)> = tracking
        .others
        .iter()
        .map(|(version, schema)| (version.as_str(), &**schema))
        .collect();
    let reset = tracking
        .resets
        .iter()
        .find(|(endpoint, _)| endpoint == author.subresource);
    let target = Target {
        kind: &resource.kind,
        schema: &tracking.schema,
        versions: &others,
        convert: resource
            .built_in()
            .map(|_| versions::converted as fn(&Value, &str, &str) -> Value),
        empty: tracking.empty.as_ref(),
        reset: reset.map(|(_, fields)| fields),
    };
    let manager = Manager {
        name: author.name,
        api_version: &tracking.api_version,
        subresource: author.subresource,
        time: &rfc3339(author.now),
    };
    work(&target, &manager)
}

/// The answer to a configuration that was not applied.
pub(crate) fn refusal(error: ApplyError) -> Status {
    let message = error.to_string();
    match error {
        ApplyError::BadRequest(_) => Status::bad_request(message),
        ApplyError::Invalid(_) => storage_error(message),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.into_iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message(),
                field: conflict.field,
            });
            let details = Details {
                causes: causes.collect(),
                ..Details::default()
            };
            Status::failure(409, Reason::Conflict, message).with_details(details)
        }
    }
}

/// The field manager of a client that does not name one: what its user agent starts with.
pub(crate) fn manager_of_agent(user_agent: &str) -> String {
    let mut name = String::new();
    let start = user_agent.split('/').next().unwrap_or("");
    for character in start.chars().filter(|c| is_printable(*c)) {
        if name.len() + character.len_utf8() > FIELD_MANAGER_MAX_LENGTH {
            break;
        }
        name.push(character);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_the_start_of_their_user_agent() {
        assert_eq!(manager_of_agent("kubectl/v1.36.0 (linux/amd64)"), "kubectl");
        assert_eq!(manager_of_agent("my\u{7}tool"), "mytool");
        assert_eq!(manager_of_agent("/x"), "");
        assert_eq!(manager_of_agent(&"ä".repeat(100)), "ä".repeat(64));
    }
}
