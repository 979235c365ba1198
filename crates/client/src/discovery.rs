//! Asks a server what it serves: aggregated discovery where it is offered, one request per group otherwise.

use futures_util::StreamExt as _;
use serde_json::Value;

use crate::catalog::{Catalog, GroupFailure};
use crate::resource::Resource;
use crate::{Call, Client, Error};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// How many group versions are asked for at once on servers without aggregated discovery.
const CONCURRENT: usize = 8;

/// Reads everything that the server serves.
///
/// A group version that fails (an aggregated API server that is down) is noted in the catalog and does not hide
/// the others.
pub async fn discover(client: &Client) -> Result<Catalog, Error> {
    let core = Call::get("/api").accept(AGGREGATED);
    let groups = Call::get("/apis").accept(AGGREGATED);
    let (core, groups) = futures_util::future::try_join(client.call(&core), client.call(&groups)).await?;
    let mut catalog = Catalog::default();
    for root in [&core.value, &groups.value] {
        match root["kind"].as_str() {
            Some("APIGroupDiscoveryList") => aggregated(root, &mut catalog),
            _ => legacy(client, root, &mut catalog).await?,
        }
    }
    Ok(catalog)
}

fn aggregated(root: &Value, catalog: &mut Catalog) {
    for group in list(root, "items") {
        let name = text(&group["metadata"], "name");
        for version in list(group, "versions") {
            let label = text(version, "version");
            if text(version, "freshness") == "Stale" {
                catalog.failures.push(GroupFailure {
                    group: name.clone(),
                    version: label.clone(),
                    reason: "the server's information is stale".to_owned(),
                });
            }
            let resources = list(version, "resources");
            catalog.resources.extend(
                resources
                    .iter()
                    .filter_map(|r| aggregated_resource(&name, &label, r)),
            );
        }
    }
}

fn aggregated_resource(group: &str, version: &str, entry: &Value) -> Option<Resource> {
    let plural = entry["resource"].as_str()?.to_owned();
    let kind = entry["responseKind"]["kind"].as_str()?.to_owned();
    let subresources = list(entry, "subresources")
        .iter()
        .map(|s| text(s, "subresource"))
        .collect();
    Some(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind,
        plural,
        singular: text(entry, "singularResource"),
        short_names: texts(entry, "shortNames"),
        categories: texts(entry, "categories"),
        namespaced: text(entry, "scope") == "Namespaced",
        verbs: texts(entry, "verbs"),
        subresources,
    })
}

async fn legacy(client: &Client, root: &Value, catalog: &mut Catalog) -> Result<(), Error> {
    let calls = group_versions(root)
        .into_iter()
        .map(|(group, version)| async move {
            let path = if group.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{group}/{version}")
            };
            let answer = client.call(&Call::get(path)).await;
            (group, version, answer)
        });
    let mut answers = futures_util::stream::iter(calls).buffered(CONCURRENT);
    while let Some((group, version, answer)) = answers.next().await {
        match answer {
            Ok(answer) => legacy_resources(&group, &version, &answer.value, catalog),
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => catalog.failures.push(GroupFailure {
                group,
                version,
                reason: error.to_string(),
            }),
        }
    }
    Ok(())
}

/// Group versions of an `APIVersions` or `APIGroupList`, preferred version of each group first.
fn group_versions(root: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if root["kind"] == "APIVersions" {
        found.extend(
            texts(root, "versions")
                .into_iter()
                .map(|version| (String::new(), version)),
        );
    }
    for group in list(root, "groups") {
        let name = text(group, "name");
        let preferred = text(&group["preferredVersion"], "version");
        let mut versions: Vec<String> = list(group, "versions")
            .iter()
            .map(|v| text(v, "version"))
            .collect();
        versions.sort_by_key(|version| *version != preferred);
        found.extend(versions.into_iter().map(|version| (name.clone(), version)));
    }
    found
}

fn legacy_resources(group: &str, version: &str, answer: &Value, catalog: &mut Catalog) {
    let first = catalog.resources.len();
    for entry in list(answer, "resources") {
        let name = text(entry, "name");
        match name.split_once('/') {
            None => catalog.resources.push(Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: text(entry, "kind"),
                plural: name,
                singular: text(entry, "singularName"),
                short_names: texts(entry, "shortNames"),
                categories: texts(entry, "categories"),
                namespaced: entry["namespaced"].as_bool().unwrap_or_default(),
                verbs: texts(entry, "verbs"),
                subresources: Vec::new(),
            }),
            Some((plural, subresource)) => {
                let parent = catalog.resources[first..].iter_mut().find(|r| r.plural == plural);
                if let Some(parent) = parent {
                    parent.subresources.push(subresource.to_owned());
                }
            }
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name)
        .iter()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_aggregated_groups_in_the_servers_order() {
        let root = json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "x.io"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [{
                "resource": "things", "responseKind": {"group": "x.io", "version": "v2", "kind": "Thing"},
                "scope": "Namespaced", "singularResource": "thing", "shortNames": ["th"], "verbs": ["get"],
                "subresources": [{"subresource": "status"}]}]},
            {"version": "v1", "freshness": "Stale"}]}]});
        let mut catalog = Catalog::default();
        aggregated(&root, &mut catalog);
        let thing = &catalog.resources[0];
        assert_eq!(
            (thing.version.as_str(), thing.kind.as_str(), thing.namespaced),
            ("v2", "Thing", true)
        );
        assert_eq!(thing.subresources, ["status"]);
        assert_eq!(
            catalog.failures[0].to_string(),
            "x.io/v1: the server's information is stale"
        );
    }

    #[test]
    fn legacy_groups_start_with_the_preferred_version() {
        let root = json!({"kind": "APIGroupList", "groups": [{"name": "x.io",
            "versions": [{"version": "v1"}, {"version": "v2"}], "preferredVersion": {"version": "v2"}}]});
        assert_eq!(
            group_versions(&root),
            [("x.io".into(), "v2".into()), ("x.io".into(), "v1".into())]
        );
    }

    #[test]
    fn legacy_subresources_are_attached_to_their_resource() {
        let answer = json!({"resources": [
            {"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get"]},
            {"name": "pods/status", "kind": "Pod", "namespaced": true, "verbs": ["get"]}]});
        let mut catalog = Catalog::default();
        legacy_resources("", "v1", &answer, &mut catalog);
        assert_eq!(catalog.resources.len(), 1);
        assert_eq!(catalog.resources[0].subresources, ["status"]);
    }
}
