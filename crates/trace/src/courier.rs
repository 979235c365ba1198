//! Brings spans to a receiver, again and again while that may help.

use std::{future::Future, ops::ControlFlow, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{encode::Parcel, exporter::Shared};

/// The pause after the first failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// So long one parcel is tried, so that after an outage newer spans are not behind old ones for long.
const PATIENCE: Duration = Duration::from_secs(60);
/// No receiver is left alone for longer, whatever it asks for.
const MAX_REST: Duration = Duration::from_secs(600);

/// Takes a body to a receiver.
pub(crate) trait Post {
    fn post(&self, body: Bytes) -> impl Future<Output = Answer> + Send;
}

/// What a receiver says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has them, but for some; and it may say something.
    Taken { n_rejected: u64, says: String },
    /// It may take them later.
    Later {
        after: Option<Duration>,
        problem: String,
    },
    /// It will never take them.
    Refused(String),
}

/// Brings parcels, one after the other.
#[derive(Debug)]
pub(crate) struct Courier<P> {
    post: P,
    shared: Arc<Shared>,
    /// Said until it works again: an outage is one line, not one for each request.
    said: Said,
}

#[derive(Debug, Default)]
struct Said {
    trouble: bool,
    lost: bool,
    full: bool,
    partial: String,
    /// How many spans had been turned away when it was last looked.
    n_turned_away: u64,
}

impl<P: Post> Courier<P> {
    pub(crate) fn new(post: P, shared: Arc<Shared>) -> Self {
        Self {
            post,
            shared,
            said: Said::default(),
        }
    }

    /// Brings a parcel, or loses it. At the end it is tried once, and if that fails there is no more to be done.
    pub(crate) async fn bring(&mut self, parcel: Parcel, shutdown: &CancellationToken) -> ControlFlow<()> {
        self.say_full();
        let give_up = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let was_last = shutdown.is_cancelled();
            let (after, problem) = match self.post.post(parcel.body.clone()).await {
                Answer::Taken { n_rejected, says } => {
                    self.taken(parcel.n_spans, n_rejected, says);
                    return ControlFlow::Continue(());
                }
                Answer::Refused(problem) => {
                    self.shared.sent.refused.add(parcel.n_spans);
                    self.say_trouble(&problem);
                    self.say_lost(parcel.n_spans);
                    return ControlFlow::Continue(());
                }
                Answer::Later { after, problem } => (after, problem),
            };
            self.say_trouble(&problem);
            if was_last {
                return ControlFlow::Break(());
            }
            let wait = match after {
                Some(after) if after >= FIRST_PAUSE => after.min(MAX_REST),
                // One who asks for no pause is not taken at his word: he is in trouble.
                _ => pause.mul_f64(0.75 + fastrand::f64() / 2.0),
            };
            if Instant::now() + wait > give_up {
                self.shared.sent.unavailable.add(parcel.n_spans);
                self.say_lost(parcel.n_spans);
                // What it asked for is kept to: the next parcel waits for it.
                self.rest(wait, shutdown).await;
                return ControlFlow::Continue(());
            }
            self.rest(wait, shutdown).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn rest(&self, wait: Duration, shutdown: &CancellationToken) {
        tokio::select! {
            () = sleep(wait) => {}
            () = shutdown.cancelled() => {}
        }
    }

    fn taken(&mut self, n_spans: u64, n_rejected: u64, says: String) {
        let n_rejected = n_rejected.min(n_spans);
        self.shared.sent.taken.add(n_spans - n_rejected);
        self.shared.sent.rejected.add(n_rejected);
        if (n_rejected > 0 || !says.is_empty()) && self.said.partial != says {
            tracing::warn!(
                n_rejected,
                says,
                "the receiver of traces did not take all of a batch"
            );
        }
        self.said.partial = says;
        if self.said.trouble {
            tracing::info!("traces are exported again");
        }
        (self.said.trouble, self.said.lost) = (false, false);
    }

    fn say_trouble(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.said.trouble, true) {
            tracing::warn!(error = problem, "traces are not exported for now");
        }
    }

    fn say_lost(&mut self, n_spans: u64) {
        if !std::mem::replace(&mut self.said.lost, true) {
            tracing::warn!(
                n_spans,
                "traces are lost: skopos_trace_lost_spans_total counts on"
            );
        }
    }

