//! Lists, page by page and item by item.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;
use skopos_object::{Object, raw_path};

use crate::resource::Resource;
use crate::split::{ListMeta, ListSplitter};
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
    ready: VecDeque<Bytes>,
    meta: ListMeta,
}

#[derive(Debug)]
enum Page {
    /// To be asked for.
    Next,
    /// Arriving.
    Open(Call, Box<Body>, Box<ListSplitter>),
    /// There is no other.
    Done,
}

impl ListStream {
    pub(crate) fn new(api: Api, params: ListParams) -> Self {
        Self {
            api,
            params,
            page: Page::Next,
            ready: VecDeque::new(),
            meta: ListMeta::default(),
        }
    }

    /// Returns the next object, or `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Object>, Error> {
        loop {
            if let Some(object) = self.next_of_page().await? {
                return Ok(Some(object));
            }
            match self.page {
                Page::Next => self.ask().await?,
                Page::Open(..) => {}
                Page::Done => return Ok(None),
            }
        }
    }

    /// Returns the next object of the page that was asked for, or `None` after its last.
    pub(crate) async fn next_of_page(&mut self) -> Result<Option<Object>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return object(item, self.api.resource())
                    .map(Some)
                    .map_err(|detail| self.unexpected(detail));
            }
            match self.page {
                Page::Open(..) => self.read().await?,
                Page::Next | Page::Done => return Ok(None),
            }
        }
    }

    /// Returns what the last finished page said of the list: its revision is that of the whole list.
    pub fn meta(&self) -> &ListMeta {
        &self.meta
    }

    /// Asks for the next page.
    pub(crate) async fn ask(&mut self) -> Result<(), Error> {
        let call = self.params.to_call(self.api.path());
        let response = self.api.client().open(&call).await?;
        self.page = Page::Open(call, Box::new(response.into_body()), Box::default());
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Error> {
        let Page::Open(call, body, splitter) = &mut self.page else {
            return Ok(());
        };
        let mut items = Vec::new();
        let more =
            match body.frame().await {
                None => false,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => splitter.feed(&data, &mut items).map(|()| true).map_err(|error| {
                        Error::Unexpected {
                            request: call.describe(),
                            detail: error.to_string(),
                        }
                    })?,
                    Err(_) => true,
                },
                Some(Err(source)) => {
                    return Err(Error::Interrupted {
                        request: call.describe(),
                        source: source.into(),
                    });
                }
            };
        self.ready.extend(items);
        if more { Ok(()) } else { self.end_of_page() }
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

    fn unexpected(&self, detail: String) -> Error {
        Error::Unexpected {
            request: format!("GET {}", self.api.path()),
            detail,
        }
    }
}

/// Parses an object of a list or an event, completing the kind that servers leave out of list items.
pub(crate) fn object(bytes: Bytes, resource: &Resource) -> Result<Object, String> {
    let bytes = match raw_path(&bytes, &["kind"]) {
        Some(_) => bytes,
        None => with_kind(&bytes, resource),
    };
    Object::parse(bytes).map_err(|error| error.to_string())
}

fn with_kind(bytes: &[u8], resource: &Resource) -> Bytes {
    let rest = bytes.trim_ascii_start().strip_prefix(b"{").unwrap_or(bytes);
    let comma = if rest.trim_ascii_start().starts_with(b"}") {
        ""
    } else {
        ","
    };
    let head = format!(
        r#"{{"apiVersion":"{}","kind":"{}"{comma}"#,
        resource.api_version(),
        resource.kind
    );
    let mut whole = head.into_bytes();
    whole.extend_from_slice(rest);
    whole.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use skopos_object::GroupVersionKind;

    #[test]
    fn items_get_the_kind_that_the_server_left_out() {
        let gvk = GroupVersionKind {
            group: String::new(),
            version: "v1".into(),
            kind: "Pod".into(),
        };
        let pods = Resource::known(&gvk, "pods", true);
        let whole = with_kind(br#"{"metadata":{"name":"a"}}"#, &pods);
        assert_eq!(
            whole,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#
        );
        assert_eq!(with_kind(b"{}", &pods), r#"{"apiVersion":"v1","kind":"Pod"}"#);
    }

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
