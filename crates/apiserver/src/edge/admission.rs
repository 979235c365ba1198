//! How many requests are worked on at once, and how many bytes of bodies they hold.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::Limits;
use super::metrics::Metrics;
use super::seam::{MASTERS, User};

/// Whether a request may change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ReadOnly,
    Mutating,
}

impl Kind {
    pub(super) fn of(method: &http::Method) -> Self {
        if method.is_safe() {
            Self::ReadOnly
        } else {
            Self::Mutating
        }
    }
}

/// Counts the requests in flight.
pub(super) struct Admission {
    read_only: Lane,
    mutating: Lane,
    /// Places for the administrator when a lane is full.
    overflow: Arc<Semaphore>,
    /// Bytes of request bodies.
    bodies: Arc<Semaphore>,
    max_body_bytes: usize,
}

struct Lane {
    places: Arc<Semaphore>,
    in_flight: Gauge,
}

/// A place in flight; free again when dropped.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
    in_flight: Gauge,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

impl Admission {
    pub(super) fn new(limits: &Limits, metrics: &Metrics) -> Self {
        let lane = |places: usize, kind| Lane {
            places: semaphore(places),
            in_flight: metrics.in_flight(kind),
        };
        Self {
            read_only: lane(limits.max_requests_in_flight, "readOnly"),
            mutating: lane(limits.max_mutating_in_flight, "mutating"),
            overflow: semaphore(limits.max_privileged_overflow),
            bodies: semaphore(limits.max_body_bytes_in_flight),
            max_body_bytes: limits.max_body_bytes_in_flight,
        }
    }

    /// A place in flight, or `None` when all are taken: requests are refused, never queued.
    pub(super) fn admit(&self, kind: Kind, user: &User) -> Option<Slot> {
        let lane = match kind {
            Kind::ReadOnly => &self.read_only,
            Kind::Mutating => &self.mutating,
        };
        let place = Arc::clone(&lane.places).try_acquire_owned().ok();
        let permit = match place {
            Some(permit) => permit,
            None if user.is_in(MASTERS) => Arc::clone(&self.overflow).try_acquire_owned().ok()?,
            None => return None,
        };
        lane.in_flight.inc();
        Some(Slot {
            _permit: permit,
            in_flight: lane.in_flight.clone(),
        })
    }

    /// Room for a body of so many bytes. Waits, in order of arrival, while all room is taken.
    pub(super) async fn room_for_body(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // More than all room would wait for ever.
        let bytes = u32::try_from(bytes.min(self.max_body_bytes)).unwrap_or(u32::MAX);
        Arc::clone(&self.bodies).acquire_many_owned(bytes).await.ok()
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_users_beyond_the_limit_but_not_the_administrator() {
        let limits = Limits {
            max_mutating_in_flight: 1,
            max_privileged_overflow: 1,
            ..Limits::default()
        };
        let admission = Admission::new(&limits, &Metrics::default());
        let user = User {
            name: "u".into(),
            ..User::default()
        };
        let first = admission.admit(Kind::Mutating, &user);
        assert!(first.is_some());
        assert!(admission.admit(Kind::Mutating, &user).is_none());
        assert!(admission.admit(Kind::ReadOnly, &user).is_some());
        let privileged = admission.admit(Kind::Mutating, &User::admin());
        assert!(privileged.is_some());
        assert!(admission.admit(Kind::Mutating, &User::admin()).is_none());
        drop(first);
        assert!(admission.admit(Kind::Mutating, &user).is_some());
    }
}
