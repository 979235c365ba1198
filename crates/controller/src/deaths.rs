//! What ended although nobody asked it to: a fault, after which the whole process is better started anew.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::panics::text_of;

/// The tasks of a manager that ended unasked. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deaths {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bounded by the number of tasks. No other lock is taken under it.
    all: Mutex<Vec<Death>>,
    happened: CancellationToken,
}

#[derive(Debug, PartialEq, Eq)]
struct Death {
    /// The name of the liveness check that fails.
    check: String,
    why: String,
}

impl Deaths {
    /// Runs a task to its end. If that comes before `stop`, the check fails from then on; `what` says whose end it is.
    ///
    /// Returns nothing if the task panicked.
    pub(crate) async fn watch<T>(
        &self,
        check: &str,
        what: &str,
        stop: &CancellationToken,
        task: impl Future<Output = T>,
    ) -> Option<T> {
        let ended = AssertUnwindSafe(task).catch_unwind().await;
        let why = match &ended {
            Ok(_) => format!("{what} ended unasked"),
            Err(panic) => format!("{what} panicked: {}", text_of(&**panic)),
        };
        match stop.is_cancelled() {
            false => self.note(check, why),
            true if ended.is_err() => error!(why, "failed while it stopped"),
            true => {}
        }
        ended.ok()
    }

    /// Waits until something has ended unasked.
    pub(crate) async fn any(&self) {
        self.shared.happened.cancelled().await;
    }

    /// Fails if something that belongs to this check has ended unasked.
    pub(crate) fn check(&self, check: &str) -> Result<(), String> {
        let all = self.lock();
        let whys = all.iter().filter(|death| death.check == check);
        let whys: Vec<&str> = whys.map(|death| death.why.as_str()).collect();
        match whys.is_empty() {
            true => Ok(()),
            false => Err(whys.join("; ")),
        }
    }

    /// What a manager ends with because of the first of them.
    pub(crate) fn error(&self) -> Option<io::Error> {
        let first = self.lock().first()?.why.clone();
        Some(io::Error::other(format!("{first}; everything else was stopped")))
    }

    fn note(&self, check: &str, why: String) {
        error!(why, "the manager stops");
        let death = Death {
            check: check.to_owned(),
            why,
        };
        let mut all = self.lock();
        // All the workers of a controller may end for the same reason.
        if !all.contains(&death) {
            all.push(death);
        }
        drop(all);
        self.shared.happened.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Death>> {
        self.shared.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_counts_only_if_nobody_asked_for_it() {
        let (deaths, stop) = (Deaths::default(), CancellationToken::new());
        stop.cancel();
        deaths.watch("caches", "the caches", &stop, async {}).await;
        let panics = deaths.watch("caches", "the caches", &stop, async { panic!("boom") });
        assert_eq!(panics.await, None::<()>);
        assert_eq!(deaths.check("caches"), Ok(()));
        assert!(deaths.error().is_none());
        let go_on = CancellationToken::new();
        let value = deaths.watch("caches", "the caches", &go_on, async { 7 }).await;
        assert_eq!(value, Some(7));
        assert_eq!(deaths.check("caches"), Err("the caches ended unasked".to_owned()));
    }

    #[tokio::test]
    async fn a_panic_fails_its_own_check_and_says_what_it_said() {
        let (deaths, stop) = (Deaths::default(), CancellationToken::new());
        for _ in 0..2 {
            let worker = deaths.watch("controller-apps", "a worker of apps", &stop, async {
                panic!("boom {}", 1)
            });
            worker.await;
        }
        deaths.any().await;
        assert_eq!(deaths.check("caches"), Ok(()));
        let why = "a worker of apps panicked: boom 1";
        assert_eq!(deaths.check("controller-apps"), Err(why.to_owned()));
        let error = deaths.error().map(|error| error.to_string());
        assert_eq!(error, Some(format!("{why}; everything else was stopped")));
    }
}
