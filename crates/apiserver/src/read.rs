//! The read path: get, list and watch, at the version and in the pages the client asked for.

mod body;
mod filter;
mod list;
mod watch;

use skopos_object::Status;

pub(crate) use filter::Filter;
pub(crate) use list::{list, respond_with_values, select};
pub(crate) use watch::watch;

use crate::call::{Answer, Call};
use crate::options::parse_version;
use crate::scale;
use crate::state::Shared;

pub(crate) async fn get(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let at_least = parse_version(call.query.get("resourceVersion").unwrap_or(""))?;
    wait_for_version(shared, at_least.unwrap_or(0)).await?;
    if call.target.subresource == "scale" {
        return scale::get(shared, call);
    }
    let entry = shared
        .store
        .get(&call.resource.space, &call.key())
        .ok_or_else(|| call.not_found())?;
    Ok(Answer::Stored { code: 200, entry })
}

/// Refuses what lies in the future: the store's revision is always the newest there is.
async fn wait_for_version(shared: &Shared, at_least: u64) -> Result<(), Status> {
    let deadline = tokio::time::Instant::now() + shared.settings.future_version_wait;
    while shared.store.revision().0 < at_least {
        if tokio::time::Instant::now() >= deadline {
            return Err(Status::too_large_resource_version(
                at_least,
                shared.store.revision().0,
                1,
            ));
        }
        tokio::time::sleep(shared.settings.future_version_wait / 60).await;
    }
    Ok(())
}
