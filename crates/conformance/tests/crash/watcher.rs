//! A client that keeps a copy by list and watch, through a crash.

use std::collections::BTreeMap;

use anyhow::Context;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use skopos_conformance::{Endpoint, Request};

use crate::MAPS;

/// The name of the object that marks the end of a resumed watch.
const MARK: &str = "mark";

/// A copy of the objects and the revision up to which it is true.
pub(crate) struct Watcher {
    endpoint: Endpoint,
    copy: BTreeMap<String, u64>,
    revision: u64,
}

enum End {
    Cut,
    Gone,
    Marked,
}

impl Watcher {
    /// Lists what is there.
    pub(crate) async fn start(endpoint: &Endpoint) -> anyhow::Result<Watcher> {
        let (copy, revision) = list(endpoint).await?;
        Ok(Watcher {
            endpoint: endpoint.clone(),
            copy,
            revision,
        })
    }

    /// Watches until the connection is cut.
    pub(crate) async fn follow(mut self) -> anyhow::Result<Watcher> {
        match self.watch(None).await? {
            End::Cut => Ok(self),
            End::Gone | End::Marked => anyhow::bail!("the watch ended before the crash"),
        }
    }

    /// Watches on from the last revision seen; the copy must end up equal to a fresh list.
    pub(crate) async fn resume_and_compare(mut self, endpoint: &Endpoint) -> anyhow::Result<()> {
        self.endpoint = endpoint.clone();
        let mark = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MARK}});
        let created = endpoint
            .send(Request::post(MAPS, mark.to_string()))
            .await?
            .success()?
            .json();
        let mark_revision = revision_of(&created)?;
        anyhow::ensure!(mark_revision > self.revision, "revisions went back");
        match self.watch(Some(mark_revision)).await? {
            End::Gone => {}
            End::Cut => anyhow::bail!("the resumed watch ended without its last event"),
            End::Marked => {
                let (fresh, _) = list(endpoint).await?;
                anyhow::ensure!(
                    self.copy == fresh,
                    "the watch gave {:?}, the list gives {fresh:?}",
                    self.copy
                );
            }
        }
        let delete = Request::new(http::Method::DELETE, format!("{MAPS}/{MARK}"));
        endpoint.send(delete).await?.success().map(drop)
    }

    async fn watch(&mut self, until: Option<u64>) -> anyhow::Result<End> {
        let path = format!(
            "{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={}",
            self.revision
        );
        let mut connection = self.endpoint.connect().await?;
        let response = connection.open(Request::get(path)).await?;
        if response.status() == 410 {
            return Ok(End::Gone);
        }
        anyhow::ensure!(response.status().is_success(), "watch: {}", response.status());
        let mut body = response.into_body();
        let mut rest = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).context("an event")?;
                if event["type"] == "ERROR" {
                    anyhow::ensure!(event["object"]["code"] == 410, "{event}");
                    return Ok(End::Gone);
                }
                self.apply(&event)?;
                if until.is_some_and(|until| self.revision >= until) {
                    return Ok(End::Marked);
                }
            }
        }
        Ok(End::Cut)
    }

    fn apply(&mut self, event: &Value) -> anyhow::Result<()> {
        let revision = revision_of(&event["object"])?;
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let kind = event["type"].as_str().unwrap_or_default();
        let forward = if kind == "BOOKMARK" {
            revision >= self.revision
        } else {
            revision > self.revision
        };
        anyhow::ensure!(forward, "{kind} {name} at {revision} after {}", self.revision);
        self.revision = revision;
        let fits = match kind {
            "ADDED" => self.copy.insert(name.clone(), revision).is_none(),
            "MODIFIED" => self.copy.insert(name.clone(), revision).is_some(),
            "DELETED" => self.copy.remove(&name).is_some(),
            _ => true,
        };
        anyhow::ensure!(
            fits,
            "{kind} {name} does not follow from what the watch said before"
        );
        Ok(())
    }
}

fn revision_of(object: &Value) -> anyhow::Result<u64> {
    Ok(object["metadata"]["resourceVersion"]
        .as_str()
        .context("no revision")?
        .parse()?)
}

async fn list(endpoint: &Endpoint) -> anyhow::Result<(BTreeMap<String, u64>, u64)> {
    let list = endpoint.send(Request::get(MAPS)).await?.success()?.json();
    let mut copy = BTreeMap::new();
    for item in list["items"].as_array().context("no items")? {
        let name = item["metadata"]["name"].as_str().context("no name")?;
        copy.insert(name.to_owned(), revision_of(item)?);
    }
    Ok((copy, revision_of(&list)?))
}
