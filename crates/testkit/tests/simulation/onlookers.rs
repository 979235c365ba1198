//! Subscribers of all sorts, and what they saw.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use skopos_informer::{Informer, Subscription};
use skopos_testkit::History;
use tokio::task::JoinHandle;

use super::truth::{Truth, compare, truth};

/// One subscriber. Dropping it ends the subscription.
pub(crate) struct Onlooker {
    name: String,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    history: History,
    problem: Option<String>,
}

impl Onlooker {
    /// Subscribes; takes `pace` for every change, and never has more than `max_keys` waiting.
    pub(crate) fn new(name: String, informer: &Informer, pace: Duration, max_keys: usize) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let looking = look(informer.subscribe(), Arc::clone(&seen), pace, max_keys);
        let task = tokio::spawn(looking);
        Self { name, seen, task }
    }

    /// Whether what it saw so far makes sense.
    pub(crate) fn is_sound(&self) -> Result<(), String> {
        match &self.seen.lock().unwrap().problem {
            Some(problem) => Err(format!("{}: {problem}", self.name)),
            None => Ok(()),
        }
    }

    /// Whether what it saw ends in the present.
    pub(crate) fn is_up_to_date(&self, now: &Truth) -> Result<(), String> {
        self.is_sound()?;
        let seen = self.seen.lock().unwrap();
        compare(&self.name, now, &truth(seen.history.present().values()))
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(mut changes: Subscription, seen: Arc<Mutex<Seen>>, pace: Duration, max_keys: usize) {
    while let Some(told) = changes.next().await {
        {
            let mut seen = seen.lock().unwrap();
            let recorded = seen.history.record(&told.change);
            if let Err(error) = recorded {
                seen.problem.get_or_insert(error.to_string());
            }
            let waiting = changes.lag().keys;
            if waiting > max_keys {
                let problem = format!("{waiting} keys wait, but there are only {max_keys}");
                seen.problem.get_or_insert(problem);
            }
        }
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
    }
}
