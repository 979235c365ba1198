//! What was given up, over HTTP: listed, and put back. Served only where a manager was told to.

use std::sync::{Mutex, PoisonError};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Body;
use jiff::{SignedDuration, Timestamp};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use skopos_object::ObjectKey;
use skopos_queue::DeadLetter;
use tracing::info;

use crate::health::{answer, plain};
use crate::leader::micro_time;
use crate::run::ControllerQueue;

const LIST: &str = "/debug/dead-letters";
const REDRIVE: &str = "/debug/dead-letters/redrive";
/// How many are listed unless `limit` says otherwise, and how many at most. Each has up to 4 KiB of text.
const USUAL_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// The dead letters of all controllers of a manager.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    queues: Vec<(String, ControllerQueue)>,
    /// Held while one is answered: each copies the letters of a queue, which are many at times.
    one_at_a_time: Mutex<()>,
}

/// What is asked for. Everything that is given has to be so.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    controller: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    limit: Option<String>,
}

#[derive(Serialize)]
struct List {
    /// How many there are, also those that are left out.
    total: usize,
    items: Vec<Item>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    controller: String,
    namespace: String,
    name: String,
    attempts: u32,
    error: String,
    first_failed: String,
    last_failed: String,
}

#[derive(Serialize)]
struct Redriven {
    redriven: usize,
}

/// Why a request is refused.
struct Refusal {
    code: StatusCode,
    text: String,
}

impl DeadLetters {
    pub(crate) fn new(queues: Vec<(String, ControllerQueue)>) -> Self {
        Self {
            queues,
            one_at_a_time: Mutex::default(),
        }
    }

    /// Answers a request for one of these pages; nothing if it is for another.
    pub(crate) fn answer<B: Body>(&self, request: &Request<B>) -> Option<Response<String>> {
        let query = request.uri().query().unwrap_or_default();
        let answered = match (request.uri().path(), request.method()) {
            (LIST, &(Method::GET | Method::HEAD)) => self.list(query),
            (LIST, _) => return Some(not_allowed("GET, HEAD")),
            (REDRIVE, &Method::POST) => check_sender(request).and_then(|()| self.redrive(query)),
            (REDRIVE, _) => return Some(not_allowed("POST")),
            _ => return None,
        };
        Some(match answered {
            Ok(json) => answer(StatusCode::OK, "application/json", json),
            Err(Refusal { code, text }) => plain(code, format!("{text}\n")),
        })
    }

    fn list(&self, query: &str) -> Result<String, Refusal> {
        let asked = Asked::parse(query)?;
        let limit = asked.limit()?;
        let queues = self.queues_of(&asked)?;
        let now = Timestamp::now();
        let mut list = List {
            total: 0,
            items: Vec::new(),
        };
        let _turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        for (controller, queue) in queues {
            for letter in asked.found(queue) {
                list.total += 1;
                if list.items.len() < limit {
                    list.items.push(Item::new(controller, letter, now));
                }
            }
        }
        json(&list)
    }

    fn redrive(&self, query: &str) -> Result<String, Refusal> {
        let asked = Asked::parse(query)?;
        if asked.limit.is_some() {
            return Err(bad("limit is for lists"));
        }
        let queues = self.queues_of(&asked)?;
        let (mut n_found, mut redriven) = (0, 0);
        let _turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        for (controller, queue) in queues {
            let keys: Vec<ObjectKey> = asked.found(queue).map(|letter| letter.key).collect();
            // One may have come back by itself meanwhile, because its object changed.
            let n = keys.iter().filter(|key| queue.put_back(key)).count();
            info!(controller, n, "dead letters were put back over HTTP");
            n_found += keys.len();
            redriven += n;
        }
        if n_found == 0 && (asked.namespace.is_some() || asked.name.is_some()) {
            return Err(missing("no dead letter is of this namespace and name"));
        }
        json(&Redriven { redriven })
    }

    fn queues_of(&self, asked: &Asked) -> Result<Vec<(&str, &ControllerQueue)>, Refusal> {
        let all = self.queues.iter().map(|(name, queue)| (name.as_str(), queue));
        let Some(controller) = &asked.controller else {
            return Ok(all.collect());
        };
        let found: Vec<_> = all.filter(|(name, _)| name == controller).collect();
        match found.is_empty() {
            true => Err(missing("no controller has this name")),
            false => Ok(found),
        }
    }
}

impl Asked {
    fn parse(query: &str) -> Result<Self, Refusal> {
        let mut asked = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "controller" => &mut asked.controller,
                "namespace" => &mut asked.namespace,
                "name" => &mut asked.name,
                "limit" => &mut asked.limit,
                _ => return Err(bad("only controller, namespace, name and limit can be asked for")),
            };
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| bad("what is asked for is not UTF-8"))?;
            if place.replace(value.into_owned()).is_some() {
                return Err(bad(&format!("{name} is given twice")));
            }
        }
        Ok(asked)
    }

    fn limit(&self) -> Result<usize, Refusal> {
        let Some(limit) = &self.limit else {
            return Ok(USUAL_LIMIT);
        };
        let limit = limit.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.ok_or_else(|| bad(&format!("limit is a number from 1 to {MAX_LIMIT}")))
    }

    /// The letters of a queue that fit.
    fn found(&self, queue: &ControllerQueue) -> impl Iterator<Item = DeadLetter<ObjectKey>> {
        let letters = queue.dead_letters().into_iter();
        letters
            .filter(|letter| fits(self.namespace.as_deref(), &letter.key.namespace))
            .filter(|letter| fits(self.name.as_deref(), &letter.key.name))
    }
}

fn fits(asked: Option<&str>, is: &str) -> bool {
    asked.is_none_or(|asked| asked == is)
}

impl Item {
    fn new(controller: &str, letter: DeadLetter<ObjectKey>, now: Timestamp) -> Self {
        let ago = |time| {
            let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
            micro_time(now.saturating_sub(time).unwrap_or(Timestamp::MIN))
        };
        Self {
            controller: controller.to_owned(),
            namespace: letter.key.namespace,
            name: letter.key.name,
            attempts: letter.attempts,
            first_failed: ago(letter.first_failed),
            last_failed: ago(letter.last_failed),
            error: letter.error,
        }
    }
}

/// A page of somebody else's that is open in a browser must not put anything back. Browsers say where a POST is from.
fn check_sender<B: Body>(request: &Request<B>) -> Result<(), Refusal> {
    if request.headers().contains_key(header::ORIGIN) {
        let text = "not for browsers: the header origin is refused".to_owned();
        let code = StatusCode::FORBIDDEN;
        return Err(Refusal { code, text });
    }
    match request.body().is_end_stream() {
        true => Ok(()),
        false => Err(bad("a body is not read: say in the query what to put back")),
    }
}

fn json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(value).map_err(|error| Refusal {
        code: StatusCode::INTERNAL_SERVER_ERROR,
        text: error.to_string(),
    })
}

fn bad(text: &str) -> Refusal {
    Refusal {
        code: StatusCode::BAD_REQUEST,
        text: text.to_owned(),
    }
}

fn missing(text: &str) -> Refusal {
    Refusal {
        code: StatusCode::NOT_FOUND,
        text: text.to_owned(),
    }
}

fn not_allowed(methods: &'static str) -> Response<String> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, format!("only {methods}\n"));
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}
