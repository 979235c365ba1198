//! Reads from method and path what a request is about: verb, resource, namespace, name, subresource.

use http::{Method, Uri};

/// A request to a resource endpoint, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster-scoped resources and for requests over all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// What is to be done, in the words of RBAC and of the `verb` metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A method that nothing answers to.
    Unknown,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Unknown => "",
        }
    }
}

impl Target {
    /// Takes a request apart; `None` means it is not of the form of a resource endpoint.
    pub(crate) fn parse(method: &Method, uri: &Uri, query: &Query) -> Option<Target> {
        // Decoded before it is split, as Go does: an encoded slash separates too.
        let path = percent_decode(uri.path());
        let segments: Vec<String> = path.trim_matches('/').split('/').map(str::to_owned).collect();
        let (group, version, mut rest) = match segments.first().map(String::as_str)? {
            "api" => (String::new(), segments.get(1)?.clone(), segments.get(2..)?),
            "apis" => (
                segments.get(1)?.clone(),
                segments.get(2)?.clone(),
                segments.get(3..)?,
            ),
            _ => return None,
        };
        // The deprecated `/watch/` prefix means the same as `?watch=true`.
        let watch_prefix = rest.first().is_some_and(|s| s == "watch") && rest.len() > 1;
        if watch_prefix {
            rest = &rest[1..];
        }
        if rest.is_empty() || rest.iter().any(String::is_empty) {
            return None;
        }
        let (namespace, rest) = split_namespace(rest);
        if rest.len() > 3 {
            return None;
        }
        let name = rest.get(1).cloned().unwrap_or_default();
        // One object is watched through the prefix or a field selector: on a path with a name the flag is ignored.
        let watch = watch_prefix || (name.is_empty() && query.flag("watch"));
        let verb = verb_of(method, &name, watch);
        Some(Target {
            verb,
            group,
            version,
            namespace,
            resource: rest[0].clone(),
            name,
            subresource: rest.get(2).cloned().unwrap_or_default(),
        })
    }
}

/// Splits `namespaces/<ns>/<resource>…`, leaving requests about the namespace itself whole.
fn split_namespace(rest: &[String]) -> (String, &[String]) {
    let is_about_namespace = rest.len() < 3 || rest[2] == "status" || rest[2] == "finalize";
    if rest[0] != "namespaces" || is_about_namespace {
        return (String::new(), rest);
    }
    (rest[1].clone(), &rest[2..])
}

fn verb_of(method: &Method, name: &str, watch: bool) -> Verb {
    let named = !name.is_empty();
    match *method {
        Method::GET | Method::HEAD if watch => Verb::Watch,
        Method::GET | Method::HEAD if named => Verb::Get,
        Method::GET | Method::HEAD => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => Verb::Unknown,
    }
}

/// The decoded query string.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(uri: &Uri) -> Query {
        let pairs = uri
            .query()
            .unwrap_or("")
            .split('&')
            .filter(|pair| !pair.is_empty());
        Query(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (
                        percent_decode(&name.replace('+', " ")),
                        percent_decode(&value.replace('+', " ")),
                    )
                })
                .collect(),
        )
    }

    /// The first value of a parameter; an empty value counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, v)| n == name && !v.is_empty())
            .map(|(_, v)| v.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0
            .iter()
            .filter(move |(n, v)| n == name && !v.is_empty())
            .map(|(_, v)| v.as_str())
    }

    /// A boolean parameter the way upstream converts it: present and neither `false`, in letters of any case, nor `0`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .is_some_and(|(_, v)| !v.eq_ignore_ascii_case("false") && v != "0")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }
}

/// Decodes `%XX`; what is not valid stays as it is, bytes that are not UTF-8 are replaced.
pub(crate) fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = |b: u8| (b as char).to_digit(16);
        let pair = (
            bytes.get(i + 1).copied().and_then(hex),
            bytes.get(i + 2).copied().and_then(hex),
        );
        match (bytes[i], pair) {
            (b'%', (Some(high), Some(low))) => {
                out.push((high * 16 + low) as u8);
                i += 3;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, uri: &str, expect: Option<(Verb, &str)>) {
        let uri: Uri = uri.parse().unwrap();
        let found = Target::parse(method, &uri, &Query::parse(&uri));
        let shown = found.as_ref().map(|t| {
            let parts = [
                &t.group,
                &t.version,
                &t.namespace,
                &t.resource,
                &t.name,
                &t.subresource,
            ];
            (t.verb, parts.map(String::as_str).join("|"))
        });
        assert_eq!(shown, expect.map(|(verb, text)| (verb, text.to_owned())), "{uri}");
    }

    #[test]
    fn takes_paths_apart_as_upstream_does() {
        use Verb::*;
        check(&Method::GET, "/api/v1/pods", Some((List, "|v1||pods||")));
        check(
            &Method::GET,
            "/api/v1/namespaces",
            Some((List, "|v1||namespaces||")),
        );
        check(
            &Method::GET,
            "/api/v1/namespaces/a",
            Some((Get, "|v1||namespaces|a|")),
        );
        check(
            &Method::PUT,
            "/api/v1/namespaces/a/status",
            Some((Update, "|v1||namespaces|a|status")),
        );
        check(
            &Method::PUT,
            "/api/v1/namespaces/a/finalize",
            Some((Update, "|v1||namespaces|a|finalize")),
        );
        check(
            &Method::GET,
            "/api/v1/namespaces/a/pods/b",
            Some((Get, "|v1|a|pods|b|")),
        );
        check(
            &Method::GET,
            "/apis/g/v1/foos?watch=1",
            Some((Watch, "g|v1||foos||")),
        );
        check(
            &Method::GET,
            "/apis/g/v1/foos?watch=false",
            Some((List, "g|v1||foos||")),
        );
        check(
            &Method::GET,
            "/apis/g/v1/watch/namespaces/a/foos",
            Some((Watch, "g|v1|a|foos||")),
        );
        check(
            &Method::POST,
            "/apis/g/v1/namespaces/a/foos",
            Some((Create, "g|v1|a|foos||")),
        );
        check(
            &Method::PATCH,
            "/apis/g/v1/namespaces/a/foos/x/scale",
            Some((Patch, "g|v1|a|foos|x|scale")),
        );
        check(
            &Method::DELETE,
            "/apis/g/v1/namespaces/a/foos",
            Some((DeleteCollection, "g|v1|a|foos||")),
        );
        check(
            &Method::GET,
            "/apis/g/v1/foos/a%2Fb",
            Some((Get, "g|v1||foos|a|b")),
        );
    }

    #[test]
    fn leaves_other_paths_alone() {
        check(&Method::GET, "/apis/g/v1", None);
        check(&Method::GET, "/healthz", None);
        check(&Method::GET, "/apis/g/v1/namespaces/a/foos/b/c/d", None);
    }

    #[test]
    fn decodes_the_query() {
        let query = Query::parse(
            &"/x?labelSelector=a%3Db%2Cc+in+%28d%29&limit=5&empty="
                .parse()
                .unwrap(),
        );
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!(query.get("limit"), Some("5"));
        assert_eq!(query.get("empty"), None);
    }
}
