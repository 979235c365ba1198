//! What a server has sent and a client does not have yet.

use std::{collections::VecDeque, io};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

use super::{Asked, Faults, Verb};

/// A body whose data arrives late, in the order in which it was sent.
pub(super) struct Lagging {
    body: UnsyncBoxBody<Bytes, BoxError>,
    /// By whose settings, and of which resource; none if only watches lag and this is none.
    of: Option<(Faults, String)>,
    // Unbounded: as much as the server sends in the time.
    under_way: VecDeque<(Instant, io::Result<Bytes>)>,
    has_ended: bool,
}

impl Lagging {
    /// The body of an answer to `asked`.
    pub(super) fn new(body: UnsyncBoxBody<Bytes, BoxError>, asked: &Asked, faults: &Faults) -> Self {
        let is_watch = asked.verb == Verb::Watch;
        Self {
            body,
            of: is_watch.then(|| (faults.clone(), asked.resource.clone())),
            under_way: VecDeque::new(),
            has_ended: false,
        }
    }

    /// The next data, when it arrives. Nothing at the end, which arrives last.
    pub(super) async fn data(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let due = self.under_way.front().map(|(due, _)| *due);
            if due.is_none() && self.has_ended {
                return None;
            }
            tokio::select! {
                biased;
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    return self.under_way.pop_front().map(|(_, data)| data);
                }
                data = sent(&mut self.body), if !self.has_ended => match (data, self.due()) {
                    (Some(data), Some(due)) => self.under_way.push_back((due, data)),
                    (Some(data), None) => return Some(data),
                    (None, _) => self.has_ended = true,
                },
            }
        }
    }

    /// When what is sent now arrives, if not at once: not before what was sent earlier, also if the lag is shorter now.
    fn due(&self) -> Option<Instant> {
        let lag = self
            .of
            .as_ref()
            .and_then(|(faults, resource)| faults.lag_of(resource));
        let last = self.under_way.back().map(|(due, _)| *due);
        let due = lag.map(|lag| Instant::now() + lag);
        last.max(due)
    }
}

/// The next data that the server sends.
async fn sent(body: &mut UnsyncBoxBody<Bytes, BoxError>) -> Option<io::Result<Bytes>> {
    loop {
        match body.frame().await?.map(Frame::into_data) {
            Ok(Ok(data)) => return Some(Ok(data)),
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(io::Error::other(error))),
        }
    }
}
