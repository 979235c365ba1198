//! Reads and checks the options of a request, from its query string or from the body of a delete.

use std::time::Duration;

use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::Value;
use skopos_object::{FieldError, FieldPath, FieldSelector, GroupKind, LabelSelector, Reason, Status};

use crate::request::Query;
use crate::write::manager_of_agent;

/// What to do with fields that the schema does not know and with duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options that create, update and patch share.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Who writes: as the client says, or else as it calls itself.
    pub(crate) field_manager: String,
    /// Fields that others own may be taken: apply only.
    pub(crate) force: bool,
}

/// Which write the options belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    Patch,
    Apply,
}

impl WriteKind {
    /// What errors call the options.
    fn options(self) -> &'static str {
        match self {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch | WriteKind::Apply => "PatchOptions",
        }
    }
}

impl WriteOptions {
    pub(crate) fn parse(query: &Query, headers: &HeaderMap, kind: WriteKind) -> Result<WriteOptions, Status> {
        let mut errors = Vec::new();
        let path = FieldPath::root();
        let field_manager = query.get("fieldManager").unwrap_or("");
        check_for_apply(query, kind, &mut errors);
        check_field_manager(field_manager, &path.child("fieldManager"), &mut errors);
        let dry_run = dry_run_of(query.all("dryRun").map(str::to_owned).collect(), &mut errors);
        let field_validation = match query.get("fieldValidation").unwrap_or("") {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(
                    &path.child("fieldValidation"),
                    other,
                    &supported,
                ));
                FieldValidation::Warn
            }
        };
        reject(kind.options(), errors)?;
        let agent = || {
            headers
                .get(USER_AGENT)
                .and_then(|v| v.to_str().ok())
                .unwrap_or("")
        };
        Ok(WriteOptions {
            dry_run,
            field_validation,
            field_manager: match field_manager {
                "" => manager_of_agent(agent()),
                name => name.to_owned(),
            },
            force: query.flag("force"),
        })
    }
}

/// How long a field manager's name may be.
pub(crate) const FIELD_MANAGER_MAX_LENGTH: usize = 128;

fn check_for_apply(query: &Query, kind: WriteKind, errors: &mut Vec<FieldError>) {
    let path = FieldPath::root();
    match kind {
        WriteKind::Apply if query.get("fieldManager").unwrap_or("").is_empty() => {
            let detail = "is required for apply patch";
            errors.push(FieldError::required(&path.child("fieldManager"), detail));
        }
        WriteKind::Patch if query.has("force") => {
            let detail = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&path.child("force"), detail));
        }
        _ => {}
    }
}

/// Letters, marks, numbers, punctuation, symbols and the plain space, as Go sees it.
pub(crate) fn is_printable(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    let is_private = ('\u{e000}'..='\u{f8ff}').contains(&character);
    !character.is_control() && !is_format && !is_private && (character == ' ' || !character.is_whitespace())
}

fn check_field_manager(manager: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if manager.len() > FIELD_MANAGER_MAX_LENGTH {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX_LENGTH));
    }
    for (position, character) in manager.char_indices() {
        if !is_printable(character) {
            let code = character as u32;
            let detail = format!("invalid character U+{code:04X} (at position {position})");
            errors.push(FieldError::invalid(path, manager, detail));
        }
    }
}

fn dry_run_of(values: Vec<String>, errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|v| v != "All") {
        let path = FieldPath::root().child("dryRun");
        errors.push(FieldError::not_supported(&path, Value::from(values), &["All"]));
        return false;
    }
    !values.is_empty()
}

fn reject(kind: &str, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "meta.k8s.io".into(),
        kind: kind.into(),
    };
    Err(Status::invalid(&kind, "", errors))
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of delete and deletecollection.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    /// Whether it was asked for dependents to go in the way from before propagation: an object that stays for now is
    /// then accepted, not deleted.
    pub(crate) not_orphaning: bool,
    pub(crate) precondition_uid: Option<String>,
    pub(crate) precondition_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query where there is no body.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<DeleteOptions, Status> {
        match body {
            Some(body) => DeleteOptions::from_body(body),
            None => DeleteOptions::from_query(query),
        }
    }

    fn from_query(query: &Query) -> Result<DeleteOptions, Status> {
        let grace = query.get("gracePeriodSeconds").map(parse_int).transpose()?;
        let orphan = query
            .has("orphanDependents")
            .then(|| query.flag("orphanDependents"));
        let dry_run = query.all("dryRun").map(str::to_owned).collect();
        DeleteOptions::check(dry_run, grace, query.get("propagationPolicy"), orphan)
    }

    fn from_body(body: &Value) -> Result<DeleteOptions, Status> {
        check_delete_options(body)?;
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let dry_run = body
            .get("dryRun")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let options = DeleteOptions::check(
            dry_run,
            body.get("gracePeriodSeconds").and_then(Value::as_i64),
            text("/propagationPolicy").as_deref(),
            body.get("orphanDependents").and_then(Value::as_bool),
        )?;
        Ok(DeleteOptions {
            precondition_uid: text("/preconditions/uid"),
            precondition_version: text("/preconditions/resourceVersion"),
            ..options
        })
    }

    fn check(
        dry_run: Vec<String>,
        grace_period_seconds: Option<i64>,
        policy: Option<&str>,
        orphan: Option<bool>,
    ) -> Result<DeleteOptions, Status> {
        let mut errors = Vec::new();
        let path = FieldPath::root().child("propagationPolicy");
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&path, policy, detail));
        }
        let propagation = match (policy, orphan) {
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(other), _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&path, other, &supported));
                None
            }
            (None, None) => None,
        };
        let dry_run = dry_run_of(dry_run, &mut errors);
        reject("DeleteOptions", errors)?;
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds,
            propagation,
            not_orphaning: orphan == Some(false),
            ..DeleteOptions::default()
        })
    }
}