    /// Not said where it happens: whoever brings spans does not wait for a log either.
    fn say_full(&mut self) {
        let n_turned_away = self.shared.queue.n_turned_away();
        let n_spans = n_turned_away - std::mem::replace(&mut self.said.n_turned_away, n_turned_away);
        let was_full = std::mem::replace(&mut self.said.full, n_spans > 0);
        if self.said.full && !was_full {
            tracing::warn!(
                n_spans,
                "traces come faster than they are exported and are lost: skopos_trace_lost_spans_total counts on; \
                 --trace-ratio exports a share"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Mutex};

    use skopos_journal::Sampling;

    use super::*;
    use crate::{queue::MAX_WAITING, span::Span};

    /// Answers as it was told to, then takes everything.
    #[derive(Default)]
    struct Script {
        answers: Mutex<VecDeque<Answer>>,
        asked_at: Mutex<Vec<Instant>>,
    }

    impl Post for &Script {
        async fn post(&self, _: Bytes) -> Answer {
            self.asked_at.lock().unwrap().push(Instant::now());
            let next = self.answers.lock().unwrap().pop_front();
            next.unwrap_or(Answer::Taken {
                n_rejected: 0,
                says: String::new(),
            })
        }
    }

    impl Script {
        fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
            Self {
                answers: Mutex::new(answers.into_iter().collect()),
                asked_at: Mutex::default(),
            }
        }

        /// The times between requests.
        fn pauses(&self) -> Vec<Duration> {
            let asked = self.asked_at.lock().unwrap();
            asked.windows(2).map(|two| two[1] - two[0]).collect()
        }
    }

    fn later(after: Option<u64>) -> Answer {
        Answer::Later {
            after: after.map(Duration::from_secs),
            problem: "busy".into(),
        }
    }

    fn parcel() -> Parcel {
        Parcel {
            n_spans: 10,
            body: Bytes::new(),
        }
    }

    fn courier(script: &Script) -> Courier<&Script> {
        Courier::new(script, Arc::new(Shared::new(Sampling::default())))
    }

    /// Taken, rejected, refused, unavailable.
    fn counted<P>(courier: &Courier<P>) -> [u64; 4] {
        let sent = &courier.shared.sent;
        [&sent.taken, &sent.rejected, &sent.refused, &sent.unavailable].map(crate::metrics::Count::get)
    }

    /// Three pauses, each twice as long as the one before, more or less.
    #[track_caller]
    fn check_growing(script: &Script) {
        let pauses = script.pauses();
        assert_eq!(pauses.len(), 3);
        for (pause, about) in pauses.into_iter().zip([0.5, 1.0, 2.0]) {
            let (least, most) = (about * 0.75, about * 1.25 + 0.01);
            assert!(
                (least..most).contains(&pause.as_secs_f64()),
                "{pause:?} for {about}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn is_tried_again_with_growing_pauses() {
        let script = Script::new([later(None), later(None), later(None)]);
        let mut courier = courier(&script);
        let ended = courier.bring(parcel(), &CancellationToken::new()).await;
        assert_eq!(
            (ended, counted(&courier)),
            (ControlFlow::Continue(()), [10, 0, 0, 0])
        );
        check_growing(&script);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_as_long_as_the_receiver_asks() {
        let script = Script::new([later(Some(17))]);
        let mut courier = courier(&script);
        let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        assert_eq!(script.pauses(), [Duration::from_secs(17)]);
        assert_eq!(counted(&courier), [10, 0, 0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn is_given_up_after_a_while() {
        let script = Script::new(std::iter::repeat_n(later(None), 1_000));
        let mut courier = courier(&script);
        let begun = Instant::now();
        let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        assert_eq!(counted(&courier), [0, 0, 0, 10]);
        assert!(begun.elapsed() < PATIENCE + LONGEST_PAUSE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_asks_for_more_than_patience_gets_it() {
        let script = Script::new([later(Some(300))]);
        let mut courier = courier(&script);
        for _ in 0..2 {
            let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        }
        assert_eq!(script.pauses(), [Duration::from_secs(300)]);
        assert_eq!(counted(&courier), [10, 0, 0, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_asks_for_ages_is_asked_again_after_ten_minutes() {
        let script = Script::new([later(Some(u64::MAX))]);
        let mut courier = courier(&script);
        for _ in 0..2 {
            let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        }
        assert_eq!(script.pauses(), [MAX_REST]);
        assert_eq!(counted(&courier), [10, 0, 0, 10]);
    }

    /// Zero is also what a date in the past comes to.
    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_asks_for_no_pause_gets_the_usual_one() {
        let script = Script::new([later(Some(0)), later(Some(0)), later(Some(0))]);
        let mut courier = courier(&script);
        let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        check_growing(&script);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_not_tried_again() {
        let partly = Answer::Taken {
            n_rejected: 3,
            says: "too old".into(),
        };
        let script = Script::new([Answer::Refused("no".into()), partly]);
        let mut courier = courier(&script);
        for _ in 0..3 {
            let ended = courier.bring(parcel(), &CancellationToken::new()).await;
            assert_eq!(ended, ControlFlow::Continue(()));
        }
        assert_eq!(counted(&courier), [17, 3, 10, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_it_is_tried_once_more() {
        let script = Script::new(std::iter::repeat_n(later(Some(50)), 10));
        let mut courier = courier(&script);
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let (ended, ()) = tokio::join!(courier.bring(parcel(), &shutdown), async move {
            sleep(Duration::from_secs(7)).await;
            stop.cancel();
        });
        assert_eq!(ended, ControlFlow::Break(()));
        assert_eq!(script.pauses(), [Duration::from_secs(7)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_lost_and_counted() {
        let shared = Arc::new(Shared::new(Sampling::default()));
        for _ in 0..MAX_WAITING + 5 {
            shared.queue.push(Span::example());
        }
        assert_eq!(shared.queue.len(), MAX_WAITING);
        assert_eq!(
            (shared.queue.n_taken_in(), shared.queue.n_turned_away()),
            (MAX_WAITING as u64, 5)
        );
        let script = Script::default();
        let mut courier = Courier::new(&script, shared);
        let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        assert!(courier.said.full);
        // Nothing was lost since, so that the next loss is news.
        let _ = courier.bring(parcel(), &CancellationToken::new()).await;
        assert!(!courier.said.full);
    }
}
