//! Taking over from another leader: its last writes must be in the caches before anything is done.
//!
//! A cache shows what a replica wrote itself before the next reconcile begins; of what others wrote it may be any time
//! behind. So a replica that begins to lead compares its caches with what the server has, once for each term.

use std::time::Duration;

use futures_util::StreamExt as _;
use skopos_informer::{Informer, Wanted};
use skopos_object::{
    Collections as _, Content, ListItem, ListRequest, ListWatchError, Object, OpenError, ResourceVersion,
};
use tracing::{info, warn};

use super::Shared;

/// Why the caches could not be compared.
#[derive(Debug, thiserror::Error)]
enum CompareError {
    #[error("cannot find the kind")]
    Open(#[from] OpenError),
    #[error("cannot list")]
    List(#[from] ListWatchError),
    #[error("the list was cut off")]
    CutOff,
}

impl Shared {
    /// Waits until the caches show all that was there when this replica began to lead. Once for each term, however
    /// many workers ask.
    pub(super) async fn take_over(&self) {
        let Some(epoch) = self.environment.fence.epoch() else {
            return;
        };
        let mut current = self.current.lock().await;
        if *current == Some(epoch) {
            return;
        }
        for (wanted, informer) in self.informers() {
            self.catch_up(&wanted, &informer).await;
        }
        info!(epoch, "leads, with caches that are up to date");
        *current = Some(epoch);
    }

    async fn catch_up(&self, wanted: &Wanted, informer: &Informer) {
        const PAUSE: Duration = Duration::from_secs(1);
        loop {
            match self.newest_unseen(wanted, informer).await {
                Ok(None) => return,
                Ok(Some(version)) => {
                    // One that has stopped shows nothing any more, and nobody works then.
                    let _ = informer.seen(&version).await;
                    return;
                }
                Err(error) => {
                    warn!(kind = informer.name(), %error, "cannot compare a cache with the server yet");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The newest version of an object that the server has and the cache does not. What was deleted is not looked for:
    /// an object that the cache shows too long is never made twice.
    async fn newest_unseen(
        &self,
        wanted: &Wanted,
        informer: &Informer,
    ) -> Result<Option<ResourceVersion>, CompareError> {
        let whole = wanted.name.clone().with_content(Content::Metadata);
        let mut names = vec![whole.clone()];
        if !wanted.namespaces.is_empty() {
            names = wanted
                .namespaces
                .iter()
                .map(|namespace| whole.clone().within(namespace.as_str()))
                .collect();
        }
        let mut newest = None;
        for name in names {
            let collection = match self.environment.discovery.open(&name).await {
                Err(OpenError::Missing(_)) => return Ok(None),
                found => found?,
            };
            let mut request = ListRequest {
                labels: wanted.selection.labels.clone(),
                fields: wanted.selection.fields.clone(),
                limit: Some(500),
                ..ListRequest::default()
            };
            loop {
                let mut page = collection.source.list(request.clone()).await?;
                let end = loop {
                    match page.next().await.ok_or(CompareError::CutOff)?? {
                        ListItem::Object(object) => newest = newest.max(unseen(&object, informer)),
                        ListItem::Malformed(_) => {}
                        ListItem::End(end) => break end,
                    }
                };
                match end.continue_token {
                    Some(token) => request.continue_token = Some(token),
                    None => break,
                }
            }
        }
        Ok(newest)
    }
}

fn unseen(object: &Object, informer: &Informer) -> Option<ResourceVersion> {
    let version = object.resource_version();
    let seen = informer.store().get(object.namespace(), object.name());
    let is_seen = seen.is_some_and(|seen| seen.resource_version() >= version);
    (!is_seen).then_some(version)
}
