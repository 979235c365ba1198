//! Whether this process may act, and until when.

use std::future;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A handle on the right to act. Cheap to clone.
///
/// It opens when this process becomes the leader, and closes by itself at the time up to which that is certain,
/// whether or not anybody is still there to close it. Without leader election it is [always open](Self::open).
#[derive(Clone, Debug)]
pub struct Fence {
    standing: watch::Receiver<Standing>,
}

/// The other side of a [`Fence`]: held by the one who knows whether this process leads.
#[derive(Debug)]
pub struct FenceKeeper {
    standing: watch::Sender<Standing>,
}

/// Where this process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nobody else is there.
    Alone,
    /// Somebody else leads, or may.
    Standby,
    /// This process leads, at least until then.
    Leading { until: Instant },
}

/// This process does not lead, or its lease may be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not lead")]
pub struct NotLeading;

impl FenceKeeper {
    /// A closed fence.
    pub fn closed() -> Self {
        Self {
            standing: watch::Sender::new(Standing::Standby),
        }
    }

    /// A handle for those who act.
    pub fn fence(&self) -> Fence {
        Fence {
            standing: self.standing.subscribe(),
        }
    }

    /// Opens the fence until then, or keeps it open for longer. An earlier time than before is ignored.
    pub fn open_until(&self, until: Instant) {
        self.standing.send_if_modified(|standing| {
            let grows = !matches!(standing, Standing::Leading { until: before } if *before >= until);
            if grows {
                *standing = Standing::Leading { until };
            }
            grows
        });
    }

    /// Closes the fence.
    pub fn close(&self) {
        self.standing.send_if_modified(|standing| {
            let was_open = *standing != Standing::Standby;
            *standing = Standing::Standby;
            was_open
        });
    }
}

impl Fence {
    /// A fence that is always open, for a process that has no others beside it.
    pub fn open() -> Self {
        // Without a sender the standing never changes.
        let (_, standing) = watch::channel(Standing::Alone);
        Self { standing }
    }

    /// Says until when it is certain to be open, if that ends at all.
    pub fn check(&self) -> Result<Option<Instant>, NotLeading> {
        match *self.standing.borrow() {
            Standing::Alone => Ok(None),
            Standing::Leading { until } if Instant::now() < until => Ok(Some(until)),
            Standing::Leading { .. } | Standing::Standby => Err(NotLeading),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.check().is_ok()
    }

    /// Waits until it is open. Never returns once its keeper is gone and left it closed.
    pub async fn opened(&self) {
        let mut standing = self.standing.clone();
        loop {
            standing.mark_unchanged();
            if self.is_open() {
                return;
            }
            if standing.changed().await.is_err() {
                future::pending::<()>().await;
            }
        }
    }

    /// Waits until it is closed.
    pub async fn closed(&self) {
        let mut standing = self.standing.clone();
        loop {
            standing.mark_unchanged();
            let Ok(until) = self.check() else {
                return;
            };
            let over = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                () = over => {}
                changed = standing.changed() => if changed.is_err() {
                    // The keeper is gone: what is open stays so until its time is over.
                    match until {
                        Some(until) => sleep_until(until).await,
                        None => future::pending().await,
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn closes_by_itself_when_nobody_renews() {
        let keeper = FenceKeeper::closed();
        let fence = keeper.fence();
        assert_eq!(fence.check(), Err(NotLeading));
        let until = Instant::now() + 10 * SECOND;
        keeper.open_until(until);
        fence.opened().await;
        assert_eq!(fence.check(), Ok(Some(until)));
        fence.closed().await;
        assert_eq!(Instant::now(), until);
        assert!(!fence.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn stays_open_while_renewed_and_closes_at_once_when_told() {
        let keeper = FenceKeeper::closed();
        let fence = keeper.fence();
        let begin = Instant::now();
        keeper.open_until(begin + 10 * SECOND);
        let renew = async {
            tokio::time::sleep(8 * SECOND).await;
            keeper.open_until(begin + 20 * SECOND);
            keeper.open_until(begin + 5 * SECOND);
            tokio::time::sleep(4 * SECOND).await;
            keeper.close();
        };
        tokio::join!(renew, fence.closed());
        assert_eq!(begin.elapsed(), 12 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn without_election_it_never_closes() {
        let fence = Fence::open();
        fence.opened().await;
        let closed = tokio::time::timeout(3600 * SECOND, fence.closed()).await;
        assert!(closed.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_keeper_leaves_it_open_no_longer_than_granted() {
        let keeper = FenceKeeper::closed();
        let fence = keeper.fence();
        keeper.open_until(Instant::now() + 3 * SECOND);
        drop(keeper);
        assert!(fence.is_open());
        fence.closed().await;
        assert!(!fence.is_open());
    }
}
