//! Something that can be asked, and the table of all of them.

use futures_core::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Admin, Backtest, CancelReplay, Changes, Collections, DeadLetters, Explain, Holes, ObjectAt, Refusal,
    Resolve, ResumeRule, ShowChange, ShowLetter, StartReplay, Status, TakeLetters,
};

/// Something that can be asked, in process or over HTTP.
pub trait Question: Serialize + DeserializeOwned + Send + Sync {
    /// The last part of its path.
    const NAME: &'static str;
    /// What is answered.
    type Answer: Serialize + DeserializeOwned + Send;

    /// Answers it.
    fn answer(&self, admin: &Admin) -> impl Future<Output = Result<Self::Answer, Refusal>> + Send;
}

/// Answers a question by the name and the text that came over HTTP.
type Answerer = for<'a> fn(&'a Admin, &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, Refusal>>;

/// All that can be asked over HTTP.
const QUESTIONS: &[(&str, Answerer)] = &[
    (Changes::NAME, answer::<Changes>),
    (ShowChange::NAME, answer::<ShowChange>),
    (Collections::NAME, answer::<Collections>),
    (Holes::NAME, answer::<Holes>),
    (Resolve::NAME, answer::<Resolve>),
    (Backtest::NAME, answer::<Backtest>),
    (Explain::NAME, answer::<Explain>),
    (DeadLetters::NAME, answer::<DeadLetters>),
    (ShowLetter::NAME, answer::<ShowLetter>),
    (TakeLetters::NAME, answer::<TakeLetters>),
    (StartReplay::NAME, answer::<StartReplay>),
    (CancelReplay::NAME, answer::<CancelReplay>),
    (ResumeRule::NAME, answer::<ResumeRule>),
    (Status::NAME, answer::<Status>),
    (ObjectAt::NAME, answer::<ObjectAt>),
];

/// Finds who answers a question of this name.
pub(crate) fn answerer(name: &str) -> Option<Answerer> {
    let found = QUESTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, answerer)| *answerer)
}

fn answer<'a, Q: Question>(admin: &'a Admin, body: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, Refusal>> {
    Box::pin(async move {
        // Nothing asked for means everything.
        let body = if body.is_empty() { b"{}" } else { body };
        let question: Q = serde_json::from_slice(body)
            .map_err(|error| Refusal::bad(format!("the question {:?} cannot be read: {error}", Q::NAME)))?;
        let answer = question.answer(admin).await?;
        serde_json::to_vec(&answer).map_err(|error| Refusal::failed(error.to_string()))
    })
}
