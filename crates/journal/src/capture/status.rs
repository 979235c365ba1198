//! How the capture of one collection is doing, for whoever asks.

use std::collections::BTreeSet;

use skopos_object::{Malformed, ObjectKey};

use super::{CaptureStatus, Phase, follow::Follower, lock};

/// So many objects that cannot be read are told by name.
const MAX_UNREADABLE: usize = 100;

impl Follower {
    pub(super) fn phase(&self) -> Option<Phase> {
        let statuses = lock(&self.shared.statuses);
        statuses.get(&self.name).map(|status| status.phase.clone())
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        if let Phase::Paused(what) = &phase {
            tracing::warn!(
                collection = self.name,
                what,
                "capture waits: there is no room for the journal"
            );
        }
        self.update(|status| status.phase = phase);
    }

    pub(super) fn note_heard(&self) {
        let now = (self.shared.config.now)();
        self.update(|status| status.heard = Some(now));
    }

    pub(super) fn note_trouble(&self, error: &dyn std::error::Error) {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        tracing::info!(
            collection = self.name,
            error = text,
            "a watch of the journal has trouble, and tries again"
        );
        let now = (self.shared.config.now)();
        self.update(|status| status.trouble = Some((text, now)));
    }

    /// Something cannot be read. What is known of it stays as it was.
    pub(super) fn note_malformed(&self, object: &Malformed) {
        tracing::error!(collection = self.name, key = ?object.key, reason = object.reason, "an object cannot be read, and is left out");
        let key = object.key.clone().unwrap_or_default();
        self.update(|status| {
            status.n_malformed += 1;
            if status.unreadable.len() < MAX_UNREADABLE {
                status.unreadable.insert(key);
            }
        });
    }

    /// An object can be read, or is gone.
    pub(super) fn note_readable(&self, key: impl Fn() -> ObjectKey) {
        self.update(|status| {
            if !status.unreadable.is_empty() {
                status.unreadable.remove(&key());
            }
        });
    }

    /// A list shows anew what cannot be read.
    pub(super) fn forget_unreadable(&self) {
        self.update(|status| status.unreadable.clear());
    }

    fn update(&self, change: impl FnOnce(&mut CaptureStatus)) {
        let mut statuses = lock(&self.shared.statuses);
        let status = statuses
            .entry(self.name.clone())
            .or_insert_with(|| CaptureStatus {
                name: self.asked.name.clone(),
                phase: Phase::Listing,
                trouble: None,
                heard: None,
                n_malformed: 0,
                unreadable: BTreeSet::new(),
            });
        change(status);
    }
}
