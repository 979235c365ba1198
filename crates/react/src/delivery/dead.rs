//! Dead letters, for people: list, show, redrive, drop.

use jiff::Timestamp;
use skopos_journal::Seq;
use skopos_sink::Event;

use super::{
    Error, PlannedRule, Reactor, Trigger,
    entries::find,
    lanes::{RouteId, Row},
    store::{Letter, RouteRecord, Then, letters},
};

/// A delivery that was given up.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// What it is called, such as `12-345`.
    pub id: String,
    /// The rule, or the replay of one.
    pub rule: String,
    /// Where it did not arrive.
    pub sink: String,
    /// The change it is about.
    pub seq: Seq,
    /// Why it was to be sent.
    pub trigger: Trigger,
    /// The object, as `plural/namespace/name`; empty if the change is no longer kept.
    pub object: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub at: Timestamp,
    /// Why.
    pub error: String,
}

/// Which dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letters {
    /// All.
    All,
    /// Those of a rule, as `namespace/name`, or of a replay, by its own name.
    Rule(String),
    /// Those of a sink, as `namespace/name`.
    Sink(String),
    /// One, by its [`id`](DeadLetter::id).
    One(String),
}

/// A rule and a sink with dead letters.
struct Shelf {
    rule_id: u32,
    rule: String,
    sink: String,
    route: RouteRecord,
}

/// Letters moved in one transaction at most.
const MOVED_AT_ONCE: usize = 1000;

