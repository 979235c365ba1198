//! Discovery documents: which groups, versions and resources there are, in the old form and the aggregated one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::definition;
use crate::present::Message;
use crate::registry::{Group, Registry, Resource, Subresource, join_group_version};

/// A discovery document that can also be written as protobuf.
pub(super) trait Document: Serialize {
    const KIND: &'static str;
    fn message(&self) -> Message;
}

/// `/api`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions {
    kind: &'static str,
    versions: Vec<String>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_addresses: [ServerAddress; 1],
}

#[derive(Debug, Serialize)]
struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    server_address: String,
}

/// `/apis`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup>,
}

/// `/apis/<group>`, or a part of `/apis`, where it does not repeat its type.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: String,
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
    version: String,
}

/// `/api/v1` and `/apis/<group>/<version>`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: String,
    kind: String,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    storage_version_hash: String,
}

pub(super) fn api_versions(registry: &Registry, server_address: String) -> ApiVersions {
    let versions = registry
        .groups()
        .iter()
        .find(|g| g.name.is_empty())
        .map(|g| g.versions.clone());
    ApiVersions {
        kind: "APIVersions",
        versions: versions.unwrap_or_default(),
        server_addresses: [ServerAddress {
            client_cidr: "0.0.0.0/0",
            server_address,
        }],
    }
}

pub(super) fn group_list(registry: &Registry) -> ApiGroupList {
    let named = registry.groups().iter().filter(|group| !group.name.is_empty());
    ApiGroupList {
        kind: ApiGroupList::KIND,
        api_version: "v1",
        groups: named.filter_map(ApiGroup::of).collect(),
    }
}

pub(super) fn group(group: &Group) -> Option<ApiGroup> {
    let group = ApiGroup::of(group)?;
    Some(ApiGroup {
        kind: Some(ApiGroup::KIND),
        api_version: Some("v1"),
        ..group
    })
}

pub(super) fn resource_list(registry: &Registry, group: &str, version: &str) -> ApiResourceList {
    ApiResourceList {
        kind: ApiResourceList::KIND,
        // The core group's list has never carried it.
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: join_group_version(group, version),
        resources: registry
            .of(group, version)
            .flat_map(|resource| resource_entries(resource))
            .collect(),
    }
}

fn resource_entries(resource: &Resource) -> Vec<ApiResource> {
    let own = ApiResource {
        name: resource.plural.clone(),
        singular_name: resource.singular.clone(),
        namespaced: resource.namespaced,
        group: String::new(),
        version: String::new(),
        kind: resource.kind.clone(),
        verbs: resource.verbs.clone(),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        storage_version_hash: storage_version_hash(resource),
    };
    let subresources = resource.subresources.iter().map(|sub| {
        let (group, version) = foreign_version(resource, sub).unwrap_or_default();
        ApiResource {
            name: format!("{}/{}", resource.plural, sub.name),
            singular_name: String::new(),
            namespaced: resource.namespaced,
            group: group.to_owned(),
            version: version.to_owned(),
            kind: sub.kind.clone(),
            verbs: sub.verbs.clone(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: String::new(),
        }
    });
    std::iter::once(own).chain(subresources).collect()
}

/// The group and version of a subresource that speaks another group's kind, such as `scale`.
fn foreign_version<'a>(resource: &Resource, sub: &'a Subresource) -> Option<(&'a str, &'a str)> {
    let is_own = sub.version.is_empty() || (sub.group == resource.group && sub.version == resource.version);
    (!is_own).then_some((&sub.group, &sub.version))
}

/// A short hash of the version objects are stored in: clients see by it that an upgrade has moved them.
fn storage_version_hash(resource: &Resource) -> String {
    // What can be listed but not watched is made up on the way out.
    if !resource.allows("watch") {
        return String::new();
    }
    // Definitions are stored in the version that was their first.
    let version = match definition::is_definition(resource) {
        true => "v1beta1",
        false => &resource.storage_version,
    };
    let stored = format!("{}/{version}/{}", resource.storage_group, resource.kind);
    STANDARD.encode(&Sha256::digest(stored)[..8])
}

impl ApiGroup {
    fn of(group: &Group) -> Option<ApiGroup> {
        let versions: Vec<GroupVersion> = group
            .versions
            .iter()
            .map(|version| GroupVersion {
                group_version: join_group_version(&group.name, version),
                version: version.clone(),
            })
            .collect();
        let preferred_version = versions.first()?.clone();
        Some(ApiGroup {
            kind: None,
            api_version: None,
            name: group.name.clone(),
            versions,
            preferred_version,
        })
    }
}

