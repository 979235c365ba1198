//! Deliveries that were given up.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skopos_react::{DeadLetter, Letters, Trigger};

use super::{Admin, Question, Refusal};

/// Letters in one page unless the question says otherwise.
const DEFAULT_LIMIT: usize = 500;
/// Letters in one page at most.
const MAX_LIMIT: usize = 5_000;

/// Which dead letters: all, or those that fit everything given. At most one may be given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhichLetters {
    /// Those of a rule, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Those of a sink, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// One.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Which deliveries were given up?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeadLetters {
    /// Which.
    #[serde(default)]
    pub which: WhichLetters,
    /// Go on after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Some dead letters, in a fixed order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LetterPage {
    /// The letters.
    pub letters: Vec<LetterView>,
    /// Where to go on, as `after`; nothing if this was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A delivery that was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LetterView {
    /// What it is called.
    pub id: String,
    /// The rule, or the replay of one.
    pub rule: String,
    /// Where it did not arrive.
    pub sink: String,
    /// The change it is about.
    pub seq: u64,
    /// Why it was to be sent: `change`, `held` or `existing`.
    pub trigger: String,
    /// The object, as `plural/namespace/name`; empty if the change is no longer kept.
    pub object: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub time: Timestamp,
    /// Why.
    pub error: String,
}

/// Shows one dead letter with what would be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowLetter {
    /// Which.
    pub id: String,
}

/// A dead letter with what would be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WholeLetter {
    /// The letter.
    pub letter: LetterView,
    /// The id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The type of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What would be sent if it were redriven now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Takes dead letters off the shelf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeLetters {
    /// Which.
    pub which: WhichLetters,
    /// What becomes of them.
    pub then: Then,
}

/// What becomes of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// They are tried again, after everything that is pending.
    Redrive,
    /// They are forgotten for good.
    Drop,
}

/// How many dead letters were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// So many.
    pub taken: usize,
}

impl WhichLetters {
    fn letters(&self) -> Result<Letters, Refusal> {
        match (&self.rule, &self.sink, &self.id) {
            (None, None, None) => Ok(Letters::All),
            (Some(rule), None, None) => Ok(Letters::Rule(rule.clone())),
            (None, Some(sink), None) => Ok(Letters::Sink(sink.clone())),
            (None, None, Some(id)) => Ok(Letters::One(id.clone())),
            _ => Err(Refusal::bad("give one of a rule, a sink and an id")),
        }
    }
}

impl Question for DeadLetters {
    const NAME: &'static str = "dead-letters";
    type Answer = LetterPage;

    async fn answer(&self, admin: &Admin) -> Result<LetterPage, Refusal> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let which = self.which.letters()?;
        let found = admin
            .reactor()?
            .dead_letters(&which, self.after.as_deref(), limit)
            .await?;
        let letters: Vec<LetterView> = found.into_iter().map(LetterView::from).collect();
        let next = letters
            .last()
            .filter(|_| letters.len() == limit)
            .map(|last| last.id.clone());
        Ok(LetterPage { letters, next })
    }
}

impl Question for ShowLetter {
    const NAME: &'static str = "dead-letter";
    type Answer = WholeLetter;

    async fn answer(&self, admin: &Admin) -> Result<WholeLetter, Refusal> {
        let (letter, event) = admin.reactor()?.dead_letter(&self.id).await?;
        let mut whole = WholeLetter {
            letter: letter.into(),
            event: None,
            content_type: None,
            data: None,
            problem: None,
        };
        match event {
            Ok(event) => {
                let text = || Value::String(String::from_utf8_lossy(&event.data).into_owned());
                whole.data = Some(serde_json::from_slice(&event.data).unwrap_or_else(|_| text()));
                whole.content_type = Some(event.content_type.to_owned());
                whole.event = Some(event.id);
            }
            Err(problem) => whole.problem = Some(problem),
        }
        Ok(whole)
    }
}

impl Question for TakeLetters {
    const NAME: &'static str = "take-dead-letters";
    type Answer = Taken;

    async fn answer(&self, admin: &Admin) -> Result<Taken, Refusal> {
        let which = self.which.letters()?;
        let reactor = admin.reactor()?;
        let taken = match self.then {
            Then::Redrive => reactor.redrive(&which).await?,
            Then::Drop => reactor.drop_letters(&which).await?,
        };
        Ok(Taken { taken })
    }
}

impl From<DeadLetter> for LetterView {
    fn from(letter: DeadLetter) -> Self {
        let trigger = match letter.trigger {
            Trigger::Change => "change",
            Trigger::Held => "held",
            Trigger::Existing => "existing",
        };
        Self {
            id: letter.id,
            rule: letter.rule,
            sink: letter.sink,
            seq: letter.seq.0,
            trigger: trigger.to_owned(),
            object: letter.object,
            attempts: letter.attempts,
            time: letter.at,
            error: letter.error,
        }
    }
}
