//! Watches that go on where another ended, and that are told to start anew.

use futures_util::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use serde_json::json;

use crate::server::{Server, app};

/// More of them than the embedded server keeps of one kind, which is 32 MiB of replaced values.
const N_LARGE_CHANGES: usize = 34;

/// Reads events since a version until one that is wanted.
async fn until(
    apps: &Api<DynamicObject>,
    version: &str,
    wanted: impl Fn(&WatchEvent<DynamicObject>) -> bool,
) -> anyhow::Result<Vec<WatchEvent<DynamicObject>>> {
    let mut events = apps.watch(&WatchParams::default(), version).await?.boxed();
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await? {
        let is_last = wanted(&event);
        seen.push(event);
        if is_last {
            return Ok(seen);
        }
    }
    anyhow::bail!("the watch ended after {seen:?}")
}

async fn version(apps: &Api<DynamicObject>) -> anyhow::Result<String> {
    let list = apps.list_metadata(&ListParams::default()).await?;
    Ok(list.metadata.resource_version.unwrap_or_default())
}

fn is_deleted(event: &WatchEvent<DynamicObject>) -> bool {
    matches!(event, WatchEvent::Deleted(_))
}

pub(crate) async fn by_label(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    let from = apps
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut events = apps
        .watch(&WatchParams::default().labels("tour=rust"), &from)
        .await?
        .boxed();
    apps.create(&PostParams::default(), &app("seen")?).await?;
    apps.patch(
        "seen",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"replicas": 2}})),
    )
    .await?;
    apps.delete("seen", &DeleteParams::default()).await?;
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await? {
        seen.push(match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => break,
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified"]);
    Ok(())
}

pub(crate) async fn resumes(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    let before = version(apps).await?;
    apps.create(&PostParams::default(), &app("watched")?).await?;
    let first = until(apps, &before, |_| true).await?;
    let [WatchEvent::Added(added)] = first.as_slice() else {
        anyhow::bail!("not one that was added: {first:?}");
    };
    // Nobody watches while these happen.
    let change = Patch::Merge(json!({"spec": {"replicas": 2}}));
    apps.patch("watched", &PatchParams::default(), &change).await?;
    apps.delete("watched", &DeleteParams::default()).await?;
    let from = added.metadata.resource_version.clone().unwrap_or_default();
    let rest = until(apps, &from, is_deleted).await?;
    assert!(
        matches!(rest.as_slice(), [WatchEvent::Modified(_), WatchEvent::Deleted(_)]),
        "{rest:?}"
    );
    Ok(())
}

/// Asks for everything since the first revision, after more changes than the server keeps, and begins anew from a list.
pub(crate) async fn from_expired_version(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    apps.create(&PostParams::default(), &app("anew")?).await?;
    // The real server keeps nothing from before the kind was defined.
    if !is_first_revision_expired(apps).await? {
        write_much(apps).await?;
        assert!(is_first_revision_expired(apps).await?, "it is still there");
    }
    let anew = version(apps).await?;
    apps.delete("anew", &DeleteParams::default()).await?;
    until(apps, &anew, is_deleted).await?;
    Ok(())
}

async fn is_first_revision_expired(apps: &Api<DynamicObject>) -> anyhow::Result<bool> {
    let told = until(apps, "1", |_| true).await?;
    let [WatchEvent::Error(error)] = told.as_slice() else {
        return Ok(false);
    };
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"));
    Ok(true)
}

async fn write_much(apps: &Api<DynamicObject>) -> anyhow::Result<()> {
    let mut large = app("large")?;
    large.data["spec"]["settings"] = json!({"filler": "x".repeat(1 << 20)});
    apps.create(&PostParams::default(), &large).await?;
    for number in 0..N_LARGE_CHANGES {
        let change = Patch::Merge(json!({"spec": {"replicas": number}}));
        apps.patch_metadata("large", &PatchParams::default(), &change)
            .await?;
    }
    apps.delete("large", &DeleteParams::default()).await?;
    Ok(())
}
