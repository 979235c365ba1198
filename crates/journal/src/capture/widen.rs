//! More objects of a collection are asked for than before: those that are new to the journal are written down, and
//! what was known goes on where it was, without a hole. What was asked for once, and not for a while, has one.

use std::sync::Arc;

use futures_util::StreamExt as _;
use skopos_object::{Collection, ListItem, ListRequest, ListWatchError, Object};

use super::{
    compare::{Batch, Comparison},
    follow::{Ended, Follower},
};
use crate::{commit::Draft, state::Position};

/// So many objects are asked for, and written down, at once.
const PAGE: usize = 500;

impl Follower {
    /// Writes down the objects that were not asked for up to `position`, and that they are from now on.
    ///
    /// The watch then goes on from `position`, which is older than what was listed; what it says about these objects
    /// again is older than what is known of them, and is left out.
    pub(super) async fn widen(
        &self,
        found: &Collection,
        collection: u32,
        comparison: &Arc<Comparison>,
        position: Position,
    ) -> Result<(), Ended> {
        let mut request = ListRequest {
            limit: Some(PAGE),
            ..ListRequest::default()
        };
        loop {
            let (objects, next) = match self.page(found, request.clone()).await {
                Ok(page) => page,
                Err(error) => {
                    self.note_trouble(&error);
                    return Err(Ended::Lost);
                }
            };
            let taken_at = (self.shared.config.now)();
            let drafts = self.newly_asked(objects, comparison).await?;
            self.write_once(drafts, taken_at).await?;
            if next.is_none() {
                break;
            }
            request.continue_token = next;
        }
        let at = position.at;
        self.write_once(vec![Draft::Position(collection, position)], at)
            .await?;
        Ok(())
    }

    /// What is to be written down of objects of which some were not asked for before.
    async fn newly_asked(
        &self,
        objects: Vec<Object>,
        comparison: &Arc<Comparison>,
    ) -> Result<Vec<Draft>, Ended> {
        let comparison = comparison.clone();
        let build = self.shared.journal.shared.at_work.spawn_blocking(move || {
            let mut batch = Batch::default();
            for object in objects {
                comparison.newly_asked(object, &mut batch);
            }
            batch
        });
        let Ok(batch) = build.await else {
            return Err(Ended::Lost);
        };
        let hole = batch
            .missed_since
            .map(|from| Draft::Hole(self.hole(from, "not_asked")));
        Ok(hole.into_iter().chain(batch.drafts).collect())
    }

    async fn page(
        &self,
        found: &Collection,
        request: ListRequest,
    ) -> Result<(Vec<Object>, Option<String>), ListWatchError> {
        let mut items = found.source.list(request).await?;
        let mut objects = Vec::new();
        while let Some(item) = items.next().await {
            match item? {
                ListItem::Object(object) => objects.push(object),
                ListItem::Malformed(object) => self.note_malformed(&object),
                ListItem::End(end) => return Ok((objects, end.continue_token)),
            }
        }
        Err(ListWatchError::Unavailable("the list was cut off".into()))
    }
}
