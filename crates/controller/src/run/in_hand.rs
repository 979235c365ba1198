//! Which objects are being worked on, to name those that never end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skopos_object::ObjectKey;
use tokio::time::Instant;

/// The keys in the hands of workers, and since when. No key is in two hands.
#[derive(Debug, Default)]
pub(super) struct InHand {
    keys: Mutex<BTreeMap<ObjectKey, Instant>>,
}

/// A key in a worker's hands, until this is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    in_hand: &'a InHand,
    key: ObjectKey,
}

impl InHand {
    pub(super) fn hold(&self, key: &ObjectKey) -> Held<'_> {
        self.lock().insert(key.clone(), Instant::now());
        Held {
            in_hand: self,
            key: key.clone(),
        }
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.lock().keys().cloned().collect()
    }

    /// Those that are held for longer than this.
    pub(super) fn held_for(&self, time: Duration) -> Vec<ObjectKey> {
        let keys = self.lock();
        let held = keys.iter().filter(|(_, since)| since.elapsed() > time);
        held.map(|(key, _)| key.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Instant>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.in_hand.lock().remove(&self.key);
    }
}
