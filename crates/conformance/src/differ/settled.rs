//! Lets a server's cache catch up before an object is written again.
//!
//! kube-apiserver makes a write from the object in its cache first. If that is behind the stored one, it begins again with
//! the stored one, and answers with the warnings of both attempts: what was compared would depend on how busy it is.

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;

/// What the objects of a scenario were when they were last written.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// By plural and name: the versions of a kind have caches of their own.
    versions: BTreeMap<String, String>,
}

impl Settled {
    /// Remembers the version that an answer to a write tells of.
    pub(super) fn written(&mut self, method: &Method, path: &str, body: &Value) {
        let metadata = &body["metadata"];
        let (Some(name), Some(version)) = (metadata["name"].as_str(), metadata["resourceVersion"].as_str())
        else {
            return;
        };
        let object = match *method {
            Method::POST => object(&format!("{}/{name}", plain(path))).map(key),
            Method::PUT | Method::PATCH => object(plain(path)).map(key),
            _ => None,
        };
        if let Some(object) = object {
            self.versions.insert(object, version.to_owned());
        }
    }

    /// What to read before a write, so that the cache has what was written last.
    pub(super) fn read_before(&self, method: &Method, path: &str) -> Option<String> {
        if !matches!(*method, Method::PUT | Method::PATCH | Method::DELETE) {
            return None;
        }
        let object = object(plain(path))?;
        let version = self.versions.get(&key(object))?;
        Some(format!("{object}?resourceVersion={version}"))
    }
}

fn plain(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// The path of the object that a path leads to, without its subresource. Nothing for a collection.
fn object(path: &str) -> Option<&str> {
    let ends: Vec<usize> = path
        .match_indices('/')
        .map(|(at, _)| at)
        .skip(1)
        .chain([path.len()])
        .collect();
    let before = match path.split('/').nth(1)? {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    let namespaced = path.split('/').nth(before + 1)? == "namespaces" && ends.len() >= before + 4;
    let n_parts = before + if namespaced { 4 } else { 2 };
    ends.get(n_parts - 1).map(|end| &path[..*end])
}

/// Plural and name.
fn key(object: &str) -> String {
    let name = object.rfind('/').unwrap_or(0);
    let plural = object[..name].rfind('/').unwrap_or(0);
    object[plural..].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_what_was_written_last_in_the_version_that_is_written() {
        let mut settled = Settled::default();
        let answer = |version: &str| json!({"metadata": {"name": "pa", "resourceVersion": version}});
        settled.written(
            &Method::POST,
            "/apis/g/v1/namespaces/n/pots?dryRun=",
            &answer("3"),
        );
        settled.written(
            &Method::PATCH,
            "/apis/g/v1/namespaces/n/pots/pa/status",
            &answer("4"),
        );
        let before = |method, path| settled.read_before(&method, path);
        assert_eq!(
            before(
                Method::PUT,
                "/apis/g/v2/namespaces/n/pots/pa/scale?fieldManager=m"
            )
            .as_deref(),
            Some("/apis/g/v2/namespaces/n/pots/pa?resourceVersion=4")
        );
        assert_eq!(before(Method::GET, "/apis/g/v1/namespaces/n/pots/pa"), None);
        assert_eq!(before(Method::DELETE, "/apis/g/v1/namespaces/n/pots"), None);
    }

    #[test]
    fn tells_objects_from_collections() {
        for (path, expected) in [
            ("/api/v1/namespaces/n", Some("/api/v1/namespaces/n")),
            (
                "/api/v1/namespaces/n/pods/p/status",
                Some("/api/v1/namespaces/n/pods/p"),
            ),
            ("/api/v1/nodes", None),
            ("/apis/g/v1/rooms/r/status", Some("/apis/g/v1/rooms/r")),
            ("/apis/g/v1", None),
            ("/healthz", None),
        ] {
            assert_eq!(object(path), expected, "{path}");
        }
    }
}
