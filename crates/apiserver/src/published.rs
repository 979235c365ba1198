//! What the server says about itself: discovery and OpenAPI.
//!
//! Everything follows from the [`Registry`], so documents are made when asked for. Small ones are made each time;
//! the aggregated discovery and the index of OpenAPI are kept until the registry changes; OpenAPI documents are
//! kept packed, the most recently used ones, up to a bound.

mod answer;
mod definitions;
mod discovery;
mod gnostic;
mod openapi;
mod operations;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use serde_json::json;

use self::answer::{
    Asked, Methods, accepts_any, document, failure, finish, in_one_year, not_found, page_not_found, render,
    server_address, set, tagged, unpacked,
};
use self::discovery::Root;
use crate::present::{Encoding, ServerVersion, accept_header, choose, parse_accept, wants_pretty};
use crate::registry::{Registry, join_group_version};
use crate::request::Query;

/// All packed OpenAPI documents together are kept below this.
const MAX_KEPT_BYTES: usize = 1 << 20;
const OPENAPI_V2_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OPENAPI_V2_SUBTYPES: [&str; 2] = [
    "com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "com.github.proto-openapi.spec.v2@v1.0+protobuf",
];

/// Serves discovery and OpenAPI documents and keeps the costly ones.
#[derive(Debug, Default)]
pub(crate) struct Published {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// The registry that `core`, `named` and `index` were made from.
    serial: u64,
    core: Option<Arc<Tagged>>,
    named: Option<Arc<Tagged>>,
    index: Option<Arc<Index>>,
    /// Packed documents, the latest used first.
    documents: VecDeque<Packed>,
}

/// A document and what tells it from other versions of itself.
#[derive(Debug)]
struct Tagged {
    tag: String,
    bytes: Bytes,
}

/// The index of OpenAPI v3, with the tag of each group version under its path.
#[derive(Debug)]
struct Index {
    document: Tagged,
    tags: BTreeMap<String, String>,
    /// Tags all of OpenAPI v2.
    whole: String,
}

#[derive(Debug)]
struct Packed {
    name: String,
    tag: String,
    bytes: Bytes,
}

