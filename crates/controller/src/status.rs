//! Writing the status of the object that is reconciled.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use skopos_client::Api;
use skopos_object::diff_merge;

use crate::edit::{Edited, edit};
use crate::{Context, Error};

/// The status of an object, being changed. See [`Context::status`].
#[derive(Debug)]
pub struct StatusEdit {
    status: Map<String, Value>,
    generation: i64,
    now: String,
    /// The first value that could not be written as JSON.
    error: Option<String>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl Holds {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Context {
    /// Writes the status of the object that is reconciled. What `change` leaves alone stays as it is.
    ///
    /// `observedGeneration` is set to the generation that is reconciled. If nothing else than that would differ from
    /// what is there, and it does not either, nothing is sent: so a controller does not wake itself. If somebody else
    /// changed the object in the meantime, `change` is called again with the new status.
    pub async fn status(&self, mut change: impl FnMut(&mut StatusEdit) + Send) -> Result<(), Error> {
        let object = self.object();
        let resource = self.resource(&object.group_version_kind()).await?;
        let api = Api::namespaced(self.client(), &resource, object.namespace());
        let (generation, now) = (object.generation(), Timestamp::now());
        let patch = |live: &Value| changed_status(live, generation, now, &mut change);
        let Some(live) = self.with_status(&api).await? else {
            return Ok(());
        };
        match edit(&api, object, live, Some("status"), self.field_manager(), patch).await {
            Ok(Edited::Unchanged(_)) => self.count_suppressed(),
            Ok(Edited::Changed(_) | Edited::Gone) => {}
            Err(Error::Client(error)) if error.is_not_found() => {
                return Err(Error::Invalid(format!(
                    "{} has no status subresource: add `subresources: {{status: {{}}}}` to its definition",
                    resource.group_resource()
                )));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Context {
    /// The newest that is known of the object, with its status: read first if the cache has only metadata. Nothing if it
    /// is gone.
    async fn with_status(&self, api: &Api) -> Result<Option<Value>, Error> {
        match self.written() {
            None if self.has_only_metadata() => Ok(api.find(self.key().name.as_str()).await?),
            None => Ok(Some(self.object().to_value())),
            written => Ok(written),
        }
    }
}

/// The patch that brings a change of status about, if anything changes.
fn changed_status(
    live: &Value,
    generation: i64,
    now: Timestamp,
    change: &mut impl FnMut(&mut StatusEdit),
) -> Result<Option<Value>, Error> {
    let before = live.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut edit = StatusEdit {
        status: before.as_object().cloned().unwrap_or_default(),
        generation,
        now: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        error: None,
    };
    if generation > 0 {
        edit.status
            .insert("observedGeneration".to_owned(), generation.into());
    }
    change(&mut edit);
    let patch = diff_merge(&before, &Value::Object(edit.status));
    if let Some(error) = edit.error {
        return Err(Error::Invalid(format!(
            "the status cannot be written as JSON: {error}"
        )));
    }
    let is_same = patch.as_object().is_some_and(Map::is_empty);
    Ok((!is_same).then(|| json!({"status": patch})))
}

impl StatusEdit {
    /// Sets a field.
    pub fn set(&mut self, field: &str, value: impl Serialize) -> &mut Self {
        match serde_json::to_value(value) {
            Ok(value) => {
                self.status.insert(field.to_owned(), value);
            }
            Err(error) => {
                self.error.get_or_insert_with(|| format!("{field}: {error}"));
            }
        }
        self
    }

    /// Removes a field.
    pub fn remove(&mut self, field: &str) -> &mut Self {
        self.status.remove(field);
        self
    }

    /// Returns a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.status.get(field)
    }

    /// Sets a condition. Its time of transition changes only when it begins or ceases to hold.
    ///
    /// `reason` is one word in `CamelCase`, `message` is for people. Conditions of others stay as they are.
    pub fn condition(
        &mut self,
        kind: &str,
        holds: impl Into<Holds>,
        reason: &str,
        message: impl Into<String>,
    ) -> &mut Self {
        let status = holds.into().as_str();
        let generation = self.generation;
        let conditions = self.conditions();
        let before = conditions.iter().position(|condition| condition["type"] == kind);
        let mut condition = match before {
            Some(at) => conditions[at].take(),
            None => json!({"type": kind}),
        };
        let turned = condition["status"] != status;
        condition["status"] = status.into();
        condition["reason"] = reason.into();
        condition["message"] = message.into().into();
        if generation > 0 {
            condition["observedGeneration"] = generation.into();
        }
        if turned || condition["lastTransitionTime"].is_null() {
            condition["lastTransitionTime"] = self.now.as_str().into();
        }
        let conditions = self.conditions();
        match before {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
        self
    }

    /// Removes a condition.
    pub fn remove_condition(&mut self, kind: &str) -> &mut Self {
        self.conditions().retain(|condition| condition["type"] != kind);
        self
    }

    fn conditions(&mut self) -> &mut Vec<Value> {
        let conditions = self.status.entry("conditions").or_insert_with(|| json!([]));
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        conditions.as_array_mut().expect("made an array above")
    }
}

#[cfg(test)]
mod tests {
    use skopos_testkit::value;

    use super::*;

    fn patch(live: &str, generation: i64, mut change: impl FnMut(&mut StatusEdit)) -> Option<Value> {
        let now: Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
        changed_status(&value(live), generation, now, &mut change).unwrap()
    }

    const READY: &str = "{status: {observedGeneration: 2, replicas: 3, conditions: [
        {type: Other, status: 'True'},
        {type: Ready, status: 'True', reason: AllUp, message: fine, observedGeneration: 2,
         lastTransitionTime: '2025-01-01T00:00:00Z'}]}}";

    #[test]
    fn the_same_status_is_not_written_again() {
        let same = patch(READY, 2, |status| {
            status
                .set("replicas", 3)
                .condition("Ready", true, "AllUp", "fine");
        });
        assert_eq!(same, None);
    }

    #[test]
    fn time_of_transition_changes_only_when_a_condition_flips() {
        let times = |holds: bool| {
            let patch = patch(READY, 2, |status| {
                status.condition("Ready", holds, "SomeDown", "1 of 3");
            });
            patch.unwrap()["status"]["conditions"][1]["lastTransitionTime"].clone()
        };
        assert_eq!(times(true), "2025-01-01T00:00:00Z");
        assert_eq!(times(false), "2026-01-02T03:04:05Z");
    }

    #[test]
    fn conditions_of_others_stay_and_new_ones_come_last() {
        let patch = patch(READY, 3, |status| {
            status.condition("Degraded", Holds::Unknown, "Asking", "");
        });
        let patch = patch.unwrap();
        assert_eq!(patch["status"]["observedGeneration"], 3);
        let kinds: Vec<_> = patch["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["type"].clone())
            .collect();
        assert_eq!(kinds, ["Other", "Ready", "Degraded"]);
        assert_eq!(
            patch["status"]["conditions"][0],
            json!({"type": "Other", "status": "True"})
        );
    }

    #[test]
    fn fields_can_be_removed_and_a_broken_status_is_replaced() {
        let patch = patch("{status: {replicas: 3, conditions: oops}}", 0, |status| {
            status.remove("replicas").condition("Ready", true, "Ok", "");
        });
        let patch = patch.unwrap();
        assert_eq!(patch["status"]["replicas"], Value::Null);
        assert_eq!(patch["status"]["conditions"][0]["status"], "True");
    }
}
