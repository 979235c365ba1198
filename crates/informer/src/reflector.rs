//! Follows one collection for as long as it is asked: the [`Machine`] with a source and a clock.

use std::{
    fmt,
    future::{Future as _, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::future::BoxFuture;
use skopos_object::{
    HistoryId, ListRequest, ListStream, ListWatch, ListWatchError, ResourceVersion, WatchRequest, WatchStream,
};
use tokio::time::{Instant, Sleep};

use crate::{
    ListReason, ReflectorConfig, Report,
    machine::{Action, Input, Machine},
};

/// Follows one collection: reports everything in it, then everything that happens, in order and without loss.
///
/// It reads only when [`next`](Self::next) is called, so whoever calls it sets the pace, and nothing is ever
/// dropped; the source waits meanwhile. All failures are handled here and reported as
/// [`Report::Trouble`].
///
/// ```no_run
/// # async fn example(source: std::sync::Arc<dyn skopos_object::ListWatch>) {
/// use skopos_informer::{Reflector, ReflectorConfig, Report};
///
/// let mut reflector = Reflector::new(source, ReflectorConfig::default());
/// loop {
///     for report in reflector.next().await {
///         if let Report::Applied(object) = report {
///             println!("{} is now at {}", object.key(), object.resource_version());
///         }
///     }
/// }
/// # }
/// ```
pub struct Reflector {
    source: Arc<dyn ListWatch>,
    machine: Machine,
    open: Open,
    timer: Option<Pin<Box<Sleep>>>,
    started: Instant,
    /// How many reports there were the last time.
    n_expected: usize,
}

/// What is being waited for.
enum Open {
    Nothing,
    Asking(BoxFuture<'static, Result<Answer, ListWatchError>>),
    Listing(ListStream),
    Watching(WatchStream),
}

enum Answer {
    History(Option<HistoryId>),
    List(ListStream),
    Watch(WatchStream),
}

/// At most so many reports at a time, so that whoever handles them can take locks for many at once and
/// others get their turn.
const BATCH: usize = 512;

impl Reflector {
    /// Follows a collection from a list on. Asks nothing yet.
    pub fn new(source: Arc<dyn ListWatch>, config: ReflectorConfig) -> Self {
        Self::resume(source, config, ResourceVersion::default())
    }

    /// Follows a collection from a version up to which everything is known. If the source no longer has
    /// what happened since, it is listed.
    pub fn resume(source: Arc<dyn ListWatch>, config: ReflectorConfig, from: ResourceVersion) -> Self {
        Self {
            source,
            machine: Machine::new(config, from),
            open: Open::Nothing,
            timer: None,
            started: Instant::now(),
            n_expected: 0,
        }
    }

    /// Goes on with another source of the same collection, which is listed anew.
    pub fn reopen(&mut self, source: Arc<dyn ListWatch>) {
        self.source = source;
        self.open = Open::Nothing;
        self.machine.relist(ListReason::Reopened);
    }

    /// Everything up to this version was reported; empty before the first list is complete.
    pub fn position(&self) -> &ResourceVersion {
        self.machine.position()
    }

    /// Waits for the next reports: at least one, and as many as are there without waiting. Nothing is lost
    /// if the future is dropped.
    pub async fn next(&mut self) -> Vec<Report> {
        poll_fn(|cx| self.poll_reports(cx)).await
    }

    fn poll_reports(&mut self, cx: &mut Context<'_>) -> Poll<Vec<Report>> {
        let mut reports = Vec::with_capacity(self.n_expected);
        // Once for all that is there: reading the clock takes as long as a step.
        let mut now = self.started.elapsed();
        for _ in 0..BATCH {
            let input = match self.poll_input(cx) {
                Poll::Ready(input) => input,
                // What has been heard counts before the clock: whoever calls may have been slow, not the source.
                Poll::Pending if self.poll_timer(cx).is_ready() => {
                    now = self.started.elapsed();
                    Input::Woken
                }
                Poll::Pending if reports.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            };
            let action = self.machine.step(input, now, &mut reports);
            self.act(action);
        }
        self.n_expected = reports.len();
        if reports.is_empty() {
            // The source is busy with nothing to report: let others have their turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(reports)
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        let input = match &mut self.open {
            Open::Nothing => return Poll::Pending,
            Open::Asking(request) => match std::task::ready!(request.as_mut().poll(cx)) {
                Ok(Answer::History(history)) => {
                    self.open = Open::Nothing;
                    Input::Identified(history)
                }
                Ok(Answer::List(list)) => {
                    self.open = Open::Listing(list);
                    Input::Opened
                }
                Ok(Answer::Watch(watch)) => {
                    self.open = Open::Watching(watch);
                    Input::Opened
                }
                Err(error) => Input::Failed(error),
            },
            Open::Listing(list) => match std::task::ready!(list.as_mut().poll_next(cx)) {
                Some(Ok(item)) => Input::Item(item),
                Some(Err(error)) => Input::Failed(error),
                None => Input::Ended,
            },
            Open::Watching(watch) => match std::task::ready!(watch.as_mut().poll_next(cx)) {
                Some(Ok(event)) => Input::Event(event),
                Some(Err(error)) => Input::Failed(error),
                None => Input::Ended,
            },
        };
        Poll::Ready(input)
    }

    /// Whether the deadline has passed. It moves with each event, the timer only when it goes off.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.started + self.machine.deadline();
        loop {
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            std::task::ready!(timer.as_mut().poll(cx));
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Keep => {}
            Action::Rest => self.open = Open::Nothing,
            Action::Identify => self.open = Open::Asking(Box::pin(history(self.source.clone()))),
            Action::List(request) => self.open = Open::Asking(Box::pin(list(self.source.clone(), request))),
            Action::Watch(request) => self.open = Open::Asking(Box::pin(watch(self.source.clone(), request))),
        }
    }
}

async fn history(source: Arc<dyn ListWatch>) -> Result<Answer, ListWatchError> {
    source.history().await.map(Answer::History)
}

async fn list(source: Arc<dyn ListWatch>, request: ListRequest) -> Result<Answer, ListWatchError> {
    source.list(request).await.map(Answer::List)
}

async fn watch(source: Arc<dyn ListWatch>, request: WatchRequest) -> Result<Answer, ListWatchError> {
    source.watch(request).await.map(Answer::Watch)
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("source", &self.source)
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}
