//! Spans that wait to be sent. Who brings one never waits.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::span::Span;

/// So many wait at most: 6 MB as a rule. Texts are cut, so that it is never many times as much.
pub(crate) const MAX_WAITING: usize = 4096;
/// So many are sent at once.
pub(crate) const MAX_BATCH: usize = 512;
/// So long the first waits for others to be sent with it.
const MAX_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Span>>,
    /// Rings when the first comes, and when there is a batch.
    bell: Notify,
    n_taken_in: AtomicU64,
    n_turned_away: AtomicU64,
}

impl Queue {
    /// Takes in a span. Full means that they are not sent as quickly as they come: it is counted and lost.
    pub(crate) fn push(&self, span: Span) {
        let n_waiting = {
            let mut waiting = self.lock();
            if waiting.len() < MAX_WAITING {
                waiting.push_back(span);
                Some(waiting.len())
            } else {
                None
            }
        };
        let Some(n_waiting) = n_waiting else {
            self.n_turned_away.fetch_add(1, Relaxed);
            return;
        };
        self.n_taken_in.fetch_add(1, Relaxed);
        if n_waiting == 1 || n_waiting == MAX_BATCH {
            self.bell.notify_one();
        }
    }

    /// Waits for a batch, or for some that have waited long enough. At the end nothing is waited for: none is the end.
    pub(crate) async fn batch(&self, shutdown: &CancellationToken) -> Vec<Span> {
        let gathered = async {
            self.holds(1).await;
            tokio::select! {
                () = self.holds(MAX_BATCH) => {}
                () = sleep(MAX_DELAY) => {}
            }
        };
        tokio::select! {
            () = gathered => {}
            () = shutdown.cancelled() => {}
        }
        self.take(MAX_BATCH)
    }

    /// The oldest so many.
    pub(crate) fn take(&self, at_most: usize) -> Vec<Span> {
        let mut waiting = self.lock();
        match waiting.len() <= at_most {
            // What many needed is given back.
            true => mem::take(&mut *waiting).into(),
            false => waiting.drain(..at_most).collect(),
        }
    }

    async fn holds(&self, at_least: usize) {
        while self.len() < at_least {
            self.bell.notified().await;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn n_taken_in(&self) -> u64 {
        self.n_taken_in.load(Relaxed)
    }

    /// How many were lost because there was no room.
    pub(crate) fn n_turned_away(&self) -> u64 {
        self.n_turned_away.load(Relaxed)
    }

    /// Held only to move spans in and out.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn push(queue: &Queue, n: usize) {
        for _ in 0..n {
            queue.push(Span::example());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_wait_a_moment_for_more() {
        let (queue, shutdown) = (Queue::default(), CancellationToken::new());
        let begun = Instant::now();
        let (batch, ()) = tokio::join!(queue.batch(&shutdown), async {
            push(&queue, 1);
            sleep(MAX_DELAY / 2).await;
            push(&queue, 2);
        });
        assert_eq!((batch.len(), begun.elapsed()), (3, MAX_DELAY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_does_not_wait() {
        let (queue, shutdown) = (Queue::default(), CancellationToken::new());
        let begun = Instant::now();
        let (batch, ()) = tokio::join!(queue.batch(&shutdown), async {
            push(&queue, 1);
            sleep(MAX_DELAY / 2).await;
            push(&queue, MAX_BATCH);
        });
        assert_eq!((batch.len(), begun.elapsed()), (MAX_BATCH, MAX_DELAY / 2));
        assert_eq!(queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_nothing_is_waited_for() {
        let (queue, shutdown) = (Queue::default(), CancellationToken::new());
        push(&queue, MAX_BATCH + 1);
        shutdown.cancel();
        let begun = Instant::now();
        for expect in [MAX_BATCH, 1, 0] {
            assert_eq!(queue.batch(&shutdown).await.len(), expect);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
