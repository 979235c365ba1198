//! List: a consistent page of a resource at the version the client asked for.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use serde_json::{Value, json};
use skopos_object::Status;
use skopos_store::{Compacted, Entry, Range, Revision};

use super::Filter;
use super::body::ListBody;
use crate::call::{Answer, Call};
use crate::edge::ResponseBody;
use crate::options::{ListOptions, VersionMatch};
use crate::present::{self, ListFrame, ListMeta, Purpose, Wanted};
use crate::state::Shared;
use crate::versions;

/// Bodies up to this size are never compressed.
const GZIP_THRESHOLD_BYTES: u64 = 128 * 1024;

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) items: Vec<Arc<Entry>>,
    revision: Revision,
    continue_token: Option<String>,
    remaining: Option<i64>,
}

impl Selected {
    /// What a list of them says about itself.
    pub(crate) fn meta(&self) -> ListMeta {
        ListMeta {
            resource_version: self.revision.to_string(),
            continue_token: self.continue_token.clone(),
            remaining: self.remaining,
        }
    }
}

pub(crate) async fn list(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let wanted = Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::List)?;
    let options = ListOptions::parse(&call.query, false)?;
    if options.continue_token.is_none() {
        super::wait_for_version(shared, options.resource_version.unwrap_or(0)).await?;
    }
    let selected = select(shared, call, &options)?;
    let meta = selected.meta();
    let as_stored = |entry: &Arc<Entry>| versions::is_servable_as_stored(&call.resource, entry);
    if wanted.is_plain_json() && selected.items.iter().all(as_stored) {
        return Ok(Answer::Response(Box::new(respond_as_stored(
            call,
            &wanted,
            &meta,
            selected.items,
        ))));
    }
    let resource = &call.resource;
    let items = selected
        .items
        .iter()
        .filter_map(|entry| versions::from_entry(resource, entry).ok());
    let body = present::list(&wanted, resource, &meta, items, call.now.as_second())?;
    Ok(Answer::Response(Box::new(respond_whole(&wanted, body))))
}

/// A list of objects that are not in the store any more, as deletecollection answers.
pub(crate) fn respond_with_values(call: &Call, meta: &ListMeta, items: Vec<Value>) -> Result<Answer, Status> {
    let wanted = Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::List)?;
    let body = present::list(
        &wanted,
        &call.resource,
        meta,
        items.into_iter(),
        call.now.as_second(),
    )?;
    Ok(Answer::Response(Box::new(respond_whole(&wanted, body))))
}

fn respond_as_stored(
    call: &Call,
    wanted: &Wanted,
    meta: &ListMeta,
    items: Vec<Arc<Entry>>,
) -> http::Response<ResponseBody> {
    let mut body = ListBody::new(ListFrame::plain(&call.resource, meta), items);
    let mut response = http::Response::builder().header(CONTENT_TYPE, "application/json");
    if wanted.gzip && body.len() > GZIP_THRESHOLD_BYTES {
        response = response
            .header(CONTENT_ENCODING, "gzip")
            .header(VARY, "Accept-Encoding");
        body = body.compressed();
    }
    response
        .body(ResponseBody::stream(body))
        .expect("the headers are constants")
}

fn respond_whole(wanted: &Wanted, body: present::Body) -> http::Response<ResponseBody> {
    let mut response = http::Response::builder().header(CONTENT_TYPE, body.content_type);
    let (bytes, packed) = present::gzip_if_large(wanted, body.bytes);
    if packed {
        response = response
            .header(CONTENT_ENCODING, "gzip")
            .header(VARY, "Accept-Encoding");
    }
    response
        .body(ResponseBody::full(bytes))
        .expect("the headers are constants")
}

/// Finds what the options select: all of it, or one page.
pub(crate) fn select(shared: &Shared, call: &Call, options: &ListOptions) -> Result<Selected, Status> {
    let filter = Filter::new(&call.resource, options)?;
    let prefix = prefix_of(call);
    let start = Start::of(options, &prefix)?;
    let at = start.at.filter(|at| *at <= shared.store.revision());
    let page_size = options.page_size();
    // With a selector the limit counts matches, so the whole range is looked at.
    let limit = if filter.is_everything() { page_size } else { 0 };
    let range = Range {
        prefix: prefix.clone(),
        after: start.after.clone(),
        limit,
        at,
    };
    let page = shared
        .store
        .list(&call.resource.space, &range)
        .map_err(|c| expired(&c, &start))?;
    let mut items = page.items;
    let mut remaining = page.remaining;
    if !filter.is_everything() {
        remaining = match names_one(call, &filter) {
            true => {
                items.retain(|entry| filter.matches(&call.resource, entry));
                0
            }
            false => keep_page(&mut items, page_size, |entry| {
                filter.matches(&call.resource, entry)
            }),
        };
    }
    let revision = start.shown.unwrap_or(page.revision);
    let more = (remaining > 0).then(|| items.last()).flatten();
    let continue_token = more.map(|last| encode_token(revision, &last.key[prefix.len()..]));
    let countable = continue_token.is_some() && options.selects_everything();
    Ok(Selected {
        revision,
        remaining: countable.then_some(remaining as i64),
        continue_token,
        items,
    })
}

