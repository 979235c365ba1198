//! Follows one name through everything that can serve it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use skopos_object::{Collection, CollectionName, Collections, ListWatch, OpenError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Shared, Slot};
use crate::{Informer, ReflectorError, event};

pub(super) struct Follower {
    collections: Arc<dyn Collections>,
    informer: Informer,
    names: Vec<CollectionName>,
    nudge: Arc<Notify>,
    first_retry: Duration,
}

/// No wait for something to be served is longer than this.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// When to look again after word of a change: what is served may be a little behind its definition.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(4)];

/// A collection that answers "not found" this often, for this long, is gone: sooner if nobody says that it is served,
/// later if the overview does.
const NOT_FOUND: u32 = 4;
const NOT_FOUND_FOR: Duration = Duration::from_secs(5);
const NOT_FOUND_BUT_LISTED_FOR: Duration = Duration::from_secs(30);

/// Why following what was opened came to its end.
enum Ended {
    /// It is no more.
    Gone,
    /// Something else serves the name now.
    Changed,
}

impl Follower {
    pub(super) fn new(pool: &Shared, slot: &Slot) -> Self {
        Self {
            collections: pool.collections.clone(),
            informer: slot.informer.clone(),
            names: slot.wanted.names(),
            nudge: slot.nudge.clone(),
            first_retry: pool.config.retry,
        }
    }

    pub(super) async fn run(self, stop: CancellationToken) {
        let namespaces = self.names.iter().map(|name| name.namespace.clone()).collect();
        self.informer.shared().open(namespaces);
        stop.run_until_cancelled(self.follow()).await;
        self.informer.shared().close();
    }

    async fn follow(&self) {
        let shared = self.informer.shared();
        let mut retry = self.first_retry;
        loop {
            match self.open().await {
                Ok(found) => {
                    shared.set_not_served(None);
                    match self.follow_found(&found).await {
                        Ended::Changed => retry = self.first_retry,
                        Ended::Gone => shared.purge(),
                    }
                }
                Err(error) => {
                    let informer = self.informer.name();
                    event::NotServed {
                        informer,
                        error: &error,
                        retry_in: retry,
                    }
                    .emit();
                    shared.set_not_served(Some(error.to_string()));
                    // Only what is certainly not there is forgotten: a group whose server is away is not.
                    if matches!(error, OpenError::Missing(_)) && !self.informer.store().is_empty() {
                        shared.purge();
                    }
                    let nudged = tokio::time::timeout(retry, self.nudge.notified()).await.is_ok();
                    retry = if nudged {
                        self.first_retry
                    } else {
                        (retry * 2).min(LONGEST_RETRY)
                    };
                }
            }
        }
    }

    async fn open(&self) -> Result<Vec<Collection>, OpenError> {
        let mut found = Vec::with_capacity(self.names.len());
        for name in &self.names {
            found.push(self.collections.open(name).await?);
        }
        Ok(found)
    }

    async fn reopen(&self) -> Result<Vec<Collection>, OpenError> {
        let mut found = Vec::with_capacity(self.names.len());
        for name in &self.names {
            found.push(self.collections.reopen(name).await?);
        }
        Ok(found)
    }

    async fn follow_found(&self, found: &[Collection]) -> Ended {
        let sources: Vec<Arc<dyn ListWatch>> = found.iter().map(|one| one.source.clone()).collect();
        let n_not_found = AtomicU32::new(0);
        let suspicion = Notify::new();
        let on_trouble = |error: &ReflectorError| {
            if error.is_not_found() {
                n_not_found.fetch_add(1, Relaxed);
                suspicion.notify_one();
            } else {
                n_not_found.store(0, Relaxed);
            }
        };
        tokio::select! {
            biased;
            never = self.informer.follow(sources, on_trouble) => match never {},
            ended = self.until_other(found, &suspicion, &n_not_found) => ended,
        }
    }

    /// Waits until the name is served by something else than `found`, or by nothing.
    async fn until_other(&self, found: &[Collection], suspicion: &Notify, n_not_found: &AtomicU32) -> Ended {
        loop {
            tokio::select! {
                biased;
                () = self.nudge.notified() => {}
                () = suspicion.notified() => {}
            }
            let mut patience = NOT_FOUND_FOR;
            for pause in LOOKS {
                tokio::time::sleep(pause).await;
                match self.reopen().await {
                    Err(OpenError::Missing(_)) => return Ended::Gone,
                    Err(OpenError::Ambiguous(_) | OpenError::Unavailable(_)) => {}
                    Ok(now) if !is_same(&now, found) => return Ended::Changed,
                    Ok(_) => patience = NOT_FOUND_BUT_LISTED_FOR,
                }
            }
            let stale = self.informer.report().staleness;
            if stale.is_zero() {
                n_not_found.store(0, Relaxed);
            }
            if n_not_found.load(Relaxed) >= NOT_FOUND && stale >= patience {
                return Ended::Gone;
            }
        }
    }
}

fn is_same(a: &[Collection], b: &[Collection]) -> bool {
    let names = |all: &[Collection]| -> Vec<_> {
        all.iter()
            .map(|one| (one.kind.clone(), one.plural.clone(), one.namespaced))
            .collect()
    };
    names(a) == names(b)
}
