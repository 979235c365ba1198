//! A request as rules see it.

use http::{Method, header, request::Parts};

/// What a client wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object, or one of its subresources.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object; also server-side apply.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove a collection.
    DeleteCollection,
    /// Discovery, health and whatever else is no resource.
    Other,
}

/// A request as rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What the client wants to do.
    pub verb: Verb,
    /// The resource, by its plural; empty if there is none.
    pub resource: String,
    /// The namespace; empty for all, or none.
    pub namespace: String,
    /// The object; empty for a collection.
    pub name: String,
    /// Whether it is a watch that wants what is there first.
    pub(crate) initial_events: bool,
    pub(crate) accepts_gzip: bool,
}

impl Asked {
    pub(crate) fn new(verb: Verb, resource: &str) -> Self {
        Self {
            verb,
            resource: resource.to_owned(),
            namespace: String::new(),
            name: String::new(),
            initial_events: false,
            accepts_gzip: false,
        }
    }

    /// Reads method, path and query.
    pub(crate) fn read(parts: &Parts) -> Self {
        let mut asked = Self::new(Verb::Other, "");
        let segments: Vec<&str> = parts
            .uri
            .path()
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = segments.as_slice() else {
            return asked;
        };
        let rest = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_own_subresource(rest) => {
                asked.namespace = (*namespace).to_owned();
                rest
            }
            rest => rest,
        };
        let [resource, rest @ ..] = rest else { return asked };
        asked.resource = (*resource).to_owned();
        asked.name = rest.first().copied().unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let is_true = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.any(|(key, value)| key == name && matches!(value, "true" | "1"))
        };
        let encodings = parts.headers.get_all(header::ACCEPT_ENCODING).iter();
        asked.accepts_gzip = encodings
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.contains("gzip"));
        asked.initial_events = is_true("sendInitialEvents");
        asked.verb = verb(&parts.method, asked.name.is_empty(), is_true("watch"));
        asked
    }
}

/// `namespaces/a/status` is about the namespace, not about a resource `status` in it.
fn is_own_subresource(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

fn verb(method: &Method, is_collection: bool, is_watch: bool) -> Verb {
    match (method.as_str(), is_collection) {
        ("GET", _) if is_watch => Verb::Watch,
        ("GET", true) => Verb::List,
        ("GET", false) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::DeleteCollection,
        ("DELETE", false) => Verb::Delete,
        _ => Verb::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, expect: (Verb, &str, &str, &str)) {
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        let asked = Asked::read(&request.into_parts().0);
        assert_eq!(
            (asked.verb, &*asked.resource, &*asked.namespace, &*asked.name),
            expect,
            "{method} {uri}"
        );
    }

    #[test]
    fn reads_verb_resource_and_place() {
        check("GET", "/api/v1/pods", (Verb::List, "pods", "", ""));
        check(
            "GET",
            "/apis/x.io/v1/namespaces/n/things?watch=true",
            (Verb::Watch, "things", "n", ""),
        );
        check(
            "PATCH",
            "/api/v1/namespaces/n/pods/a/status",
            (Verb::Patch, "pods", "n", "a"),
        );
        check("GET", "/api/v1/namespaces/n", (Verb::Get, "namespaces", "", "n"));
        check(
            "PUT",
            "/api/v1/namespaces/n/status",
            (Verb::Update, "namespaces", "", "n"),
        );
        check(
            "DELETE",
            "/api/v1/nodes",
            (Verb::DeleteCollection, "nodes", "", ""),
        );
        check("GET", "/apis/x.io/v1", (Verb::Other, "", "", ""));
        check("GET", "/healthz", (Verb::Other, "", "", ""));
    }
}
