//! [`Api`] as a [`ListWatch`], for informers and the journal.

use std::task::{Poll, ready};
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
    let mut open = Some(list);
    let items = stream::poll_fn(move |cx| {
        let Some(list) = &mut open else {
            return Poll::Ready(None);
        };
        let item = match ready!(list.poll_next_of_page(cx)) {
            Ok(Some(Ok(object))) => return Poll::Ready(Some(Ok(ListItem::Object(object)))),
            Ok(Some(Err(malformed))) => return Poll::Ready(Some(Ok(ListItem::Malformed(malformed)))),
            Ok(None) => Ok(ListItem::End(end(list.meta()))),
            Err(error) => Err(error.into()),
        };
        open = None;
        Poll::Ready(Some(item))
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
    let mut open = Some(events);
    let stream = stream::poll_fn(move |cx| {
        let Some(events) = &mut open else {
            return Poll::Ready(None);
        };
        let event = ready!(events.poll_next(cx));
        if !matches!(event, Ok(Some(_))) {
            open = None;
        }
        Poll::Ready(event.map_err(ListWatchError::from).transpose())
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
