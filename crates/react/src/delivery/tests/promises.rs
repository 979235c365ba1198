//! Each promise of `docs/guide/delivery.md` by itself.

mod beginning;
mod full_disk;
mod giving_up;
mod sending;
mod standing_still;

use std::sync::Arc;

use skopos_api::Delivery;

use super::kit::{Disk, Life, MemoryLog, Recorder, When, plan, rule};
use crate::delivery::{Plan, RouteState, Status};

fn begin(log: &Arc<MemoryLog>, plan: Plan) -> Life {
    Life::begin(Disk::default(), log, plan, 1)
}

/// One rule that matches everything, to one sink, from the beginning.
async fn simple(recorder: &Arc<Recorder>, delivery: Delivery) -> (Arc<MemoryLog>, Life) {
    let log = MemoryLog::new();
    let planned = plan(
        [("r", rule("r", When::Always, &["s"]))],
        [("s", recorder.planned_with(delivery))],
    );
    let life = begin(&log, planned);
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    (log, life)
}

fn route(status: &Status) -> RouteState {
    status.rules["r"].routes["s"].clone()
}