/// Keeps what matches, up to the size of a page, and returns how many come after the last of them: what these are is not
/// looked at, and so the last page may be empty.
fn keep_page(items: &mut Vec<Arc<Entry>>, size: usize, matches: impl Fn(&Entry) -> bool) -> usize {
    let n_all = items.len();
    let (mut n_seen, mut n_kept) = (0, 0);
    items.retain(|entry| {
        let is_full = size > 0 && n_kept == size;
        let keep = !is_full && matches(entry);
        n_seen += usize::from(!is_full);
        n_kept += usize::from(keep);
        keep
    });
    n_all - n_seen
}

/// Whether only one key is looked at: that of a name, where it is known in which namespace.
fn names_one(call: &Call, filter: &Filter) -> bool {
    filter.exact_name().is_some() && (!call.resource.namespaced || !call.target.namespace.is_empty())
}

/// The keys of one namespace, or all.
pub(super) fn prefix_of(call: &Call) -> String {
    match call.target.namespace.as_str() {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    }
}

/// Where a list begins and at which version.
#[derive(Debug, Default)]
struct Start {
    at: Option<Revision>,
    after: Option<String>,
    /// The version the list says it has, where that is not the one it was read at.
    shown: Option<Revision>,
    /// The position in the form a new token would have it.
    position: Option<String>,
}

impl Start {
    fn of(options: &ListOptions, prefix: &str) -> Result<Start, Status> {
        if let Some(token) = &options.continue_token {
            if options.resource_version.is_some_and(|version| version != 0) {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(why));
            }
            return decode_token(token, prefix);
        }
        let exact = match (options.version_match, options.resource_version) {
            (Some(VersionMatch::Exact), version) => version,
            (None, Some(version)) if options.limit > 0 && version > 0 => Some(version),
            _ => None,
        };
        Ok(Start {
            at: exact.map(Revision),
            ..Start::default()
        })
    }
}

fn encode_token(revision: Revision, key: &str) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision.0, "start": format!("{key}\0")});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode_token(token: &str, prefix: &str) -> Result<Start, Status> {
    let invalid =
        |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid{why}"));
    let bytes = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|e| invalid(format!(": {e}")))?;
    let token = skopos_object::json::decode(&bytes)
        .map_err(|e| invalid(format!(": {e}")))?
        .value;
    let version = token.get("v").and_then(Value::as_str).unwrap_or("");
    if version != "meta.k8s.io/v1" {
        return Err(invalid(format!(
            ": server does not recognize this encoded version {version}"
        )));
    }
    let revision = token.get("rv").and_then(Value::as_i64).unwrap_or(0);
    if revision == 0 {
        return Err(invalid(
            ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into(),
        ));
    }
    let start = token.get("start").and_then(Value::as_str).unwrap_or("");
    if start.is_empty() {
        return Err(invalid(
            ": encoded start key empty (version meta.k8s.io/v1)".into(),
        ));
    }
    let key = start.trim_start_matches('/');
    if key.split('/').any(|segment| [".", "..", ""].contains(&segment)) {
        return Err(invalid(format!(": {start}")));
    }
    // A token ends in the smallest character, so that the list goes on right behind the key.
    let after = format!("{prefix}{}", key.strip_suffix('\0').unwrap_or(key));
    let at = u64::try_from(revision).ok().map(Revision);
    Ok(Start {
        at,
        after: Some(after),
        shown: at,
        position: Some(start.to_owned()),
    })
}

/// The version is gone; a list that was under way may go on at the present one.
fn expired(_: &Compacted, start: &Start) -> Status {
    let Some(position) = &start.position else {
        return Status::expired("The resourceVersion for the provided list is too old.");
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let token = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": position});
    status.continue_token = Some(URL_SAFE_NO_PAD.encode(token.to_string()));
    status
}
