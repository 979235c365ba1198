//! Toy rules over the number of an object.

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use skopos_api::Event as What;
use skopos_journal::Entry;
use skopos_object::{Object, Op};
use skopos_sink::Event;

use crate::rule::Subject;

use crate::delivery::{Evaluated, Evaluator, Outcome, Trigger};

/// When a toy rule matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    Always,
    /// The number is even.
    Even,
    /// The number has become five or more.
    Became,
    /// The number has been five or more for so many seconds.
    Held(i64),
    Never,
    Fails,
    Panics,
}

#[derive(Clone, Debug)]
pub(crate) struct Toy {
    name: &'static str,
    when: When,
    /// Rendering fails for this number.
    pub(crate) unprintable: Option<i64>,
    /// Ids tell for which action they are.
    pub(crate) names_actions: bool,
    /// Events are at least so large.
    pub(crate) n_bytes: usize,
}

impl Toy {
    pub(crate) fn new(name: &'static str, when: When) -> Self {
        Self {
            name,
            when,
            unprintable: None,
            names_actions: false,
            n_bytes: 0,
        }
    }

    pub(crate) fn id(&self, entry: &Entry, trigger: Trigger) -> String {
        match trigger {
            Trigger::Held => format!("{}.{}.held", self.name, entry.id()),
            Trigger::Change | Trigger::Existing => format!("{}.{}", self.name, entry.id()),
        }
    }

    fn held(entry: &Entry, edge: Option<&[u8]>, seconds: i64, now: Timestamp) -> Evaluated {
        if !is_high(entry.after.as_ref()) {
            return Evaluated::skip();
        }
        let since = edge.map_or(entry.at.as_millisecond(), |edge| {
            i64::from_be_bytes(edge[..8].try_into().unwrap())
        });
        let was_told = edge.is_some_and(|edge| edge.len() > 8);
        let due = Timestamp::from_millisecond(since).unwrap() + SignedDuration::from_secs(seconds);
        let mut edge = since.to_be_bytes().to_vec();
        let matches = !was_told && now >= due;
        if was_told || matches {
            edge.push(1);
        }
        Evaluated {
            outcome: if matches { Outcome::Match } else { Outcome::Skip },
            wake_at: (!was_told && !matches).then_some(due),
            edge: Some(edge),
        }
    }
}

pub(crate) fn number(object: &Object) -> i64 {
    object.get(&["spec", "n"]).unwrap().as_i64().unwrap()
}

fn is_high(object: Option<&Object>) -> bool {
    object.is_some_and(|object| number(object) >= 5)
}

fn matched(matches: bool) -> Evaluated {
    if matches {
        Evaluated::matched()
    } else {
        Evaluated::skip()
    }
}

impl Evaluator for Toy {
    fn evaluate(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        let entry = subject.entry();
        match self.when {
            When::Always => Evaluated::matched(),
            When::Never => Evaluated::skip(),
            When::Even => matched(number(entry.object().unwrap()) % 2 == 0),
            When::Became => {
                let was = edge.map_or_else(|| is_high(entry.before.as_ref()), |edge| edge == [1]);
                let is = is_high(entry.after.as_ref());
                Evaluated {
                    edge: Some(vec![u8::from(is)]),
                    ..matched(is && !was)
                }
            }
            When::Held(seconds) => Self::held(entry, edge, seconds, now),
            When::Fails => Evaluated {
                outcome: Outcome::Failed("no such field".into()),
                ..Evaluated::skip()
            },
            When::Panics => panic!("a rule that panics"),
        }
    }

    fn wake(&self, last: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        match self.when {
            When::Held(seconds) => Self::held(last.entry(), edge, seconds, now),
            _ => Evaluated::skip(),
        }
    }

    fn render(&self, action: usize, entry: &Entry, trigger: Trigger) -> Result<Event, String> {
        let n = entry.object().map(number);
        if n.is_some() && n == self.unprintable {
            return Err("cannot be printed".into());
        }
        let mut data = n.unwrap_or_default().to_string().into_bytes();
        data.resize(data.len().max(self.n_bytes), b' ');
        Ok(Event {
            id: match self.names_actions {
                true => format!("{}.{action}", self.id(entry, trigger)),
                false => self.id(entry, trigger),
            },
            what: match entry.op {
                Op::Created => What::Created,
                Op::Updated => What::Updated,
                Op::Deleted => What::Deleted,
            },
            source: "/widgets".into(),
            subject: entry.key.to_string(),
            rule: self.name.into(),
            time: entry.at.to_string(),
            lane: entry.uid.clone(),
            content_type: "text/plain",
            data: Bytes::from(data),
            traceparent: None,
            account: None,
        })
    }

    fn remembers(&self) -> bool {
        matches!(self.when, When::Became | When::Held(_))
    }
}
