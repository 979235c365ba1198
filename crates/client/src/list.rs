//! Lists, page by page and item by item.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use skopos_object::{Malformed, Object, ObjectReader};

use crate::body::Chunks;
use crate::call::Reading;
use crate::malformed::{malformed, named, read};
use crate::split::{ItemSink, ListMeta, ListSplitter, MAX_ITEM_BYTES};
use crate::{Api, Call, Error};

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    /// Only objects with these labels; empty for all.
    pub label_selector: String,
    /// Only objects with these fields; empty for all.
    pub field_selector: String,
    /// Objects per page; 0 leaves it to the server.
    pub limit: u32,
    /// Where to go on, from the page before.
    pub continue_token: String,
    /// The revision to read at; empty for the newest.
    pub resource_version: String,
    /// How `resource_version` is meant: `Exact` or `NotOlderThan`.
    pub resource_version_match: String,
}

impl ListParams {
    pub(crate) fn to_call(&self, path: String) -> Call {
        let limit = if self.limit == 0 {
            String::new()
        } else {
            self.limit.to_string()
        };
        Call::get(path)
            .query_if("labelSelector", &self.label_selector)
            .query_if("fieldSelector", &self.field_selector)
            .query_if("limit", &limit)
            .query_if("continue", &self.continue_token)
            .query_if("resourceVersion", &self.resource_version)
            .query_if("resourceVersionMatch", &self.resource_version_match)
    }

    /// The parameters of the page after the one that gave `token`.
    fn after(&self, token: String) -> Self {
        // The token carries the revision: servers refuse both together.
        Self {
            continue_token: token,
            resource_version: String::new(),
            resource_version_match: String::new(),
            ..self.clone()
        }
    }
}

/// Objects of a list, in the order of the server, over all its pages.
#[derive(Debug)]
pub struct ListStream {
    api: Api,
    params: ListParams,
    page: Page,
    items: Items,
    meta: ListMeta,
}

/// Items that have arrived, read.
#[derive(Debug)]
struct Items {
    reader: ObjectReader,
    ready: VecDeque<Result<Object, Malformed>>,
}

#[derive(Debug)]
enum Page {
    /// To be asked for.
    Next,
    /// Arriving.
    Open(Call, Box<Chunks>, Box<ListSplitter>),
    /// There is no other.
    Done,
}

impl ListStream {
    pub(crate) fn new(api: Api, params: ListParams) -> Self {
        let reader = api.reader();
        Self {
            api,
            params,
            page: Page::Next,
            items: Items {
                reader,
                ready: VecDeque::new(),
            },
            meta: ListMeta::default(),
        }
    }

    /// Returns the next object, or `None` after the last.
    ///
    /// An object that cannot be read is an [`Error::Unexpected`]; the call after it goes on with the next one.
    pub async fn next(&mut self) -> Result<Option<Object>, Error> {
        match self.next_item().await? {
            Some(Ok(object)) => Ok(Some(object)),
            Some(Err(malformed)) => Err(self.unreadable(&malformed)),
            None => Ok(None),
        }
    }

    /// Returns the next object, or what there is of one that cannot be read, or `None` after the last.
    pub async fn next_item(&mut self) -> Result<Option<Result<Object, Malformed>>, Error> {
        loop {
            if let Some(item) = poll_fn(|cx| self.poll_next_of_page(cx)).await? {
                return Ok(Some(item));
            }
            match self.page {
                Page::Next => self.ask().await?,
                Page::Open(..) => {}
                Page::Done => return Ok(None),
            }
        }
    }

    /// Returns the next item of the page that was asked for, or `None` after its last.
    pub(crate) fn poll_next_of_page(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Result<Object, Malformed>>, Error>> {
        loop {
            if let Some(item) = self.items.ready.pop_front() {
                return Poll::Ready(Ok(Some(item)));
            }
            match self.page {
                Page::Open(..) => ready!(self.poll_read(cx))?,
                Page::Next | Page::Done => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Returns what the last finished page said of the list: its revision is that of the whole list.
    pub fn meta(&self) -> &ListMeta {
        &self.meta
    }

    /// Asks for the next page.
    pub(crate) async fn ask(&mut self) -> Result<(), Error> {
        let call = self
            .params
            .to_call(self.api.path())
            .accept(self.api.list_media_type())
            .reading(Reading::List);
        let answer = self.api.client().open(&call).await?;
        let splitter = ListSplitter::new(MAX_ITEM_BYTES);
        self.page = Page::Open(call, Box::new(answer.chunks), Box::new(splitter));
        Ok(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Page::Open(call, chunks, splitter) = &mut self.page else {
            return Poll::Ready(Ok(()));
        };
        let chunk = ready!(chunks.poll_next(cx)).map_err(|source| Error::Interrupted {
            request: call.describe(),
            source,
        })?;
        let Some(chunk) = chunk else {
            return Poll::Ready(self.end_of_page());
        };
        let fed = splitter.feed(&chunk, &mut self.items);
        Poll::Ready(fed.map_err(|error| Error::Unexpected {
            request: call.describe(),
            detail: error.to_string(),
        }))
    }

    fn end_of_page(&mut self) -> Result<(), Error> {
        let Page::Open(call, _, splitter) = std::mem::replace(&mut self.page, Page::Done) else {
            return Ok(());
        };
        self.meta = splitter.finish().map_err(|error| Error::Unexpected {
            request: call.describe(),
            detail: error.to_string(),
        })?;
        if !self.meta.continue_token.is_empty() {
            self.params = self.params.after(self.meta.continue_token.clone());
            self.page = Page::Next;
        }
        Ok(())
    }

    fn unreadable(&self, malformed: &Malformed) -> Error {
        let which = malformed
            .key
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        Error::Unexpected {
            request: format!("GET {}", self.api.path()),
            detail: format!("object {which} cannot be read: {}", malformed.reason),
        }
    }
}

impl ItemSink for Items {
    fn prefix(&mut self, rest: &[u8]) -> Option<usize> {
        // What cannot be read here is read again when its end is known.
        let (object, end) = self.reader.read_prefix(rest).ok()??;
        self.ready.push_back(named(object));
        Some(end)
    }

    fn item(&mut self, text: &[u8]) {
        self.ready.push_back(read(&self.reader, text));
    }

    fn too_large(&mut self, beginning: &[u8]) {
        let reason = format!("it is larger than {MAX_ITEM_BYTES} bytes");
        self.ready.push_back(Err(malformed(beginning, reason)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn later_pages_do_not_repeat_the_revision() {
        let first = ListParams {
            resource_version: "5".into(),
            limit: 2,
            ..ListParams::default()
        };
        let second = first.after("token".into());
        assert_eq!((second.resource_version.as_str(), second.limit), ("", 2));
        assert_eq!(second.continue_token, "token");
    }
}