impl Reactor {
    /// Dead letters in a fixed order, at most `limit`; `after` is the id to go on after.
    pub async fn dead_letters(
        &self,
        which: &Letters,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let after = after.map(parse).transpose()?.unwrap_or_default();
        let mut found = Vec::new();
        for shelf in self.shelves(which)? {
            let id = shelf.route.id;
            let from = match id.cmp(&after.0) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => after.1 + 1,
                std::cmp::Ordering::Greater => 0,
            };
            let (from, room) = match which {
                Letters::One(letter) => (parse(letter)?.1, 1),
                _ => (from, limit - found.len()),
            };
            let read = self
                .shared
                .store
                .read(move |transaction| letters(transaction, id, from, room));
            let read = read.await?.into_iter().map(|letter| shelf.letter(letter));
            found.extend(read.filter(|letter| !matches!(which, Letters::One(id) if *id != letter.id)));
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// One dead letter, and what would be sent if it were redriven now.
    pub async fn dead_letter(&self, id: &str) -> Result<(DeadLetter, Result<Event, String>), Error> {
        let which = Letters::One(id.to_owned());
        let letter = self.dead_letters(&which, None, 1).await?.pop();
        let letter = letter.ok_or_else(|| Error::NoSuchLetter(id.to_owned()))?;
        let event = self.render(id, &letter).await;
        Ok((letter, event))
    }

    async fn render(&self, id: &str, letter: &DeadLetter) -> Result<Event, String> {
        let (route, place) = parse(id).map_err(|error| error.to_string())?;
        let read = self
            .shared
            .store
            .read(move |transaction| letters(transaction, route, place, 1));
        let found = read.await.map_err(|error| error.to_string())?.pop();
        let found = found.ok_or("it is gone")?;
        let rule = self.rule_of(letter).ok_or("the rule is not in force")?;
        let action = rule.action(&letter.sink, usize::from(found.action));
        let action = action.ok_or("the rule has no action for this sink")?;
        let row = Row {
            route: RouteId(route),
            ord: place,
            seq: Seq(found.seq),
            cause: found.cause,
            action: found.action,
            lane: 0,
            key: (!found.key.is_empty()).then(|| found.key.as_str().into()),
        };
        let entry = find(&*self.shared.log, &row, &rule.evaluator.wanted()).await;
        let entry = entry.map_err(|error| error.to_string())?;
        let entry = entry.ok_or_else(|| format!("change {} is no longer kept", found.seq))?;
        rule.evaluator.render(action, &entry, letter.trigger)
    }

    /// The rule that a letter would be made by, which may be a replay of one.
    fn rule_of(&self, letter: &DeadLetter) -> Option<PlannedRule> {
        let (mut records, _) = self.shared.store.board.records();
        let replayed = records.remove(&letter.rule).and_then(|record| record.replay);
        let name = replayed.as_ref().map_or(&letter.rule, |replayed| &replayed.rule);
        let mut rule = self.plan.borrow().rules.get(name).cloned()?;
        if let Some(sink) = replayed.and_then(|replayed| replayed.sink) {
            rule.redirect(&sink);
        }
        Some(rule)
    }

    /// Tries dead letters again, after everything that is pending. Says how many.
    pub async fn redrive(&self, which: &Letters) -> Result<usize, Error> {
        self.take_letters(which, Then::Redrive).await
    }

    /// Forgets dead letters for good. Says how many.
    pub async fn drop_letters(&self, which: &Letters) -> Result<usize, Error> {
        self.take_letters(which, Then::Drop).await
    }

    async fn take_letters(&self, which: &Letters, then: Then) -> Result<usize, Error> {
        let place = match which {
            Letters::One(id) => Some(parse(id)?.1),
            Letters::All | Letters::Rule(_) | Letters::Sink(_) => None,
        };
        let mut n_taken = 0;
        for shelf in self.shelves(which)? {
            // Only those that are there now: one that fails again meanwhile is not taken twice.
            let mut left = usize::try_from(shelf.route.letters).unwrap_or(usize::MAX);
            while left > 0 {
                let (rule, sink, most) = (shelf.rule_id, shelf.sink.clone(), left.min(MOVED_AT_ONCE));
                let taken = self
                    .shared
                    .store
                    .write(move |tables| tables.take_letters((rule, &sink), place, most, then))
                    .await?;
                n_taken += taken;
                left -= taken.min(left);
                if taken == 0 || place.is_some() {
                    break;
                }
            }
            self.shared.bells.ring(&shelf.sink, RouteId(shelf.route.id));
        }
        match which {
            Letters::One(id) if n_taken == 0 => Err(Error::NoSuchLetter(id.clone())),
            _ => Ok(n_taken),
        }
    }

    fn shelves(&self, which: &Letters) -> Result<Vec<Shelf>, Error> {
        let one = match which {
            Letters::One(id) => Some(parse(id)?.0),
            Letters::All | Letters::Rule(_) | Letters::Sink(_) => None,
        };
        let (rules, routes) = self.shared.store.board.records();
        let mut shelves = Vec::new();
        for ((rule_id, sink), route) in routes {
            let Some((rule, _)) = rules.iter().find(|(_, record)| record.id == rule_id) else {
                continue;
            };
            let is_wanted = match which {
                Letters::All => true,
                Letters::Rule(name) => name == rule,
                Letters::Sink(name) => *name == sink,
                Letters::One(_) => one == Some(route.id),
            };
            if is_wanted && route.letters > 0 {
                let rule = rule.clone();
                shelves.push(Shelf {
                    rule_id,
                    rule,
                    sink,
                    route,
                });
            }
        }
        shelves.sort_by_key(|shelf| shelf.route.id);
        Ok(shelves)
    }
}

impl Shelf {
    fn letter(&self, letter: Letter) -> DeadLetter {
        DeadLetter {
            id: format!("{}-{}", letter.route, letter.place),
            rule: self.rule.clone(),
            sink: self.sink.clone(),
            seq: Seq(letter.seq),
            trigger: letter.cause.trigger(),
            object: letter.object,
            attempts: letter.attempts,
            at: letter.at,
            error: letter.error,
        }
    }
}

/// Route and place.
fn parse(id: &str) -> Result<(u32, u64), Error> {
    let parts = id.split_once('-');
    let parsed = parts.and_then(|(route, place)| Some((route.parse().ok()?, place.parse().ok()?)));
    parsed.ok_or_else(|| Error::NoSuchLetter(id.to_owned()))
}