impl Published {
    /// Answers a request for a document; `None` means the path is none of ours.
    ///
    /// Making an OpenAPI document takes some milliseconds of computing: see [`Published::is_heavy`].
    pub(crate) fn handle(
        &self,
        registry: &Registry,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Option<Response<Bytes>> {
        let asked = Asked {
            registry,
            method,
            uri,
            headers,
            query: Query::parse(uri),
        };
        let path = uri.path().strip_prefix('/')?;
        let segments: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').collect();
        let response = match segments.as_slice() {
            ["api"] => self.root(&asked, Root::Core),
            ["apis"] => self.root(&asked, Root::Named),
            ["api", version] => resources(&asked, "", version),
            ["apis", group] => one_group(&asked, group),
            ["apis", group, version] => resources(&asked, group, version),
            ["openapi", "v2"] if !path.ends_with('/') => self.openapi_v2(&asked),
            ["openapi", "v3"] if !path.ends_with('/') => self.openapi_index(&asked),
            ["openapi", "v3", rest @ ..] => self.openapi_v3(&asked, &rest.join("/")),
            _ => return None,
        };
        Some(response)
    }

    /// Whether answering may take long enough to be moved off the runtime's own threads.
    pub(crate) fn is_heavy(uri: &Uri) -> bool {
        uri.path().starts_with("/openapi/")
    }

    fn root(&self, asked: &Asked<'_>, root: Root) -> Response<Bytes> {
        let wants_aggregated = choose(
            accept_header(asked.headers),
            ServerVersion::Refused,
            |encoding, wanted| {
                encoding != Encoding::Protobuf
                    && wanted.is_some_and(|wanted| {
                        (wanted.group, wanted.version, wanted.kind)
                            == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
                    })
            },
        );
        match (wants_aggregated, root) {
            (Some(choice), _) if choice.conversion.is_some() => self.aggregated(asked, root, choice.encoding),
            (_, Root::Core) => document(
                asked,
                &discovery::api_versions(asked.registry, server_address(asked)),
                Methods::ReadOnly,
            ),
            (_, Root::Named) => document(asked, &discovery::group_list(asked.registry), Methods::Any),
        }
    }

    fn aggregated(&self, asked: &Asked<'_>, root: Root, encoding: Encoding) -> Response<Bytes> {
        let kept = self.kept_aggregated(asked.registry, root);
        let mut response = Response::new(Bytes::new());
        set(&mut response, ETAG, &format!("{:?}", kept.tag));
        set(&mut response, VARY, "Accept");
        set(&mut response, CACHE_CONTROL, "public");
        let known = asked.headers.get(IF_NONE_MATCH);
        if known.is_some_and(|known| response.headers().get(ETAG) == Some(known)) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        let form = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        set(
            &mut response,
            CONTENT_TYPE,
            &format!("{}{form}", encoding.content_type()),
        );
        let pretty = wants_pretty(asked.headers, &asked.query);
        let bytes = match (encoding, pretty) {
            (Encoding::Json, false) => kept.bytes.clone(),
            _ => render(encoding, pretty, &discovery::aggregated(asked.registry, root)),
        };
        finish(asked, response, bytes)
    }

    fn kept_aggregated(&self, registry: &Registry, root: Root) -> Arc<Tagged> {
        let mut cache = self.cache_for(registry);
        let place = match root {
            Root::Core => &mut cache.core,
            Root::Named => &mut cache.named,
        };
        let make = || {
            let bytes = render(Encoding::Json, false, &discovery::aggregated(registry, root));
            Arc::new(Tagged {
                tag: openapi::tag(&bytes),
                bytes,
            })
        };
        Arc::clone(place.get_or_insert_with(make))
    }

    /// The cache, emptied of what belongs to another registry.
    fn cache_for(&self, registry: &Registry) -> MutexGuard<'_, Cache> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.serial != registry.serial() {
            (cache.serial, cache.core, cache.named, cache.index) = (registry.serial(), None, None, None);
        }
        cache
    }

    fn index(&self, registry: &Registry) -> Arc<Index> {
        let mut cache = self.cache_for(registry);
        Arc::clone(cache.index.get_or_insert_with(|| Arc::new(Index::of(registry))))
    }

    fn openapi_index(&self, asked: &Asked<'_>) -> Response<Bytes> {
        let index = self.index(asked.registry);
        let mut response = Response::new(Bytes::new());
        set(&mut response, CONTENT_TYPE, "application/json");
        tagged(asked, response, &index.document.tag, || {
            Some(index.document.bytes.clone())
        })
    }

    fn openapi_v3(&self, asked: &Asked<'_>, path: &str) -> Response<Bytes> {
        let index = self.index(asked.registry);
        let mut response = Response::new(Bytes::new());
        let Some(tag) = index.tags.get(path) else {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        set(&mut response, VARY, "Accept");
        if !accepts_any(asked.headers, &["json"]) {
            *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
            return response;
        }
        set(&mut response, CONTENT_TYPE, "application/json");
        match asked.query.get("hash") {
            None => {}
            Some(hash) if hash != tag => {
                set(&mut response, ETAG, &format!("{tag:?}"));
                set(&mut response, LOCATION, &versioned_url(path, tag));
                *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
                return response;
            }
            Some(_) => {
                set(&mut response, CACHE_CONTROL, "public, immutable");
                set(&mut response, EXPIRES, &in_one_year());
            }
        }
        let (group, version) = split_path(path);
        let packed = || self.packed(path, tag, || openapi::v3(asked.registry, group, version));
        unpacked(asked, response, tag, packed)
    }

    fn openapi_v2(&self, asked: &Asked<'_>) -> Response<Bytes> {
        let index = self.index(asked.registry);
        let mut response = Response::new(Bytes::new());
        set(&mut response, VARY, "Accept-Encoding, Accept");
        let clauses = parse_accept(match accept_header(asked.headers) {
            "" => "*/*",
            header => header,
        });
        let offers = ["json", OPENAPI_V2_SUBTYPES[0], OPENAPI_V2_SUBTYPES[1]];
        let subtype = clauses
            .iter()
            .find_map(|c| offers.into_iter().find(|sub| c.covers("application", sub)));
        match subtype {
            None => {
                *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
                response
            }
            Some("json") => {
                set(&mut response, CONTENT_TYPE, "application/json");
                let packed = || self.packed("v2.json", &index.whole, || openapi::v2(asked.registry));
                unpacked(asked, response, &index.whole, packed)
            }
            Some(_) => {
                set(&mut response, CONTENT_TYPE, OPENAPI_V2_TYPE);
                let packed = || self.packed("v2.pb", &index.whole, || openapi::v2_protobuf(asked.registry));
                unpacked(asked, response, &index.whole, packed)
            }
        }
    }

    /// A packed document, kept or made now. It is made outside the lock: others may need small things meanwhile.
    fn packed(
        &self,
        name: &str,
        tag: &str,
        make: impl FnOnce() -> std::io::Result<Vec<u8>>,
    ) -> Option<Bytes> {
        if let Some(bytes) = self.take_kept(name, tag) {
            return Some(bytes);
        }
        let bytes = Bytes::from(make().ok()?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.documents.retain(|document| document.name != name);
        let document = Packed {
            name: name.to_owned(),
            tag: tag.to_owned(),
            bytes: bytes.clone(),
        };
        cache.documents.push_front(document);
        let mut n_bytes = 0;
        cache.documents.retain(|document| {
            n_bytes += document.bytes.len();
            n_bytes <= MAX_KEPT_BYTES
        });
        Some(bytes)
    }

    fn take_kept(&self, name: &str, tag: &str) -> Option<Bytes> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let position = cache
            .documents
            .iter()
            .position(|d| d.name == name && d.tag == tag)?;
        let document = cache.documents.remove(position)?;
        let bytes = document.bytes.clone();
        cache.documents.push_front(document);
        Some(bytes)
    }
}

