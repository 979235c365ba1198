//! A worker's wait for a key.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::queue::Queue;
use crate::shared::Begun;
use crate::sleepers::Ticket;
use crate::state::Taken;
use crate::work::Work;

/// The future of [`Queue::take`].
#[must_use = "futures do nothing unless awaited"]
pub struct Take<K: Clone + Eq + Hash> {
    /// Goes with the work that is found.
    queue: Option<Queue<K>>,
    /// Held while asleep, or woken and not polled since.
    ticket: Option<Ticket>,
    /// Set by the one sleeper that watches the clock for all.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<K: Clone + Eq + Hash> Take<K> {
    pub(crate) fn new(queue: Queue<K>) -> Self {
        Self {
            queue: Some(queue),
            ticket: None,
            timer: None,
        }
    }

    /// Takes a key, or lies down to sleep with a timer where one is needed.
    fn look(&mut self, cx: &Context<'_>) -> Poll<Option<Work<K>>> {
        let queue = self.queue.take().expect("not polled again: it was ready");
        if self.ticket.is_none()
            && let Some(begun) = queue.shared().begin()
        {
            return Poll::Ready(Some(Work::new(queue, begun)));
        }
        let (mut inner, now) = queue.shared().lock_to_take();
        if let Some(ticket) = self.ticket.take() {
            inner.sleepers.rise(ticket);
        }
        let mut taken = inner.state.take(now);
        if let Taken::Nothing(_) = taken
            && queue.shared().hear_all(&mut inner)
        {
            taken = inner.state.take(now);
        }
        match taken {
            Taken::Key(handed) => {
                let tray = queue.shared().lay_out(&mut inner, now);
                let waker = inner.next_sleeper(now);
                drop(inner);
                if let Some(waker) = waker {
                    waker.wake();
                }
                let begun = Begun {
                    handed,
                    at: now,
                    tray,
                };
                Poll::Ready(Some(Work::new(queue, begun)))
            }
            Taken::Closed => Poll::Ready(None),
            Taken::Nothing(due) => {
                let ticket = inner.sleepers.sleep(cx.waker().clone());
                self.ticket = Some(ticket);
                let due = due.filter(|due| inner.sleepers.keeps_time(ticket, *due));
                drop(inner);
                self.set_timer(due.map(|due| queue.shared().time_of(due)));
                self.queue = Some(queue);
                Poll::Pending
            }
        }
    }

    fn set_timer(&mut self, due: Option<Instant>) {
        let Some(due) = due else {
            self.timer = None;
            return;
        };
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(due),
            None => self.timer = Some(Box::pin(sleep_until(due))),
        }
    }
}

impl<K: Clone + Eq + Hash> Future for Take<K> {
    type Output = Option<Work<K>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Workers that always find a key would otherwise never let other tasks run.
        let budget = ready!(coop::poll_proceed(cx));
        loop {
            if let Poll::Ready(work) = self.look(cx) {
                budget.made_progress();
                return Poll::Ready(work);
            }
            match &mut self.timer {
                Some(timer) => ready!(timer.as_mut().poll(cx)),
                None => return Poll::Pending,
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Unpin for Take<K> {}

impl<K: Clone + Eq + Hash> Drop for Take<K> {
    fn drop(&mut self) {
        let (Some(ticket), Some(queue)) = (self.ticket.take(), &self.queue) else {
            return;
        };
        // This one may have been woken, or have watched the clock: somebody else has to.
        let mut inner = queue.shared().lock_to_tell();
        let now = queue.shared().time(&mut inner);
        inner.sleepers.rise(ticket);
        let waker = inner.next_sleeper(now);
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Take<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Take").finish_non_exhaustive()
    }
}
