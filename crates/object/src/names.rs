//! Names of kinds, resources and objects, and the order of API versions.

use std::{cmp::Ordering, fmt, str::FromStr};

/// An API group and one of its versions. The core group is the empty string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1` or `v1beta1`.
    pub version: String,
}

/// The text is not of the form `version` or `group/version`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseGroupVersionError(String);

impl GroupVersion {
    /// Names a group and version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// The kind `kind` of this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: kind.into(),
        }
    }

    /// The resource `resource` of this group and version.
    pub fn with_resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text == "/" {
            return Ok(Self::default());
        }
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(ParseGroupVersionError(text.to_owned())),
        }
    }
}

/// A kind in one version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
}

impl GroupVersionKind {
    /// Names a kind.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// Reads the kind from an object's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Result<Self, ParseGroupVersionError> {
        Ok(api_version.parse::<GroupVersion>()?.with_kind(kind))
    }

    /// The value of `apiVersion` in objects of this kind.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The group and version without the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.as_str(), self.version.as_str())
    }

    /// The group and kind without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.as_str(), self.kind.as_str())
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource (the plural in the URL) in one version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource, such as `pods`.
    pub resource: String,
}

impl GroupVersionResource {
    /// Names a resource.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// The group and version without the resource.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.as_str(), self.version.as_str())
    }

    /// The group and resource without the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.resource.as_str())
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// A kind of any version. Shown as `Foo.example.com`, or `Pod` in the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl GroupKind {
    /// Names a kind.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

/// A resource of any version. Shown as `foos.example.com`, or `pods` in the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource.
    pub resource: String,
}

impl GroupResource {
    /// Names a resource.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }

    /// Whether neither group nor resource is named.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.resource, &self.group)
    }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() {
        Ok(())
    } else {
        write!(f, ".{group}")
    }
}

/// Which object of a resource: its namespace and name. An empty namespace means cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// Names an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Names a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: String::new(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl From<&str> for ObjectKey {
    /// Splits at the first slash: `ns/name`, or a bare `name` for a cluster-scoped object.
    fn from(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self::namespaced(namespace, name),
            None => Self::cluster(text),
        }
    }
}

/// Orders API versions by how much they are to be preferred: the greater one is the preferred one.
///
/// Released versions come above beta, beta above alpha, then the higher number wins. Names that
/// do not follow the pattern `v1`, `v1beta1`, `v1alpha1` rank below all that do; among them the
/// one that sorts first alphabetically is the greater. Sort in descending order to get the order
/// of discovery documents.
///
/// ```
/// let mut versions = ["v1alpha1", "foo", "v2", "v1", "v1beta2", "v10"];
/// versions.sort_by(|a, b| skopos_object::compare_versions(b, a));
/// assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1alpha1", "foo"]);
/// ```
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (KubeVersion::parse(a), KubeVersion::parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

// Field order is comparison order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct KubeVersion {
    stability: Stability,
    major: u64,
    minor: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Released,
}

impl KubeVersion {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (major, rest) = rest.split_at(digits);
        let major = number(major)?;
        let (stability, minor) = if rest.is_empty() {
            (Stability::Released, 0)
        } else if let Some(minor) = rest.strip_prefix("alpha") {
            (Stability::Alpha, number(minor)?)
        } else {
            (Stability::Beta, number(rest.strip_prefix("beta")?)?)
        };
        Some(Self {
            stability,
            major,
            minor,
        })
    }
}

fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse::<i64>().ok().map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_versions_parse_and_print() {
        for text in ["v1", "apps/v1", "example.com/v1beta1"] {
            assert_eq!(text.parse::<GroupVersion>().unwrap().to_string(), text);
        }
        assert_eq!("".parse::<GroupVersion>().unwrap(), GroupVersion::default());
        let error = "a/b/c".parse::<GroupVersion>().unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn qualified_names_leave_out_the_core_group() {
        assert_eq!(GroupKind::new("", "Pod").to_string(), "Pod");
        assert_eq!(
            GroupKind::new("example.com", "Foo").to_string(),
            "Foo.example.com"
        );
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(
            GroupResource::new("example.com", "foos").to_string(),
            "foos.example.com"
        );
    }

    #[test]
    fn keys_print_and_parse() {
        for text in ["ns/name", "name"] {
            assert_eq!(ObjectKey::from(text).to_string(), text);
        }
    }

    #[test]
    fn versions_order_by_stability_then_number() {
        let sorted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v",
            "v1gamma1",
            "version",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare_versions(a, b), j.cmp(&i), "{a} and {b}");
            }
        }
    }
}
