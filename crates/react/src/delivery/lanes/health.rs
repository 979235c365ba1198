//! Whether a sink works at all, and how long to rest after a failure.

use std::time::Duration;

use tokio::time::Instant;

use crate::delivery::plan::Settings;

/// Whether a sink works at all.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Distinct lanes that failed since the last success, up to [`DOWN_AFTER`].
    failed: Vec<u64>,
    since: Option<Instant>,
    down: Option<Down>,
}

#[derive(Debug)]
struct Down {
    probe_at: Instant,
    n_probes: u32,
    probe: Option<u64>,
}

/// So many objects must fail without one success between for the sink to count as down. One or two that fail again and
/// again may have themselves to blame, and must not hold up the others.
const DOWN_AFTER: usize = 3;

/// What a destination may ask for at most.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

impl Health {
    /// When to send a probe; nothing while the sink works.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.down.as_ref().map(|down| down.probe_at)
    }

    pub(super) fn down_since(&self) -> Option<Instant> {
        self.down.as_ref().and(self.since)
    }

    /// This batch is the probe.
    pub(super) fn probing(&mut self, batch: u64) {
        if let Some(down) = &mut self.down {
            down.probe = Some(batch);
        }
    }

    /// Something arrived. Says whether the sink was down.
    pub(super) fn works(&mut self) -> bool {
        let was_down = self.down.is_some();
        *self = Self::default();
        was_down
    }

    /// A batch failed without anything arriving.
    pub(super) fn fails(
        &mut self,
        batch: u64,
        lane: u64,
        retry_after: Option<Duration>,
        now: Instant,
        settings: &Settings,
        rng: &mut fastrand::Rng,
    ) {
        self.since.get_or_insert(now);
        if let Some(down) = &mut self.down {
            // Failures of what was under way when the sink went down say nothing new.
            if down.probe == Some(batch) {
                down.n_probes += 1;
                down.probe_at = now + settings.pause(down.n_probes, retry_after, rng);
            }
            return;
        }
        if !self.failed.contains(&lane) {
            self.failed.push(lane);
        }
        if self.failed.len() >= DOWN_AFTER {
            self.down = Some(Down {
                probe_at: now + settings.pause(1, retry_after, rng),
                n_probes: 1,
                probe: None,
            });
        }
    }
}

impl Settings {
    /// How long to rest after the `n`th failure in a row.
    pub(super) fn pause(&self, n: u32, retry_after: Option<Duration>, rng: &mut fastrand::Rng) -> Duration {
        let doubled = 2u32.saturating_pow(n.saturating_sub(1).min(20));
        let pause = self.backoff_initial.saturating_mul(doubled).min(self.backoff_max);
        let spread = pause.mul_f64(0.75 + rng.f64() * 0.25);
        spread.max(retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
    }
}