impl Document for ApiVersions {
    const KIND: &'static str = "APIVersions";

    fn message(&self) -> Message {
        let versions = Message::new().strings(1, self.versions.iter().map(String::as_str));
        self.server_addresses.iter().fold(versions, |message, address| {
            let address = Message::new()
                .string(1, address.client_cidr)
                .string(2, &address.server_address);
            message.message(2, address)
        })
    }
}

impl Document for ApiGroupList {
    const KIND: &'static str = "APIGroupList";

    fn message(&self) -> Message {
        self.groups.iter().fold(Message::new(), |message, group| {
            message.message(1, group.message())
        })
    }
}

impl Document for ApiGroup {
    const KIND: &'static str = "APIGroup";

    fn message(&self) -> Message {
        let version = |v: &GroupVersion| Message::new().string(1, &v.group_version).string(2, &v.version);
        let name = Message::new().string(1, &self.name);
        let versions = self
            .versions
            .iter()
            .fold(name, |message, v| message.message(2, version(v)));
        versions.message(3, version(&self.preferred_version))
    }
}

impl Document for ApiResourceList {
    const KIND: &'static str = "APIResourceList";

    fn message(&self) -> Message {
        let start = Message::new().string(1, &self.group_version);
        self.resources
            .iter()
            .fold(start, |message, resource| message.message(2, resource.message()))
    }
}

impl ApiResource {
    fn message(&self) -> Message {
        let verbs = Message::new().strings(1, self.verbs.iter().copied());
        Message::new()
            .string(1, &self.name)
            .flag(2, self.namespaced)
            .string(3, &self.kind)
            .message(4, verbs)
            .strings(5, self.short_names.iter().map(String::as_str))
            .string(6, &self.singular_name)
            .strings(7, self.categories.iter().map(String::as_str))
            .string(8, &self.group)
            .string(9, &self.version)
            .string(10, &self.storage_version_hash)
    }
}

/// The aggregated form: all groups with all their resources at once.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupDiscoveryList {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<GroupDiscovery>,
}

#[derive(Debug, Serialize)]
struct Empty {}

#[derive(Debug, Serialize)]
struct GroupDiscovery {
    metadata: Named,
    versions: Vec<VersionDiscovery>,
}

#[derive(Debug, Serialize)]
struct Named {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: String,
}

#[derive(Debug, Serialize)]
struct VersionDiscovery {
    version: String,
    resources: Vec<ResourceDiscovery>,
    freshness: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: String,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery {
    subresource: String,
    response_kind: ResponseKind,
    verbs: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

/// Which of the two endpoints a document is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all the others.
    Named,
}

pub(super) fn aggregated(registry: &Registry, root: Root) -> GroupDiscoveryList {
    let groups = registry
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == (root == Root::Core));
    GroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Empty {},
        items: groups.map(|group| group_discovery(registry, group)).collect(),
    }
}

fn group_discovery(registry: &Registry, group: &Group) -> GroupDiscovery {
    let versions = group.versions.iter().map(|version| {
        let mut resources: Vec<ResourceDiscovery> = registry
            .of(&group.name, version)
            .map(|resource| resource_discovery(resource))
            .collect();
        resources.sort_by(|a, b| a.resource.cmp(&b.resource));
        VersionDiscovery {
            version: version.clone(),
            resources,
            freshness: "Current",
        }
    });
    GroupDiscovery {
        metadata: Named {
            name: group.name.clone(),
        },
        versions: versions.collect(),
    }
}

fn resource_discovery(resource: &Resource) -> ResourceDiscovery {
    // Only custom resources spell out their own group and version here.
    let own = match resource.built_in() {
        Some(_) => ("", ""),
        None => (resource.group.as_str(), resource.version.as_str()),
    };
    let response_kind = |(group, version): (&str, &str), kind: &str| ResponseKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    };
    let subresources = resource.subresources.iter().map(|sub| SubresourceDiscovery {
        subresource: sub.name.clone(),
        response_kind: response_kind(foreign_version(resource, sub).unwrap_or(own), &sub.kind),
        verbs: sub.verbs.clone(),
    });
    ResourceDiscovery {
        resource: resource.plural.clone(),
        response_kind: response_kind(own, &resource.kind),
        scope: if resource.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        },
        singular_resource: resource.singular.clone(),
        verbs: resource.verbs.clone(),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        subresources: subresources.collect(),
    }
}
