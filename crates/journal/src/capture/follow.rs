//! One collection, from wherever the journal ends.

#[cfg(test)]
mod tests;

use std::{io, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use jiff::Timestamp;
use skopos_informer::{ListReason, Reflector, Report};
use skopos_object::{
    Collection, Content, HistoryId, ListWatch, ManagedFields, Op, OpenError, ResourceVersion,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Asked, Phase, Selection, Shared,
    compare::{Batch, Comparison},
    session::Session,
};
use crate::{
    CommitError, Hole, Observed, Seq,
    commit::{Draft, Transaction},
    redact::Redactor,
    state::{About, Position},
};

/// No wait for something to be served is longer than so many first ones.
const LONGEST_RETRY: u32 = 10;
/// A collection that says so often in a row that it is not there is looked for anew.
const NOT_FOUND: u32 = 2;
/// After a watch was opened anew, what comes within this time is from before.
const CATCHING_UP: Duration = Duration::from_secs(1);
/// So long a source has to say which history it has.
const ASKING: Duration = Duration::from_secs(30);

pub(super) struct Follower {
    pub(super) shared: Arc<Shared>,
    pub(super) asked: Asked,
    pub(super) name: String,
}

/// Why following came to an end for now.
pub(super) enum Ended {
    /// It may be served by something else, or by nothing.
    Lost,
    /// The journal takes no more changes.
    Failed(CommitError),
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>, asked: Asked) -> Self {
        let name = asked.name.to_string();
        Self { shared, asked, name }
    }

    pub(super) async fn run(self, stop: CancellationToken) {
        self.set_phase(Phase::Listing);
        stop.run_until_cancelled(self.follow_on()).await;
    }

    /// Follows, and begins anew after a panic: what is on disk tells from where.
    async fn follow_on(&self) {
        while AssertUnwindSafe(self.follow()).catch_unwind().await.is_err() {
            tracing::error!(
                collection = self.name,
                "capturing a collection panicked, and is begun anew"
            );
            self.note_trouble(&io::Error::other("capturing it panicked"));
            self.set_phase(Phase::Listing);
            tokio::time::sleep(self.shared.config.retry * LONGEST_RETRY).await;
        }
    }

    async fn follow(&self) {
        let first_retry = self.shared.config.retry;
        let mut retry = first_retry;
        // Managed fields tell who wrote; nothing else of them is written down.
        let with_writers = Content::Full(ManagedFields::Keep);
        let name = self.asked.name.clone().with_content(with_writers);
        loop {
            match self.shared.collections.reopen(&name).await {
                Ok(found) => match self.follow_found(found).await {
                    Ended::Lost => retry = first_retry,
                    Ended::Failed(error) => {
                        self.set_phase(Phase::Failed(error.to_string()));
                        return;
                    }
                },
                Err(error) => {
                    self.set_phase(Phase::NotServed(error.to_string()));
                    if matches!(error, OpenError::Missing(_)) {
                        self.all_gone().await;
                    }
                }
            }
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(first_retry * LONGEST_RETRY);
        }
    }

    /// There is certainly no such collection: what was in it is gone.
    async fn all_gone(&self) {
        let journal = &self.shared.journal;
        let found = {
            let state = journal.shared.read();
            let number = state.collection(&self.shared.config.source, &self.name);
            number.and_then(|number| {
                let collection = state.get(number)?;
                let at = collection.position.as_ref().map(|position| position.at);
                (!collection.objects.is_empty()).then_some((number, at.unwrap_or(state.newest)))
            })
        };
        let Some((number, after)) = found else {
            return;
        };
        let redactor = Redactor::new(self.asked.redact.clone());
        let comparison = Comparison::new(journal.clone(), number, redactor);
        // Together with the first deletions, or they would be there without it after a crash.
        let mut drafts = vec![Draft::Hole(self.hole(after, "kind_gone"))];
        loop {
            let mut batch = Batch::default();
            // No list is ever of this generation.
            for key in comparison.unlisted(u32::MAX) {
                comparison.gone(&key, Observed::Relist { after }, &mut batch);
            }
            if batch.drafts.is_empty() {
                return;
            }
            drafts.append(&mut batch.drafts);
            let transaction = self.transaction(std::mem::take(&mut drafts));
            if self.shared.journal.commit(transaction).await.is_err() {
                return;
            }
        }
    }

    /// From then until now objects may have changed, come and gone unseen; what was found out of it is written down next.
    pub(super) fn hole(&self, from: Timestamp, reason: &str) -> Hole {
        let head = self.shared.journal.shared.read().head;
        Hole {
            collection: self.name.clone(),
            from,
            to: (self.shared.config.now)(),
            reason: reason.into(),
            seq: Seq(head.0 + 1),
        }
    }

    async fn follow_found(&self, found: Collection) -> Ended {
        let mut session = match self.begin(&found).await {
            Ok(session) => session,
            Err(ended) => return ended,
        };
        loop {
            let reports = session.reflector.next().await;
            if let Err(ended) = self.take(&mut session, reports).await {
                return ended;
            }
        }
    }

    /// Finds out from where to go on.
    async fn begin(&self, found: &Collection) -> Result<Session, Ended> {
        let collection = self.number(found).await?;
        let position = {
            let state = self.shared.journal.shared.read();
            state.get(collection).and_then(|one| one.position.clone())
        };
        let known = position.as_ref().and_then(|known| known.history.clone());
        let history = history(&*found.source, known.clone()).await;
        let is_other = match (known, &history) {
            (Some(known), Some(now)) => known != *now,
            _ => false,
        };
        let from = match &position {
            Some(position) if !is_other => position.version.clone(),
            _ => ResourceVersion::default(),
        };
        let doubt = match is_other {
            true => (ListReason::OtherHistory.as_str(), false),
            false => ("damaged", true),
        };
        let comparison = Arc::new(self.comparison(collection, position.as_ref()));
        if let Some(position) = &position
            && !from.is_empty()
            && comparison.asks_for_more()
        {
            let position = Position {
                selection: self.asked.selection.to_text(),
                ..position.clone()
            };
            self.widen(found, collection, &comparison, position).await?;
        }
        Ok(Session {
            collection,
            source: found.source.clone(),
            comparison,
            reflector: Reflector::resume(found.source.clone(), self.shared.config.reflector.clone(), from),
            history,
            known_until: position.map(|position| position.at),
            doubt,
            generation: 0,
            list: None,
            resumed_until: None,
            n_not_found: 0,
        })
    }

    fn comparison(&self, collection: u32, position: Option<&Position>) -> Comparison {
        let redactor = Redactor::new(self.asked.redact.clone());
        let before = position.map(|position| Selection::from_text(&position.selection));
        Comparison::new(self.shared.journal.clone(), collection, redactor)
            .within(self.asked.selection.clone(), before.unwrap_or_default())
    }

    /// The number of the collection, which it gets now if it has none.
    async fn number(&self, found: &Collection) -> Result<u32, Ended> {
        let about = About {
            source: self.shared.config.source.clone(),
            name: self.name.clone(),
            kind: found.kind.clone(),
            plural: found.plural.clone(),
            singular: found.singular.clone(),
            short_names: found.short_names.clone(),
        };
        // Behind whatever an earlier follower of the same collection still had under way.
        self.write(Vec::new).await?;
        loop {
            let known = {
                let state = self.shared.journal.shared.read();
                let number = state.collection(&about.source, &about.name);
                number.filter(|number| state.get(*number).is_some_and(|one| one.about == about))
            };
            if let Some(number) = known {
                return Ok(number);
            }
            self.write(|| vec![Draft::Collection(about.clone())]).await?;
        }
    }

    /// Writes down what reports say.
    async fn take(&self, session: &mut Session, reports: Vec<Report>) -> Result<(), Ended> {
        let mut objects = Vec::new();
        let mut heard = false;
        for report in reports {
            match report {
                Report::Applied(ref object)
                | Report::Deleted(ref object)
                | Report::Listed(ref object)
                | Report::Unlisted(ref object) => {
                    self.note_readable(|| object.key());
                    objects.push(report);
                }
                Report::Bookmark(_) => heard = true,
                Report::Replace { reason } => {
                    self.flush(session, &mut objects, None).await?;
                    session.begin_list(reason, self.shared.journal.shared.next_list());
                    self.forget_unreadable();
                    self.set_phase(Phase::Listing);
                }
                Report::Replaced { version } => {
                    self.flush(session, &mut objects, None).await?;
                    self.finish_list(session, version).await?;
                }
                Report::Watching => {
                    session.resumed_until = Some(Instant::now() + CATCHING_UP);
                    session.n_not_found = 0;
                    // A list may come through a watch; then it is not complete yet.
                    if session.list.is_none() && !session.reflector.position().is_empty() {
                        self.set_phase(Phase::Watching);
                    }
                }
                Report::Resumed => session.resumed_until = Some(Instant::now() + CATCHING_UP),
                Report::Malformed { op, ref object } => {
                    match (&object.key, op) {
                        (Some(key), Op::Deleted) => self.note_readable(|| key.clone()),
                        _ => self.note_malformed(object),
                    }
                    if let (None, Some(list)) = (&object.key, &mut session.list) {
                        list.has_nameless = true;
                    }
                    objects.push(report);
                }
                Report::Trouble { error, .. } => {
                    self.note_trouble(&error);
                    session.n_not_found = match error.is_not_found() {
                        true => session.n_not_found + 1,
                        false => 0,
                    };
                }
            }
        }
        let n_objects = objects.len();
        let position = self.live_position(session);
        self.flush(session, &mut objects, position.clone()).await?;
        if let (true, 0, Some(position)) = (heard, n_objects, position) {
            let at = position.at;
            self.write_once(vec![Draft::Position(session.collection, position)], at)
                .await?;
            session.known_until = Some(at);
            self.note_heard();
        }
        match session.n_not_found >= NOT_FOUND {
            true => Err(Ended::Lost),
            false => Ok(()),
        }
    }

    /// Writes down objects, and how far the collection is known with them. That is not yet known before the last of a batch:
    /// the reflector is already as far as that.
    async fn flush(
        &self,
        session: &mut Session,
        objects: &mut Vec<Report>,
        position: Option<Position>,
    ) -> Result<(), Ended> {
        if objects.is_empty() {
            return Ok(());
        }
        let taken_at = (self.shared.config.now)();
        let reports = Arc::new(std::mem::take(objects));
        let comparison = session.comparison.clone();
        let observed = session.observed();
        let comparable = session.list.as_ref().is_none_or(|list| list.comparable);
        let build = self.shared.journal.shared.at_work.spawn_blocking(move || {
            let mut batch = Batch::default();
            for report in reports.iter() {
                match report {
                    Report::Applied(object) | Report::Deleted(object)
                        if comparable && comparison.is_past(object, &batch) => {}
                    Report::Applied(object) => comparison.applied(object.clone(), observed, &mut batch),
                    Report::Listed(object) => {
                        comparison.listed(object.clone(), observed, comparable, &mut batch);
                    }
                    Report::Deleted(object) | Report::Unlisted(object) => {
                        comparison.deleted(object.clone(), observed, &mut batch);
                    }
                    Report::Malformed { op, object } => {
                        comparison.unreadable(*op, object, observed, &mut batch);
                    }
                    _ => {}
                }
            }
            batch
        });
        let Ok(mut batch) = build.await else {
            return Err(Ended::Lost);
        };
        let mut drafts = std::mem::take(&mut batch.drafts);
        let is_live = position.is_some();
        if let Some(position) = position {
            session.known_until = Some(position.at);
            drafts.push(Draft::Position(session.collection, position));
        }
        let head = self.write_once(drafts, taken_at).await?;
        if let (Some(list), Some(head)) = (&mut session.list, head) {
            list.first.get_or_insert(head);
        }
        session.comparison.mark(batch, session.generation);
        if is_live {
            self.note_heard();
        }
        Ok(())
    }

    /// A list is complete: what was not in it is gone, unless it may be what could not be read.
    async fn finish_list(&self, session: &mut Session, version: ResourceVersion) -> Result<(), Ended> {
        let (observed, taken_at) = (session.observed(), (self.shared.config.now)());
        while !session.list.as_ref().is_some_and(|list| list.has_nameless) {
            let (comparison, generation) = (session.comparison.clone(), session.generation);
            let build = self.shared.journal.shared.at_work.spawn_blocking(move || {
                let mut batch = Batch::default();
                for key in comparison.unlisted(generation) {
                    comparison.gone(&key, observed, &mut batch);
                }
                batch
            });
            let Ok(mut batch) = build.await else {
                return Err(Ended::Lost);
            };
            if batch.drafts.is_empty() {
                break;
            }
            let head = self
                .write_once(std::mem::take(&mut batch.drafts), taken_at)
                .await?;
            if let (Some(list), Some(head)) = (&mut session.list, head) {
                list.first.get_or_insert(head);
            }
        }
        // The list may be of another history than the one that the session began with.
        session.history = history(&*session.source, session.history.take()).await;
        let position = self.position(session, version);
        let mut drafts = vec![Draft::Position(session.collection, position.clone())];
        if let (Some(list), Some(from)) = (&session.list, session.known_until) {
            let head = self.shared.journal.shared.read().head;
            drafts.push(Draft::Hole(Hole {
                collection: self.name.clone(),
                from,
                to: position.at,
                reason: list.reason.into(),
                seq: list.first.unwrap_or(Seq(head.0 + 1)),
            }));
        }
        self.write_once(drafts, taken_at).await?;
        session.list = None;
        session.known_until = Some(position.at);
        self.set_phase(Phase::Watching);
        self.note_heard();
        Ok(())
    }

    /// How far the collection is known, unless it is being listed.
    fn live_position(&self, session: &Session) -> Option<Position> {
        let version = session.reflector.position();
        let is_live = session.list.is_none() && !version.is_empty();
        is_live.then(|| self.position(session, version.clone()))
    }

    fn position(&self, session: &Session, version: ResourceVersion) -> Position {
        Position {
            version,
            history: session.history.clone(),
            at: (self.shared.config.now)(),
            selection: self.asked.selection.to_text(),
        }
    }

    fn transaction(&self, drafts: Vec<Draft>) -> Transaction {
        Transaction {
            at: (self.shared.config.now)(),
            drafts,
        }
    }

    /// Writes what is built each time anew, until there is room. Says which change was the first.
    async fn write(&self, build: impl Fn() -> Vec<Draft>) -> Result<Option<Seq>, Ended> {
        loop {
            let drafts = build();
            let n_changes = drafts
                .iter()
                .filter(|draft| matches!(draft, Draft::Change(..)))
                .count();
            match self.shared.journal.commit(self.transaction(drafts)).await {
                Ok(last) => return Ok((n_changes > 0).then(|| Seq(last.0 + 1 - n_changes as u64))),
                Err(CommitError::NoSpace(what)) => {
                    self.set_phase(Phase::Paused(what));
                    tokio::time::sleep(self.shared.config.full_retry).await;
                }
                Err(error) => return Err(Ended::Failed(error)),
            }
        }
    }

    /// Writes down what was taken in at `taken_at`.
    pub(super) async fn write_once(
        &self,
        drafts: Vec<Draft>,
        taken_at: Timestamp,
    ) -> Result<Option<Seq>, Ended> {
        let phase = self.phase();
        let traced = self.trace(&drafts, taken_at);
        let written = self.write(|| drafts.clone()).await;
        if written.is_ok() {
            traced.durable((self.shared.config.now)());
        }
        if matches!(self.phase(), Some(Phase::Paused(_)))
            && let Some(phase) = phase
        {
            self.set_phase(phase);
        }
        written
    }
}

/// Which history a source has now; the one that is known if it does not tell.
async fn history(source: &dyn ListWatch, known: Option<HistoryId>) -> Option<HistoryId> {
    match tokio::time::timeout(ASKING, source.history()).await {
        Ok(Ok(Some(history))) => Some(history),
        Ok(Ok(None) | Err(_)) | Err(_) => known,
    }
}
