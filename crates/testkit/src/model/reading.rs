//! Lists of a [`ModelSource`].

use futures_util::stream;
use skopos_object::{
    ListEnd, ListItem, ListRequest, ListStream, ListWatchError, Object, Status, VersionMatch,
};

use tokio_util::sync::CancellationToken;

use super::{
    ModelSource,
    collection::number,
    disturbance::{Budget, Spent, spoiled},
    is_selected, unavailable,
};
use crate::Fault;

/// A page on its way to the reader.
struct Reading {
    items: std::vec::IntoIter<ListItem>,
    budget: Budget,
    open: CancellationToken,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<ListItem, ListWatchError>> {
        if self.open.is_cancelled() {
            return Some(Err(unavailable("connection reset")));
        }
        let item = self.items.next()?;
        let size = match &item {
            ListItem::Object(object) => object.bytes().len(),
            _ => 1,
        };
        match self.budget.spend(size) {
            Spent::Fine => Some(Ok(item)),
            Spent::Ended => None,
            Spent::Cut => Some(Err(unavailable("connection reset"))),
            Spent::Stalled => {
                self.open.cancelled().await;
                Some(Err(unavailable("connection reset")))
            }
        }
    }
}

fn disturbed(mut items: Vec<ListItem>, fault: Option<&Fault>) -> Vec<ListItem> {
    if let Some(Fault::Malformed { nth }) = fault
        && let Some(item) = items.get_mut(*nth)
        && let ListItem::Object(object) = item
    {
        *item = ListItem::Malformed(spoiled(object));
    }
    items
}

impl ModelSource {
    pub(super) fn read(
        &self,
        request: &ListRequest,
        fault: Option<&Fault>,
    ) -> Result<ListStream, ListWatchError> {
        let items = self.page(request).map_err(ListWatchError::Refused)?;
        let reading = Reading {
            items: disturbed(items, fault).into_iter(),
            budget: Budget::of(fault),
            open: self.faults().open(),
        };
        let list = stream::unfold(Some(reading), async |reading| {
            let mut reading = reading?;
            match reading.next().await? {
                Ok(item) => Some((Ok(item), Some(reading))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(list))
    }

    /// One page: its objects, then its end.
    fn page(&self, request: &ListRequest) -> Result<Vec<ListItem>, Status> {
        let collection = self.collection();
        let (version, after) = match &request.continue_token {
            Some(token) => parse_token(token)?,
            None => {
                let asked = number(&request.resource_version)?;
                if asked > collection.version {
                    return Err(Status::too_large_resource_version(asked, collection.version, 1));
                }
                let is_exact = request.version_match == VersionMatch::Exact && asked > 0;
                (if is_exact { asked } else { collection.version }, None)
            }
        };
        let objects = collection.at(version)?;
        let mut chosen: Vec<&Object> = objects
            .values()
            .filter(|object| is_selected(object, &request.labels, &request.fields))
            .filter(|object| {
                after
                    .as_ref()
                    .is_none_or(|after| object.key().to_string() > *after)
            })
            .collect();
        // Keys of a map are ordered by namespace and name; tokens compare them as text.
        chosen.sort_by_key(|object| object.key().to_string());
        let rest = chosen.split_off(request.limit.unwrap_or(chosen.len()).min(chosen.len()));
        let more = (!rest.is_empty()).then(|| chosen.last()).flatten();
        let end = ListEnd {
            resource_version: version.into(),
            continue_token: more.map(|last| format!("{version}:{}", last.key())),
            remaining: more.map(|_| rest.len() as u64),
        };
        let items = chosen.into_iter().cloned().map(ListItem::Object);
        Ok(items.chain([ListItem::End(end)]).collect())
    }
}

fn parse_token(token: &str) -> Result<(u64, Option<String>), Status> {
    let parsed = token
        .split_once(':')
        .and_then(|(version, key)| Some((version.parse().ok()?, Some(key.to_owned()))));
    parsed.ok_or_else(|| Status::bad_request("invalid continue token"))
}
