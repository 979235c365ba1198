//! [`Api`] as a [`ListWatch`], for informers and the journal.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, stream};
use skopos_object::{
    HistoryId, ListEnd, ListItem, ListRequest, ListWatch, ListWatchError, ResourceVersion, VersionMatch,
    WatchRequest,
};

use crate::list::ListParams;
use crate::watch::WatchParams;
use crate::{Api, Error, ListMeta};

impl ListWatch for Api {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<skopos_object::ListStream, ListWatchError>> {
        list(self, request).boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<skopos_object::WatchStream, ListWatchError>> {
        watch(self, request).boxed()
    }

    fn history(&self) -> BoxFuture<'_, Result<Option<HistoryId>, ListWatchError>> {
        self.client().history().boxed()
    }
}

async fn list(api: &Api, request: ListRequest) -> Result<skopos_object::ListStream, ListWatchError> {
    let exact = request.version_match == VersionMatch::Exact;
    let version_match = match (request.resource_version.is_empty(), exact) {
        (true, _) => "",
        (false, true) => "Exact",
        (false, false) => "NotOlderThan",
    };
    let mut list = api.list(&ListParams {
        label_selector: request.labels.to_string(),
        field_selector: request.fields.to_string(),
        limit: u32::try_from(request.limit.unwrap_or_default()).unwrap_or(u32::MAX),
        continue_token: request.continue_token.unwrap_or_default(),
        resource_version: request.resource_version.as_str().to_owned(),
        resource_version_match: version_match.to_owned(),
    });
    list.ask().await?;
    let items = stream::unfold(Some(list), async |list| {
        let mut list = list?;
        match list.next_of_page().await {
            Ok(Some(Ok(object))) => Some((Ok(ListItem::Object(object)), Some(list))),
            Ok(Some(Err(malformed))) => Some((Ok(ListItem::Malformed(malformed)), Some(list))),
            Ok(None) => Some((Ok(ListItem::End(end(list.meta()))), None)),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    Ok(Box::pin(items))
}

fn end(meta: &ListMeta) -> ListEnd {
    ListEnd {
        resource_version: ResourceVersion::new(meta.resource_version.clone()),
        continue_token: Some(meta.continue_token.clone()).filter(|token| !token.is_empty()),
        remaining: meta.remaining,
    }
}

async fn watch(api: &Api, request: WatchRequest) -> Result<skopos_object::WatchStream, ListWatchError> {
    let events = Api::watch(
        api,
        &WatchParams {
            label_selector: request.labels.to_string(),
            field_selector: request.fields.to_string(),
            resource_version: request.from.as_str().to_owned(),
            initial_events: request.initial_events,
            timeout: request.timeout.unwrap_or(Duration::from_secs(290)),
        },
    )
    .await?;
    let stream = stream::unfold(Some(events), async |events| {
        let mut events = events?;
        match events.next().await {
            Ok(Some(event)) => Some((Ok(event), Some(events))),
            Ok(None) => None,
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    Ok(Box::pin(stream))
}

impl From<Error> for ListWatchError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(status) => Self::Refused(*status),
            Error::Unreachable { .. } | Error::Interrupted { .. } | Error::TimedOut { .. } => {
                Self::Unavailable(error.into())
            }
            Error::Unexpected { .. } | Error::Unsendable { .. } | Error::Withheld { .. } => {
                Self::Malformed(error.into())
            }
        }
    }
}