/// How a given resource version is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// Whether a body holds delete options, of the right types: what is read wrongly would delete too much.
fn check_delete_options(body: &Value) -> Result<(), Status> {
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or("");
    let (kind, version) = (text("kind"), text("apiVersion"));
    if !["", "DeleteOptions"].contains(&kind) {
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    match skopos_builtin::decode_type("meta.v1.DeleteOptions", &mut body.clone()) {
        Some(Err(why)) => Err(Status::bad_request(why)),
        _ => Ok(()),
    }
}

/// The options of list, watch and deletecollection.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// `None` when absent or empty: the most recent. `Some(0)`: any.
    pub(crate) resource_version: Option<u64>,
    pub(crate) version_match: Option<VersionMatch>,
    /// 0 means no limit.
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<ListOptions, Status> {
        let limit = query.get("limit").map(parse_int).transpose()?.unwrap_or(0);
        let timeout = query.get("timeoutSeconds").map(parse_int).transpose()?;
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or(""))
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or(""))
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let version = query.get("resourceVersion").unwrap_or("");
        let matching = query.get("resourceVersionMatch").unwrap_or("");
        let send_initial_events = query
            .has("sendInitialEvents")
            .then(|| query.flag("sendInitialEvents"));
        let continue_token = query.get("continue").map(str::to_owned);
        let errors = match watch {
            true => check_watch(matching, version, send_initial_events, continue_token.as_deref()),
            false => check_list(matching, version, send_initial_events, continue_token.as_deref()),
        };
        reject("ListOptions", errors)?;
        Ok(ListOptions {
            labels,
            fields,
            resource_version: parse_version(version).map_err(|status| match watch {
                true => status,
                false => Status::bad_request(format!("invalid resource version: {}", status.message)),
            })?,
            version_match: match matching {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token,
            timeout: timeout
                .and_then(|t| u64::try_from(t).ok())
                .filter(|t| *t > 0)
                .map(Duration::from_secs),
            allow_bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
        })
    }

    /// How many items a page has; 0 means all. A list of any version is sent whole, as the real server does.
    pub(crate) fn page_size(&self) -> usize {
        let is_any_version = self.resource_version == Some(0) && self.continue_token.is_none();
        if is_any_version { 0 } else { self.limit }
    }

    pub(crate) fn selects_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

fn check_list(matching: &str, version: &str, send: Option<bool>, token: Option<&str>) -> Vec<FieldError> {
    let path = FieldPath::root().child("resourceVersionMatch");
    let mut errors = Vec::new();
    if !matching.is_empty() {
        if version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if token.is_some() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if matching != "Exact" && matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(
                &path,
                matching,
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if matching == "Exact" && version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
    if send.is_some() {
        let path = FieldPath::root().child("sendInitialEvents");
        errors.push(FieldError::forbidden(
            &path,
            "sendInitialEvents is forbidden for list",
        ));
    }
    errors
}

fn check_watch(matching: &str, version: &str, send: Option<bool>, token: Option<&str>) -> Vec<FieldError> {
    let path = FieldPath::root().child("resourceVersionMatch");
    let mut errors = Vec::new();
    // A watch from no version begins with the present state, as if it had asked for it with a match.
    if token.is_some() && matching.is_empty() && send.is_none() && ["", "0"].contains(&version) {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(&path, detail));
    }
    if send.is_some() && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(&path, detail));
    }
    if !matching.is_empty() {
        if send.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(&path, matching, &["NotOlderThan"]));
        }
        if token.is_some() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
    errors
}

/// Reads a resource version parameter; empty is absent.
///
/// # Errors
/// The real server lets the storage layer's error through, which has no reason; lists wrap it.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<u64>() {
        Ok(version) if !text.starts_with('+') => Ok(Some(version)),
        _ => {
            let why = why_no_number(text);
            let parse = format!("strconv.ParseUint: parsing {text:?}: {why}");
            let message = format!("resourceVersion: Invalid value: {text:?}: {parse}");
            Err(Status::failure(500, Reason::Unknown, message))
        }
    }
}

fn parse_int(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let why = why_no_number(digits);
        Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}

/// Why digits, if they are such, are no number: in Go's words.
fn why_no_number(digits: &str) -> &'static str {
    match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => "value out of range",
        false => "invalid syntax",
    }
}
