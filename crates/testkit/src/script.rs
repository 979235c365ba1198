//! A source that says request by request what must be asked and what is answered.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use skopos_object::{
    ListEnd, ListItem, ListRequest, ListStream, ListWatch, ListWatchError, Object, ResourceVersion, Status,
    WatchEvent, WatchRequest, WatchStream,
};
use tokio::sync::watch;

/// A [`ListWatch`] that plays a script. Cheap to clone.
///
/// A request that is not the next in the script is answered with an error and remembered; after the script
/// requests are never answered. [`finished`](Self::finished) tells.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use skopos_object::{ListRequest, ListWatch as _};
/// use skopos_testkit::{Script, Step, added, object};
///
/// let widget = object("{kind: Widget, metadata: {name: a, namespace: home, resourceVersion: '6'}}");
/// let script = Script::new([
///     Step::list(|request| request.resource_version.is_empty()).answers([], "5"),
///     Step::watch(|request| request.from == "5".into()).sends([added(&widget)]).then_ends(),
/// ]);
/// // … run what is tested on `script.clone()` …
/// # let _ = script.list(ListRequest::default()).await?;
/// # let from = skopos_object::WatchRequest { from: "5".into(), ..Default::default() };
/// # let _ = script.watch(from).await?;
/// script.finished().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Script {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    played: usize,
    problem: Option<String>,
}

/// One request that must come, and its answer.
pub struct Step {
    expected: Expected,
}

enum Expected {
    List(ListCheck, Result<Vec<ListItem>, ListWatchError>),
    Watch(WatchCheck, Result<Vec<Sent>, ListWatchError>, Ending),
}

type ListCheck = Box<dyn Fn(&ListRequest) -> bool + Send>;
type WatchCheck = Box<dyn Fn(&WatchRequest) -> bool + Send>;
type Sent = Result<WatchEvent, ListWatchError>;

#[derive(Clone, Copy)]
enum Ending {
    Stays,
    Ends,
}

/// A list that must be asked for.
pub struct ListStep(ListCheck);

/// A watch that must be asked for.
pub struct WatchStep(WatchCheck);

impl Step {
    /// The next request must be a list for which `check` holds.
    pub fn list(check: impl Fn(&ListRequest) -> bool + Send + 'static) -> ListStep {
        ListStep(Box::new(check))
    }

    /// The next request must be a watch for which `check` holds.
    pub fn watch(check: impl Fn(&WatchRequest) -> bool + Send + 'static) -> WatchStep {
        WatchStep(Box::new(check))
    }

    /// After what it sends, the watch breaks off with an error; a list answers it after its items.
    #[must_use]
    pub fn then_fails(mut self, error: ListWatchError) -> Self {
        match &mut self.expected {
            Expected::List(_, answer) => *answer = Err(error),
            Expected::Watch(_, Ok(sent), _) => sent.push(Err(error)),
            Expected::Watch(_, answer, _) => *answer = Err(error),
        }
        self
    }

    /// After what it sends, the watch ends. Without this it stays open and silent.
    #[must_use]
    pub fn then_ends(mut self) -> Self {
        if let Expected::Watch(_, _, ending) = &mut self.expected {
            *ending = Ending::Ends;
        }
        self
    }
}

impl ListStep {
    /// It is answered with these objects, at this version, in one page.
    pub fn answers<'a>(self, objects: impl IntoIterator<Item = &'a Object>, version: &str) -> Step {
        let items = objects.into_iter().cloned().map(ListItem::Object);
        let end = ListEnd {
            resource_version: version.into(),
            ..ListEnd::default()
        };
        self.answers_items(items.chain([ListItem::End(end)]))
    }

    /// It is answered with exactly these items: several pages, malformed objects, a missing end.
    pub fn answers_items(self, items: impl IntoIterator<Item = ListItem>) -> Step {
        Step {
            expected: Expected::List(self.0, Ok(items.into_iter().collect())),
        }
    }

    /// It is refused.
    pub fn fails(self, error: ListWatchError) -> Step {
        Step {
            expected: Expected::List(self.0, Err(error)),
        }
    }
}

