//! Working off keys: one reconcile after the other, none of which can take the worker with it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use skopos_informer::Informer;
use skopos_object::{Object, ObjectKey};
use skopos_queue::{Outcome, Work};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, debug, error, error_span, info, warn};

use super::Shared;
use super::departed::Departure;
use super::hear::Cause;
use crate::action::LEAST_PAUSE;
use crate::finalizer::{self, Life};
use crate::panics::text_of;
use crate::records::{Place, State, Written};
use crate::{Action, Context, EventKind, Failure};

/// How a reconcile ended.
#[derive(Debug)]
enum Ended {
    Returned(Result<Action, Failure>),
    Panicked(String),
    TimedOut,
    /// This replica ceased to lead, or the process stops.
    Cancelled,
}

/// What ended.
#[derive(Clone, Copy, Debug)]
enum After<'a> {
    /// The reconcile of this object.
    Reconcile(&'a Object),
    /// What is done because an object went.
    Departure(Departure),
}

impl Ended {
    fn is_to_be_tried_again(&self) -> bool {
        match self {
            Self::Returned(Ok(_)) => false,
            Self::Returned(Err(failure)) => !failure.is_terminal(),
            Self::Panicked(_) | Self::TimedOut | Self::Cancelled => true,
        }
    }
}

impl Shared {
    /// Works off keys while this replica leads, until the queue is shut down.
    pub(super) async fn work(self: Arc<Self>, stop: CancellationToken) {
        let fence = &self.environment.fence;
        loop {
            tokio::select! {
                biased;
                () = fence.opened() => {}
                () = stop.cancelled() => return,
            }
            // One term for both: in the next the caches have to be compared anew before a key is taken.
            let term = fence.epoch();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = fence.over(term) => continue,
                () = self.take_over(term) => {}
            }
            tokio::select! {
                biased;
                () = fence.over(term) => {}
                work = self.queue.take() => match work {
                    Some(work) => {
                        let _held = self.in_hand.hold(work.key());
                        self.process(work, term).await;
                    }
                    None => return,
                },
            }
        }
    }

    /// `term` is the one in which the caches were compared: whatever is done here is done in no other.
    async fn process(self: &Arc<Self>, work: Work<ObjectKey>, term: Option<u64>) {
        let key = work.key().clone();
        let Some(object) = self.informer.store().get_key(&key) else {
            return self.process_gone(work, &key, term).await;
        };
        if let Some(pause) = self.pause_for_caches(&key, object.uid()) {
            return work.put_off(pause);
        }
        // Read again: what was written may have come into the cache only now.
        let Some(object) = self.informer.store().get_key(&key) else {
            return self.process_gone(work, &key, term).await;
        };
        if object.is_deleting() && self.controller.finalizer.is_none() && !self.controller.config.deleting {
            debug!(object = %key, "is being deleted: nothing to do");
            self.heard.take(&key);
            return work.done();
        }
        // Of no parent: the span of the controller is open as long as the process, and one trace for all would never end.
        let span = error_span!(
            parent: None,
            "reconcile",
            controller = self.controller.name,
            object = %key,
            uid = object.uid(),
            version = object.resource_version().as_str(),
            attempt = work.attempt(),
            waited_ms = waited_ms(&work),
        );
        let cause = self.follow(&key, &span);
        let reconciled = self.process_object(&work, object.clone(), term);
        let ended = reconciled.instrument(span.clone()).await;
        self.finish(work, After::Reconcile(&object), ended, cause, &span);
    }

    async fn process_object(
        self: &Arc<Self>,
        work: &Work<ObjectKey>,
        object: Object,
        term: Option<u64>,
    ) -> Ended {
        let watchman = self.watchman(Some(&object), term);
        let uid = object.uid().to_owned();
        let context = Context::new(Arc::clone(self), object, work.attempt(), &watchman);
        let shared = Arc::clone(self);
        self.records.begin(work.key());
        let ended = self
            .timed(term, async move { shared.reconcile(context).await })
            .await;
        // However it ended: what was written was written.
        self.records.add(work.key(), &uid, watchman.take());
        if matches!(ended, Ended::Returned(Ok(Action::Done))) {
            self.records.keep_touched(work.key());
        }
        ended
    }

    async fn process_gone(self: &Arc<Self>, work: Work<ObjectKey>, key: &ObjectKey, term: Option<u64>) {
        self.records.forget(key);
        let (Some(gone), Some(departure)) = (&self.controller.gone, self.departed.of(key)) else {
            self.heard.take(key);
            return work.done();
        };
        self.departed.take_up(key);
        let watchman = self.watchman(None, term);
        let client = self.environment.client.clone().guarded(watchman);
        let span = error_span!(
            parent: None,
            "reconcile",
            controller = self.controller.name,
            object = %key,
            gone = true,
            attempt = work.attempt(),
            waited_ms = waited_ms(&work),
        );
        let cause = self.follow(key, &span);
        let (gone, key) = (Arc::clone(gone), key.clone());
        let ended = self
            .timed(term, async move { gone(key, client).await })
            .instrument(span.clone())
            .await;
        if matches!(ended, Ended::Returned(Ok(Action::Done))) {
            self.departed.settle(work.key(), departure);
        }
        self.finish(work, After::Departure(departure), ended, cause, &span);
    }

    /// Links a reconcile with the change that led to it, if one did.
    fn follow(&self, key: &ObjectKey, span: &Span) -> Option<Cause> {
        let cause = self.heard.take(key)?;
        if !cause.is_seen {
            self.metrics.lag.observe(cause.since.elapsed().as_secs_f64());
        }
        span.follows_from(cause.span.id());
        Some(cause)
    }

    /// Gives a key back, and its cause with it if it has to be tried again.
    fn finish(
        &self,
        work: Work<ObjectKey>,
        after: After<'_>,
        ended: Ended,
        cause: Option<Cause>,
        span: &Span,
    ) {
        // A change that is kept is not exported yet: after so many attempts it is.
        const LINKED_ATTEMPTS: u32 = 16;
        let max_attempts = self.controller.config.queue.max_attempts;
        let is_last = work.attempt() >= max_attempts.map_or(LINKED_ATTEMPTS, |max| max.min(LINKED_ATTEMPTS));
        if let Some(cause) = cause
            && ended.is_to_be_tried_again()
            && !is_last
        {
            self.heard.put_back(work.key(), cause);
        }
        let outcome = span.in_scope(|| self.outcome(ended));
        if let Outcome::Terminal(why) | Outcome::Failed(why) = &outcome
            && work.is_given_up_after(&outcome)
        {
            match after {
                After::Reconcile(object) => self.tell_of_giving_up(object, why),
                After::Departure(departure) => self.give_up(work.key(), departure),
            }
        }
        work.finish(outcome);
    }

    /// Tells those who look at an object that nothing more is done for it.
    fn tell_of_giving_up(&self, object: &Object, why: &str) {
        if self.controller.config.failure_events {
            let note = format!("given up until it changes: {why}");
            let recorder = &self.environment.recorder;
            recorder.event(object, EventKind::Warning, "ReconcileFailed", "Reconcile", note);
        }
    }

    /// Keeps in mind that an object went, for as long as somebody may put back its dead letter.
    fn give_up(&self, key: &ObjectKey, departure: Departure) {
        let max = self.controller.config.queue.max_dead_letters;
        let dead_letters = || {
            self.queue
                .dead_letters()
                .into_iter()
                .map(|letter| letter.key)
                .collect()
        };
        self.departed.give_up(key, departure, max, dead_letters);
    }

    /// Runs a reconcile to its end, whichever that is.
    async fn timed(
        &self,
        term: Option<u64>,
        reconcile: impl Future<Output = Result<Action, Failure>>,
    ) -> Ended {
        let begin = Instant::now();
        self.metrics.active.inc();
        let caught = AssertUnwindSafe(reconcile).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = self.environment.fence.over(term) => Ended::Cancelled,
            () = self.cancel.cancelled() => Ended::Cancelled,
            ended = tokio::time::timeout(self.controller.config.timeout, caught) => match ended {
                Ok(Ok(returned)) => Ended::Returned(returned),
                Ok(Err(panic)) => Ended::Panicked(text_of(&*panic)),
                Err(_) => Ended::TimedOut,
            },
        };
        self.metrics.active.dec();
        self.metrics.time.observe(begin.elapsed().as_secs_f64());
        ended
    }

    /// Does what the object's stage of life asks for.
    async fn reconcile(&self, context: Context) -> Result<Action, Failure> {
        let reconcile = &self.controller.reconcile;
        let Some((name, clean_up)) = &self.controller.finalizer else {
            return reconcile(context).await;
        };
        match Life::of(context.object(), name) {
            Life::Alive => reconcile(context).await,
            Life::New => match finalizer::add(&context, name).await? {
                Some(object) => reconcile(context.with_object(object)).await,
                None => Ok(Action::Done),
            },
            Life::Dying => {
                let action = clean_up(context.clone()).await?;
                if action == Action::Done {
                    finalizer::remove(&context, name).await?;
                }
                Ok(action)
            }
            Life::Finished => Ok(Action::Done),
        }
    }

    fn outcome(&self, ended: Ended) -> Outcome {
        let metrics = &self.metrics;
        match ended {
            Ended::Returned(Ok(Action::Done)) => {
                metrics.done.inc();
                debug!("reconciled");
                Outcome::Done
            }
            Ended::Returned(Ok(Action::RequeueAfter(after))) => {
                metrics.requeued.inc();
                debug!(?after, "reconciled, to be looked at again");
                Outcome::RequeueAfter(after.max(LEAST_PAUSE))
            }
            Ended::Returned(Err(failure)) => self.failed(&failure),
            Ended::Panicked(text) => {
                metrics.panics.inc();
                self.count_failure();
                error!(panic = text, "the reconciler panicked");
                Outcome::Failed(format!("panicked: {text}"))
            }
            Ended::TimedOut => {
                metrics.timeouts.inc();
                self.count_failure();
                let timeout = self.controller.config.timeout;
                warn!(?timeout, "the reconcile took too long and was cancelled");
                Outcome::Failed(format!("took longer than {timeout:?}"))
            }
            Ended::Cancelled => {
                metrics.cancelled.inc();
                info!("the reconcile was cancelled: this replica no longer leads, or stops");
                Outcome::PutOff(Duration::ZERO)
            }
        }
    }

    fn failed(&self, failure: &Failure) -> Outcome {
        self.count_failure();
        if failure.is_terminal() {
            self.metrics.terminal_errors.inc();
            error!(error = %failure, "cannot reconcile; not tried again before the object changes");
            return Outcome::Terminal(failure.to_string());
        }
        if failure.is_conflict() {
            debug!(error = %failure, "somebody else was faster; trying again");
        } else {
            warn!(error = %failure, "cannot reconcile; trying again");
        }
        Outcome::Failed(failure.to_string())
    }

    fn count_failure(&self) {
        self.metrics.failed.inc();
        self.metrics.errors.inc();
    }

    /// When to look again at whether the caches show what the last reconcile of an object wrote. Nothing if they do, or
    /// had time enough.
    ///
    /// Nobody waits here: a cache that is behind must not take the workers from objects that have nothing to do with it.
    fn pause_for_caches(&self, key: &ObjectKey, uid: &str) -> Option<Duration> {
        const FIRST: Duration = Duration::from_millis(10);
        const LONGEST: Duration = Duration::from_millis(500);
        let (written, since) = self.records.pending(key, uid)?;
        let seen = self.is_seen(&written);
        let patience = self.controller.config.cache_patience;
        if !seen && since.elapsed() < patience {
            let n_looks = self.records.look_again(key);
            if n_looks == 0 {
                self.metrics.cache_waits.inc();
            }
            return Some(FIRST.saturating_mul(2u32.saturating_pow(n_looks)).min(LONGEST));
        }
        if !seen {
            warn!(object = %key, ?patience, "the caches still do not show what was written; going on without");
        }
        self.records.seen(key);
        None
    }

    /// Whether the caches show all that was written. What a cache does not follow is not asked of it.
    fn is_seen(&self, written: &Written) -> bool {
        written.states.iter().all(|(place, state)| {
            let caches = self.caches.that_show(place, state);
            caches.iter().all(|informer| shows(informer, place, state))
        }) && written.gone.iter().all(|gone| {
            let caches = self.caches.of(&gone.place.collection);
            let shown = |informer: &Informer| informer.store().get_key(&gone.place.key);
            caches
                .iter()
                .all(|informer| gone.is_over(shown(informer).as_ref()))
        })
    }
}

/// Whether a cache has come to a state. One that has stopped shows nothing any more; nobody will reconcile then either.
fn shows(informer: &Informer, place: &Place, state: &State) -> bool {
    let seen = match place.is_everywhere() {
        true => informer.seen(&state.version).now_or_never(),
        false => informer
            .seen_in(&place.key.namespace, &state.version)
            .now_or_never(),
    };
    seen.is_some()
}

/// How long a key was ready before it was handed out.
fn waited_ms(work: &Work<ObjectKey>) -> Option<u64> {
    let waited = work.waited()?.as_millis();
    Some(u64::try_from(waited).unwrap_or(u64::MAX))
}
