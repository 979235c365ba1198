//! Sends changes again, and lets rules go on or stand still.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_journal::{Log as _, Seq, Wanted};
use skopos_react::{Error, Reactor, Replay};

use super::{Admin, Question, Reason, Refusal, changes::Walk};

/// A place in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A change by its number.
    Seq(u64),
    /// The first change at or after a time.
    Time(Timestamp),
}

/// Sends what a rule matched in a range again, with the same ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartReplay {
    /// The rule, as `namespace/name`.
    pub rule: String,
    /// Where to begin.
    pub from: Place,
    /// Where to end: up to and including a number, or before a time; at the newest change unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Place>,
    /// Where to, instead of the sinks of the rule, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// Only count what matches.
    #[serde(default)]
    pub dry_run: bool,
}

/// A replay that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedReplay {
    /// By what the status shows it.
    pub name: String,
}

/// Ends a replay, whatever it has not sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelReplay {
    /// Which.
    pub name: String,
}

/// Lets a rule go on that stands still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRule {
    /// Which, as `namespace/name`.
    pub rule: String,
}

/// A rule that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumedRule {
    /// Which, as `namespace/name`.
    pub rule: String,
    /// Why it stood still; nothing if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<String>,
}

/// It was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

impl Question for StartReplay {
    const NAME: &'static str = "replay";
    type Answer = StartedReplay;

    async fn answer(&self, admin: &Admin) -> Result<StartedReplay, Refusal> {
        let (rule, sink) = (admin.rule_name(&self.rule), self.sink.clone());
        let from = match self.from {
            Place::Seq(seq) => Seq(seq),
            Place::Time(at) => admin.first_since(at).await?,
        };
        let to = match self.to {
            Some(Place::Seq(seq)) => Seq(seq),
            Some(Place::Time(at)) => Seq(admin.first_since(at).await?.0.saturating_sub(1)),
            None => admin.journal().head(),
        };
        if from > to {
            let hint = format!(
                "the journal has changes {} to {}",
                admin.journal().first(),
                admin.journal().head()
            );
            return Err(Refusal::bad("there is no change in that range").hint(hint));
        }
        let replay = Replay {
            sink: sink.map(|sink| in_namespace_of(&rule, &sink)),
            rule,
            from,
            to,
            is_dry: self.dry_run,
        };
        let name = admin.reactor()?.replay(&replay).await?;
        Ok(StartedReplay { name })
    }
}

impl Question for CancelReplay {
    const NAME: &'static str = "cancel-replay";
    type Answer = Done;

    async fn answer(&self, admin: &Admin) -> Result<Done, Refusal> {
        admin.reactor()?.cancel_replay(&self.name).await?;
        Ok(Done {})
    }
}

impl Question for ResumeRule {
    const NAME: &'static str = "resume";
    type Answer = ResumedRule;

    async fn answer(&self, admin: &Admin) -> Result<ResumedRule, Refusal> {
        let (reactor, rule) = (admin.reactor()?, admin.rule_name(&self.rule));
        let before = reactor.status().rules.remove(&rule);
        // A rule that only waits for the next minute of its limit goes on waiting.
        let is_working = before.as_ref().is_some_and(|state| state.suspended.is_none());
        if !is_working {
            reactor.resume(&rule).await?;
        }
        let suspended = before.and_then(|state| state.suspended);
        Ok(ResumedRule { rule, suspended })
    }
}

/// A sink without a namespace is in that of the rule.
fn in_namespace_of(rule: &str, sink: &str) -> String {
    match (sink.contains('/'), rule.split_once('/')) {
        (false, Some((namespace, _))) => format!("{namespace}/{sink}"),
        _ => sink.to_owned(),
    }
}

impl Admin {
    pub(crate) fn reactor(&self) -> Result<&Reactor, Refusal> {
        let message = "nothing is delivered here: no process runs on this data directory";
        let missing = || Refusal::new(Reason::Unavailable, message).hint("start skopos up or skopos run");
        self.reactor.as_ref().ok_or_else(missing)
    }

    /// The full name of a rule that is known by its name alone; what is not known stays as it is.
    fn rule_name(&self, name: &str) -> String {
        let rules = self
            .reactor
            .as_ref()
            .map(|reactor| reactor.status().rules)
            .unwrap_or_default();
        let mut found = rules
            .into_keys()
            .filter(|known| known.split_once('/').is_some_and(|(_, own)| own == name));
        match (found.next(), found.next()) {
            (Some(only), None) => only,
            _ => name.to_owned(),
        }
    }

    /// The first change at or after a time; one more than the newest if there is none.
    async fn first_since(&self, at: Timestamp) -> Result<Seq, Refusal> {
        let wanted = Wanted {
            since: Some(at),
            ..Wanted::default()
        };
        let mut walk = Walk::new(wanted, Seq(0));
        while !walk.is_done {
            if let Some(entry) = walk.next(self, 1).await?.first() {
                return Ok(entry.seq);
            }
        }
        Ok(Seq(self.journal().head().0 + 1))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let message = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        match error {
            Error::NoSuchRule(_) => Self::not_found(message).hint("`skopos top --once` shows the rules"),
            Error::NoSuchSink(_) => Self::not_found(message).hint("`skopos top --once` shows the sinks"),
            Error::NoSuchLetter(_) => {
                Self::not_found(message).hint("`skopos dlq list` shows those there are")
            }
            Error::NoSuchReplay(_) => Self::not_found(message),
            Error::NotKept { .. } => Self::bad(message),
            Error::Stopped => Self::new(Reason::Unavailable, message),
            _ => Self::failed(message),
        }
    }
}
