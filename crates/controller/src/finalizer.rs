//! Cleaning up before an object goes.

use serde_json::{Value, json};
use skopos_client::Api;
use skopos_object::Object;

use crate::edit::{Edited, edit};
use crate::{Context, Error};

/// Where an object is in its life, as a finalizer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It lives without the finalizer: which has to be added before anything is done for it.
    New,
    /// It lives, and will not go unnoticed.
    Alive,
    /// It is being deleted, and what was done for it has to be undone.
    Dying,
    /// It is being deleted, and no longer our concern.
    Finished,
}

impl Life {
    pub(crate) fn of(object: &Object, finalizer: &str) -> Self {
        let has = object.finalizers().any(|name| name == finalizer);
        match (object.is_deleting(), has) {
            (false, false) => Self::New,
            (false, true) => Self::Alive,
            (true, true) => Self::Dying,
            (true, false) => Self::Finished,
        }
    }
}

/// Adds the finalizer, if it is not there already. Nothing if the object was deleted, or began to be, in the meantime.
pub(crate) async fn add(context: &Context, finalizer: &str) -> Result<Option<Object>, Error> {
    let edited = change(context, |live| {
        let mut names = names(live);
        let is_deleting = !live["metadata"]["deletionTimestamp"].is_null();
        if is_deleting || names.iter().any(|name| name == finalizer) {
            return None;
        }
        names.push(finalizer.into());
        Some(names)
    });
    match edited.await? {
        Edited::Changed(object) => Ok(Some(*object)),
        // The cache is behind, and when it shows the finalizer that is no change that counts: this is the time to go on.
        Edited::Unchanged(object) if Life::of(&object, finalizer) == Life::Alive => Ok(Some(*object)),
        Edited::Unchanged(_) | Edited::Gone => Ok(None),
    }
}

/// Removes the finalizer. That it is gone already, or the object, is as good.
pub(crate) async fn remove(context: &Context, finalizer: &str) -> Result<(), Error> {
    let edited = change(context, |live| {
        let mut names = names(live);
        let before = names.len();
        names.retain(|name| name != finalizer);
        (names.len() != before).then_some(names)
    });
    match edited.await {
        Ok(_) | Err(Error::Replaced(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn change(
    context: &Context,
    names: impl Fn(&Value) -> Option<Vec<Value>> + Send + Sync,
) -> Result<Edited, Error> {
    let object = context.object();
    let resource = context.resource(&object.group_version_kind()).await?;
    let api = Api::namespaced(context.client(), &resource, object.namespace());
    let patch = |live: &Value| Ok(names(live).map(|names| json!({"metadata": {"finalizers": names}})));
    let live = context.newest();
    edit(&api, object, live, None, context.field_manager(), patch).await
}

fn names(live: &Value) -> Vec<Value> {
    live["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}
