//! Reads a list that trickles in by the gulp.
//!
//! kube-apiserver writes each object of a streaming list by itself, more slowly than we read: every one of them would
//! wake the reader. Nobody waits for a single object of a list, so after some of that the reader pauses before it reads
//! on, and finds more.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

/// Less than this is a sip.
const GULP_BYTES: usize = 32 << 10;
/// So many sips are taken at once: a small list is not held up.
const PATIENCE: u32 = 16;
/// Short beside what a list of this length takes, long beside what a wake-up costs.
const PAUSE: Duration = Duration::from_millis(2);

/// How a stream was read so far.
#[derive(Debug, Default)]
pub(crate) struct Sips {
    bytes: usize,
    n: u32,
    pause: Option<Pin<Box<Sleep>>>,
    is_due: bool,
}

impl Sips {
    /// So much came.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Nothing more is there for now.
    pub(crate) fn emptied(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if (1..GULP_BYTES).contains(&bytes) {
            self.n += 1;
        }
        self.is_due = bytes < GULP_BYTES && self.n > PATIENCE;
    }

    /// Waits before more is read, if it came in sips.
    pub(crate) fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_due {
            let pause = self
                .pause
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            self.is_due = false;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::Instant;

    use super::*;

    /// Reads pieces of a size, and returns how long the pauses between them were.
    async fn paused(pieces: u32, bytes: usize) -> Duration {
        let mut sips = Sips::default();
        let begun = Instant::now();
        for _ in 0..pieces {
            poll_fn(|cx| sips.poll_pause(cx)).await;
            sips.took(bytes);
            sips.emptied();
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_list_in_sips_is_read_with_pauses() {
        assert_eq!(paused(PATIENCE + 11, 1_600).await, 10 * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_list_and_large_pieces_are_read_at_once() {
        assert_eq!(paused(PATIENCE, 1_600).await, Duration::ZERO);
        assert_eq!(paused(1_000, GULP_BYTES).await, Duration::ZERO);
    }
}
