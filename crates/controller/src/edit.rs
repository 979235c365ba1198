//! Changing a part of an object without overwriting what others did in the meantime.

use serde_json::{Value, json};
use skopos_client::{Api, Patch, WriteParams};
use skopos_object::{Object, OpenError};

use crate::Error;

/// How often an edit begins anew when others were faster.
const ATTEMPTS: usize = 4;

/// What became of an edit.
#[derive(Debug)]
pub(crate) enum Edited {
    /// Nothing had to be changed of the object as it is; newer than the one that the edit began with, if others were
    /// faster.
    Unchanged(Box<Object>),
    /// The object as it is now.
    Changed(Box<Object>),
    /// The object is gone.
    Gone,
}

/// Sends the merge patch that `change` makes of an object, for exactly the version that it was made of.
///
/// Begins with `live`, which may be old. If the object was changed by others in between, reads it anew and asks again.
pub(crate) async fn edit(
    api: &Api,
    object: &Object,
    mut live: Value,
    subresource: Option<&str>,
    manager: &str,
    mut change: impl FnMut(&Value) -> Result<Option<Value>, Error>,
) -> Result<Edited, Error> {
    let params = WriteParams {
        field_manager: manager.to_owned(),
        ..WriteParams::default()
    };
    for attempt in 1.. {
        let Some(mut patch) = change(&live)? else {
            return Ok(Edited::Unchanged(object_of(object, &live)?));
        };
        patch["metadata"]["uid"] = json!(object.uid());
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let patch = Patch::Merge(&patch);
        let answer = match subresource {
            Some(subresource) => {
                api.patch_subresource(object.name(), subresource, patch, &params)
                    .await
            }
            None => api.patch(object.name(), patch, &params).await,
        };
        let error = match answer {
            Ok(answer) => return Ok(Edited::Changed(object_of(object, &answer.value)?)),
            Err(error) => error,
        };
        if error.is_not_found() && is_gone(api, object.name()).await? {
            return Ok(Edited::Gone);
        }
        if !error.is_conflict() || attempt == ATTEMPTS {
            return Err(error.into());
        }
        match api.find(object.name()).await? {
            Some(now) if now["metadata"]["uid"] == object.uid() => live = now,
            Some(_) => return Err(Error::Replaced(object.key().to_string())),
            None => return Ok(Edited::Gone),
        }
    }
    unreachable!("the loop ends by its attempts")
}

/// Whether there is no object of this name. Where the kind is not served, nobody can tell.
async fn is_gone(api: &Api, name: &str) -> Result<bool, Error> {
    match api.find(name).await {
        Ok(found) => Ok(found.is_none()),
        Err(error) if error.is_not_found() => Err(Error::Kind {
            kind: api.resource().qualified_kind(),
            source: OpenError::Missing(api.resource().group_resource().to_string()),
        }),
        Err(error) => Err(error.into()),
    }
}

fn object_of(object: &Object, answer: &Value) -> Result<Box<Object>, Error> {
    let now = Object::from_value(answer).map_err(|error| {
        Error::Invalid(format!(
            "the answer to changing {} is no object: {error}",
            object.key()
        ))
    })?;
    Ok(Box::new(now))
}
