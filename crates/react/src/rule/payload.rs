//! What is sent.

use bytes::Bytes;
use serde_json::{Value, json};
use skopos_api::{Event as What, Payload};
use skopos_journal::{Entry, Observed};
use skopos_sink::Event;

use super::{
    compile::{CompiledRule, Content},
    scope::{event, without_noise},
    subject::{Subject, managers, observed, op},
    template::Rendered,
};

/// Why something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The object changed.
    Change,
    /// It stayed as it was for the time of `heldFor()`.
    Held,
    /// It was there before this generation of a rule that reconciles.
    Reconciled,
}

/// What is to be sent could not be made. Nothing would change by trying again: it becomes a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The rule has no such action.
    #[error("the rule has no action {0}")]
    NoSuchAction(usize),
    /// A template failed.
    #[error("render the template of action {action}: {message}")]
    Template {
        /// Which action, from 0.
        action: usize,
        /// What went wrong.
        message: String,
    },
    /// It is larger than allowed.
    #[error(
        "the payload of action {action} has {n_bytes} bytes, allowed are {max_bytes}: send a part of the object, or raise maxBytes of the sink"
    )]
    TooLarge {
        /// Which action, from 0.
        action: usize,
        /// How large it is.
        n_bytes: usize,
        /// How large it may be.
        max_bytes: usize,
    },
}

impl CompiledRule {
    /// Makes what an action sends for a change that matched.
    ///
    /// # Errors
    /// See [`RenderError`].
    pub fn event(
        &self,
        subject: &Subject<'_>,
        cause: Cause,
        action: usize,
        max_bytes: usize,
    ) -> Result<Event, RenderError> {
        let content = &self
            .actions
            .get(action)
            .ok_or(RenderError::NoSuchAction(action))?
            .content;
        let entry = subject.entry();
        let (content_type, data) = match self.content(action, content, subject, cause) {
            Ok(Rendered::Text(text)) => ("text/plain", text),
            Ok(Rendered::Json(value)) => ("application/json", value.to_string()),
            Err(message) => return Err(RenderError::Template { action, message }),
        };
        if data.len() > max_bytes {
            let n_bytes = data.len();
            return Err(RenderError::TooLarge {
                action,
                n_bytes,
                max_bytes,
            });
        }
        Ok(Event {
            id: self.event_id(entry, cause, action),
            what: match cause {
                Cause::Change | Cause::Reconciled => event(entry.op),
                // It was created before; what is told now is that it is still so.
                Cause::Held => What::Updated,
            },
            source: source(entry),
            subject: entry.key.to_string(),
            rule: self.name(),
            time: entry.at.to_string(),
            lane: lane(entry),
            content_type,
            data: Bytes::from(data),
            traceparent: None,
            account: None,
        })
    }

    /// The same for each attempt, after each restart and in each replay. Actions after the first have their number in it:
    /// a receiver that drops repetitions must not take one for another.
    pub fn event_id(&self, entry: &Entry, cause: Cause, action: usize) -> String {
        let what = match cause {
            Cause::Change => entry.id().to_string(),
            Cause::Held => format!("{}.held", entry.id()),
            // Not that of its creation, which was told before: who drops repetitions would drop it.
            Cause::Reconciled => format!("{}.reconcile-{}", object_id(entry), self.generation),
        };
        let number = match action {
            0 => String::new(),
            later => format!("#{}", later + 1),
        };
        let (namespace, name) = (&self.origin.namespace, &self.origin.name);
        format!("{what}/{namespace}.{name}{number}")
    }

    fn content(
        &self,
        action: usize,
        content: &Content,
        subject: &Subject<'_>,
        cause: Cause,
    ) -> Result<Rendered, String> {
        let payload = match content {
            Content::Template(template) => return template.render(subject),
            Content::Payload(payload) => payload,
        };
        let entry = subject.entry();
        let mut body = json!({
            "op": op(entry.op),
            "source": origin(entry),
            "rule": self.name(),
            "id": self.event_id(entry, cause, action),
            "time": entry.at.to_string(),
        });
        if cause == Cause::Held {
            body["held"] = true.into();
        }
        if !entry.by.is_empty() {
            body["by"] = managers(entry).into();
        }
        if *payload == Payload::Full {
            body["before"] = subject.before().cloned().unwrap_or_default();
            body["after"] = subject.after().cloned().unwrap_or_default();
        }
        if *payload != Payload::Ref {
            body["diff"] = diff(subject);
        }
        Ok(Rendered::Json(body))
    }
}

fn diff(subject: &Subject<'_>) -> Value {
    let changes = without_noise(subject.changed()).map(|changed| {
        let change = &changed.change;
        let mut field = json!({"path": change.path});
        for (name, value) in [("from", &change.old), ("to", &change.new)] {
            if let Some(value) = value {
                field[name] = value.clone();
            }
        }
        field
    });
    changes.collect::<Vec<_>>().into()
}

fn origin(entry: &Entry) -> Value {
    let mut origin = json!({
        "cluster": entry.source,
        "group": entry.kind.group,
        "version": entry.kind.version,
        "kind": entry.kind.kind,
        "namespace": entry.key.namespace,
        "name": entry.key.name,
        "uid": entry.uid,
        "resourceVersion": entry.version.to_string(),
        "observed": observed(entry.observed),
    });
    if let Observed::Relist { after } = entry.observed {
        origin["notBefore"] = after.to_string().into();
    }
    origin
}

/// What keeps the order of events: the name of the object, not its UID. One made anew under the name of another comes after
/// it, also where the destination goes by this alone.
fn lane(entry: &Entry) -> String {
    format!("{}/{}", source(entry), entry.key)
}

/// What an object is known by: its UID, or its name where the source has no such thing.
fn object_id(entry: &Entry) -> String {
    match entry.uid.is_empty() {
        true => format!("{}/{}", entry.plural, entry.key),
        false => entry.uid.clone(),
    }
}

/// The `source` of the CloudEvent, such as `/clusters/prod/apps/deployments`.
fn source(entry: &Entry) -> String {
    let group = match entry.kind.group.as_str() {
        "" => "core",
        group => group,
    };
    format!("/clusters/{}/{group}/{}", entry.source, entry.plural)
}