impl Index {
    fn of(registry: &Registry) -> Index {
        let mut tags = BTreeMap::new();
        for group in registry.groups() {
            for version in &group.versions {
                let prefix = if group.name.is_empty() { "api" } else { "apis" };
                let path = format!("{prefix}/{}", join_group_version(&group.name, version));
                tags.insert(path, openapi::fingerprint(registry, &group.name, version));
            }
        }
        let entry = |(path, tag): (&String, &String)| {
            (
                path.clone(),
                json!({"serverRelativeURL": versioned_url(path, tag)}),
            )
        };
        let paths: serde_json::Map<_, _> = tags.iter().map(entry).collect();
        let bytes = Bytes::from(json!({"paths": paths}).to_string());
        let whole = openapi::tag(tags.values().cloned().collect::<String>().as_bytes());
        Index {
            document: Tagged {
                tag: openapi::tag(&bytes),
                bytes,
            },
            tags,
            whole,
        }
    }
}

fn versioned_url(path: &str, tag: &str) -> String {
    format!("/openapi/v3/{path}?hash={tag}")
}

/// `api/v1` or `apis/apps/v1` as group and version.
fn split_path(path: &str) -> (&str, &str) {
    let (root, rest) = path.split_once('/').unwrap_or((path, ""));
    if root == "api" {
        ("", rest)
    } else {
        rest.split_once('/').unwrap_or((rest, ""))
    }
}

fn one_group(asked: &Asked<'_>, name: &str) -> Response<Bytes> {
    let found = asked
        .registry
        .groups()
        .iter()
        .find(|group| group.name == name && !name.is_empty());
    match found.and_then(discovery::group) {
        Some(group) => document(asked, &group, Methods::Any),
        None => page_not_found(),
    }
}

fn resources(asked: &Asked<'_>, group: &str, version: &str) -> Response<Bytes> {
    let Some(found) = asked.registry.groups().iter().find(|g| g.name == group) else {
        return if group.is_empty() {
            failure(asked, &not_found())
        } else {
            page_not_found()
        };
    };
    match found.versions.iter().any(|v| v == version) {
        true => {
            let methods = if found.custom {
                Methods::Any
            } else {
                Methods::ReadOnly
            };
            document(
                asked,
                &discovery::resource_list(asked.registry, group, version),
                methods,
            )
        }
        false if found.custom => page_not_found(),
        false => failure(asked, &not_found()),
    }
}
