//! One resource that a server serves, and the paths that lead to it.

use skopos_object::{GroupResource, GroupVersionKind, GroupVersionResource};

/// A resource as discovery describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Kind of the objects, such as `Application`.
    pub kind: String,
    /// Name in paths, such as `applications`.
    pub plural: String,
    /// Name for one of them, such as `application`; may be empty on old servers.
    pub singular: String,
    /// Abbreviations, such as `app`.
    pub short_names: Vec<String>,
    /// Groups of resources it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// Its subresources by name, such as `status`.
    pub subresources: Vec<String>,
}

impl Resource {
    /// Describes a resource that the caller already knows, without asking discovery.
    pub fn known(gvk: &GroupVersionKind, plural: &str, namespaced: bool) -> Self {
        Self {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            kind: gvk.kind.clone(),
            plural: plural.to_owned(),
            singular: gvk.kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            verbs: Vec::new(),
            subresources: Vec::new(),
        }
    }

    /// Returns `v1` or `group/v1`, as in `apiVersion`.
    pub fn api_version(&self) -> String {
        self.gvk().api_version()
    }

    /// Returns group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
        }
    }

    /// Returns group, version and plural.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.plural.clone(),
        }
    }

    /// Returns group and plural; displays as `applications.myapps.example.com`.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.plural.clone(),
        }
    }

    /// Returns the kind as messages write it: `application.myapps.example.com`, or `pod`.
    pub fn qualified_kind(&self) -> String {
        let kind = self.kind.to_lowercase();
        match self.group.as_str() {
            "" => kind,
            group => format!("{kind}.{group}"),
        }
    }

    /// Says whether the server offers this verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Returns the path of the collection, in one namespace or over all.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", escape(&self.version)),
            group => format!("/apis/{}/{}", escape(group), escape(&self.version)),
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{}/{}", escape(namespace), escape(&self.plural)),
            None => format!("{root}/{}", escape(&self.plural)),
        }
    }

    /// Returns the path of one object, or of one of its subresources.
    pub fn object_path(&self, namespace: Option<&str>, name: &str, subresource: Option<&str>) -> String {
        let object = format!("{}/{}", self.collection_path(namespace), escape(name));
        match subresource {
            Some(subresource) => format!("{object}/{}", escape(subresource)),
            None => object,
        }
    }
}

/// Percent-encodes everything but the characters that never need it.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gvk(group: &str, kind: &str) -> GroupVersionKind {
        GroupVersionKind {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
        }
    }

    #[test]
    fn paths_follow_group_and_scope() {
        let pods = Resource::known(&gvk("", "Pod"), "pods", true);
        assert_eq!(pods.collection_path(None), "/api/v1/pods");
        assert_eq!(
            pods.object_path(Some("a"), "b", Some("status")),
            "/api/v1/namespaces/a/pods/b/status"
        );
        let nodes = Resource::known(&gvk("x.io", "Thing"), "things", false);
        assert_eq!(
            nodes.object_path(Some("ignored"), "b/c", None),
            "/apis/x.io/v1/things/b%2Fc"
        );
    }
}