impl WatchStep {
    /// It opens and sends these events, then stays open.
    pub fn sends(self, events: impl IntoIterator<Item = WatchEvent>) -> Step {
        let sent = events.into_iter().map(Ok).collect();
        Step {
            expected: Expected::Watch(self.0, Ok(sent), Ending::Stays),
        }
    }

    /// It is refused.
    pub fn fails(self, error: ListWatchError) -> Step {
        Step {
            expected: Expected::Watch(self.0, Err(error), Ending::Ends),
        }
    }
}

impl Script {
    /// A source that plays these steps in order.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let state = State {
            steps: steps.into_iter().collect(),
            ..State::default()
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: watch::Sender::new(()),
            }),
        }
    }

    /// Waits until the whole script was played.
    ///
    /// # Panics
    /// If a request came that is not in the script.
    pub async fn finished(&self) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            {
                let state = self.state();
                if let Some(problem) = &state.problem {
                    panic!("{problem}");
                }
                if state.steps.is_empty() {
                    return;
                }
            }
            // The sender lives as long as this handle.
            let _ = changed.changed().await;
        }
    }

    /// How many steps were played.
    pub fn played(&self) -> usize {
        self.state().played
    }

    /// Takes the next step if `fits`; `Ok(None)` after the last.
    fn take(
        &self,
        asked: &dyn fmt::Debug,
        fits: impl Fn(&Expected) -> bool,
    ) -> Result<Option<Step>, ListWatchError> {
        let mut state = self.state();
        let taken = match state.steps.front() {
            None => return Ok(None),
            Some(step) if fits(&step.expected) => {
                state.played += 1;
                Ok(state.steps.pop_front())
            }
            Some(step) => {
                let problem = format!(
                    "step {} of the script is a {}, but came {asked:?}",
                    state.played + 1,
                    step.expected.name()
                );
                state.problem.get_or_insert(problem.clone());
                Err(ListWatchError::Refused(Status::bad_request(problem)))
            }
        };
        drop(state);
        self.shared.changed.send_replace(());
        taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expected {
    fn name(&self) -> &'static str {
        match self {
            Self::List(..) => "list of another kind",
            Self::Watch(..) => "watch of another kind",
        }
    }
}

impl ListWatch for Script {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>> {
        Box::pin(async move {
            let fits = |expected: &Expected| matches!(expected, Expected::List(check, _) if check(&request));
            match self.take(&request, fits)?.map(|step| step.expected) {
                Some(Expected::List(_, answer)) => {
                    let list: ListStream = Box::pin(stream::iter(answer?.into_iter().map(Ok)));
                    Ok(list)
                }
                _ => std::future::pending().await,
            }
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        Box::pin(async move {
            let fits =
                |expected: &Expected| matches!(expected, Expected::Watch(check, ..) if check(&request));
            match self.take(&request, fits)?.map(|step| step.expected) {
                Some(Expected::Watch(_, answer, ending)) => {
                    let events = stream::iter(answer?);
                    let watch: WatchStream = match ending {
                        Ending::Ends => Box::pin(events),
                        Ending::Stays => Box::pin(events.chain(stream::pending())),
                    };
                    Ok(watch)
                }
                _ => std::future::pending().await,
            }
        })
    }
}

/// An object is there that was not.
pub fn added(object: &Object) -> WatchEvent {
    WatchEvent::Added(object.clone())
}

/// An object changed.
pub fn modified(object: &Object) -> WatchEvent {
    WatchEvent::Modified(object.clone())
}

/// An object is gone.
pub fn deleted(object: &Object) -> WatchEvent {
    WatchEvent::Deleted(object.clone())
}

/// Everything up to a version was reported.
pub fn bookmark(version: &str) -> WatchEvent {
    WatchEvent::Bookmark {
        resource_version: ResourceVersion::from(version),
        initial_events_end: false,
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Script")
            .field("played", &state.played)
            .field("left", &state.steps.len())
            .finish()
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected.name())
    }
}

impl fmt::Debug for ListStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListStep")
    }
}

impl fmt::Debug for WatchStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchStep")
    }
}
