//! Whether this process may act, and until when.

use std::error::Error;
use std::future;

use skopos_client::{Answer, Call, WriteGuard};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A handle on the right to act. Cheap to clone.
///
/// It opens when this process becomes the leader, and closes by itself at the time up to which that is certain,
/// whether or not anybody is still there to close it. Without leader election it is [always open](Self::open).
///
/// It is a [`WriteGuard`]: a client [guarded](skopos_client::Client::guarded) by it sends writes only while it is open.
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
    Leading { until: Instant, epoch: u64 },
}

impl Standing {
    fn check(self) -> Result<Option<Instant>, NotLeading> {
        match self {
            Self::Alone => Ok(None),
            Self::Leading { until, .. } if Instant::now() < until => Ok(Some(until)),
            Self::Leading { .. } | Self::Standby => Err(NotLeading),
        }
    }
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

    /// Opens the fence until then, or keeps it open for longer. In the same term an earlier time than before is
    /// ignored. `epoch` numbers the terms of all leaders upwards: see [`Fence::epoch`].
    pub fn open_until(&self, until: Instant, epoch: u64) {
        self.standing.send_if_modified(|standing| {
            let known = matches!(
                standing,
                Standing::Leading { until: before, epoch: same } if *same == epoch && *before >= until
            );
            if !known {
                *standing = Standing::Leading { until, epoch };
            }
            !known
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
        let standing = *self.standing.borrow();
        standing.check()
    }

    /// As [`check`](Self::check), but only in the same term: its [`epoch`](Self::epoch) is still this one.
    pub(crate) fn check_in(&self, term: Option<u64>) -> Result<Option<Instant>, NotLeading> {
        let standing = *self.standing.borrow();
        match standing {
            Standing::Leading { epoch, .. } if term != Some(epoch) => Err(NotLeading),
            standing => standing.check(),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.check().is_ok()
    }

    /// Whether its keeper opened it and has not closed it since, although the time may be over.
    pub(crate) fn believes_to_lead(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Leading { .. })
    }

    /// Returns the number of the term in which this process leads. `None` if it does not, or has nobody beside it.
    ///
    /// Every term of every leader has a higher one than all before. Write it beside what you write, or send it along:
    /// who has seen a higher one can refuse what comes late from an older leader.
    pub fn epoch(&self) -> Option<u64> {
        match *self.standing.borrow() {
            Standing::Leading { until, epoch } if Instant::now() < until => Some(epoch),
            _ => None,
        }
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

    /// Waits until it is closed, or was: also if it has been opened for another term since.
    pub async fn closed(&self) {
        self.over(self.epoch()).await;
    }

    /// Waits until it is closed, or open for another term than this.
    pub(crate) async fn over(&self, term: Option<u64>) {
        let mut standing = self.standing.clone();
        loop {
            standing.mark_unchanged();
            let Ok(until) = self.check() else {
                return;
            };
            if self.epoch() != term {
                return;
            }
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

impl WriteGuard for Fence {
    fn admit(&self, _: &Call) -> Result<Option<Instant>, Box<dyn Error + Send + Sync>> {
        Ok(self.check()?)
    }

    fn written(&self, _: &Call, _: &Answer) {}
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
        keeper.open_until(until, 7);
        assert_eq!(fence.epoch(), Some(7));
        fence.opened().await;
        assert_eq!(fence.check(), Ok(Some(until)));
        fence.closed().await;
        assert_eq!(Instant::now(), until);
        assert_eq!((fence.is_open(), fence.epoch()), (false, None));
    }

    #[tokio::test(start_paused = true)]
    async fn stays_open_while_renewed_and_closes_at_once_when_told() {
        let keeper = FenceKeeper::closed();
        let fence = keeper.fence();
        let begin = Instant::now();
        keeper.open_until(begin + 10 * SECOND, 0);
        let renew = async {
            tokio::time::sleep(8 * SECOND).await;
            keeper.open_until(begin + 20 * SECOND, 0);
            keeper.open_until(begin + 5 * SECOND, 0);
            tokio::time::sleep(4 * SECOND).await;
            keeper.close();
        };
        tokio::join!(renew, fence.closed());
        assert_eq!(begin.elapsed(), 12 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_end_of_a_term_is_not_held_by_the_next() {
        let keeper = FenceKeeper::closed();
        let fence = keeper.fence();
        keeper.open_until(Instant::now() + 10 * SECOND, 1);
        let renew = async {
            tokio::time::sleep(SECOND).await;
            // Nobody is scheduled in between.
            keeper.close();
            keeper.open_until(Instant::now() + 10 * SECOND, 2);
        };
        let begin = Instant::now();
        tokio::join!(fence.closed(), renew);
        assert_eq!((begin.elapsed(), fence.epoch()), (SECOND, Some(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_began_in_a_term_may_act_in_no_other() {
        let keeper = FenceKeeper::closed();
        let fence = keeper.fence();
        let until = Instant::now() + 10 * SECOND;
        keeper.open_until(until, 5);
        assert_eq!(fence.check_in(Some(5)), Ok(Some(until)));
        keeper.close();
        assert_eq!(fence.check_in(Some(5)), Err(NotLeading));
        keeper.open_until(until, 7);
        let terms = [Some(5), None].map(|term| fence.check_in(term));
        assert_eq!(terms, [Err(NotLeading); 2]);
        assert_eq!(fence.check_in(Some(7)), Ok(Some(until)));
        assert_eq!(Fence::open().check_in(None), Ok(None));
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
        keeper.open_until(Instant::now() + 3 * SECOND, 0);
        drop(keeper);
        assert!(fence.is_open());
        fence.closed().await;
        assert!(!fence.is_open());
    }
}
