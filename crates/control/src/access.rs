//! Whether the service account of a rule may read what the rule watches.
//!
//! Capture is shared by all rules and reads with the rights of Skopos. So that a rule tells nobody what its account may
//! not see, the server is asked about the account: when the rule is planned, and again now and then.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use skopos_client::{Call, Client, Error, ServiceAccount};
use tokio::time::Instant;

use crate::planner::chain;

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const VERBS: [&str; 3] = ["get", "list", "watch"];
/// How soon a refusal is looked at again: somebody is probably about to mend it.
const REFUSED_AGAIN: Duration = Duration::from_secs(5);

/// What a rule reads, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) account: ServiceAccount,
    pub(crate) group: String,
    pub(crate) plural: String,
    /// Where; everywhere if there are none.
    pub(crate) namespaces: Vec<String>,
    /// Whether to ask in each of them, for who may not ask about the whole cluster.
    pub(crate) is_local: bool,
}

/// Why a rule with a service account is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// In one word, as conditions have it.
    pub reason: &'static str,
    /// What is missing, and how to give it.
    pub message: String,
}

/// What was answered about each rule.
#[derive(Debug)]
pub(crate) struct Reviews {
    every: Duration,
    answers: BTreeMap<String, Answered>,
}

#[derive(Debug)]
struct Answered {
    reading: Reading,
    at: Instant,
    answer: Result<(), Forbidden>,
}

impl Reviews {
    /// Asks again after so long.
    pub(crate) fn new(every: Duration) -> Self {
        Self {
            every,
            answers: BTreeMap::new(),
        }
    }

    /// Forgets the rules that are not there any more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.answers.retain(|rule, _| is_there(rule));
    }

    /// Whether a question should be asked again.
    pub(crate) fn are_due(&self) -> bool {
        self.answers.values().any(|answered| self.is_due(answered))
    }

    fn is_due(&self, answered: &Answered) -> bool {
        let every = match answered.answer {
            Ok(()) => self.every,
            Err(_) => self.every.min(REFUSED_AGAIN),
        };
        answered.at.elapsed() >= every
    }

    /// Says whether a rule may read, asking if it is not known or was asked long ago.
    pub(crate) async fn check(
        &mut self,
        rule: &str,
        reading: Reading,
        client: &Client,
    ) -> Result<(), Forbidden> {
        let known = self.answers.get(rule).filter(|known| known.reading == reading);
        if let Some(known) = known.filter(|known| !self.is_due(known)) {
            return known.answer.clone();
        }
        let answer = match review(client, &reading).await {
            Ok(answer) => answer,
            Err(error) => match known {
                // The server is away, and what it said before still stands. What is refused is refused again.
                Some(known) if error.is_transient() => known.answer.clone(),
                _ => Err(unreviewed(&reading, &error)),
            },
        };
        let answered = Answered {
            reading,
            at: Instant::now(),
            answer: answer.clone(),
        };
        self.answers.insert(rule.to_owned(), answered);
        answer
    }
}

/// Asks the server about each verb and namespace.
async fn review(client: &Client, reading: &Reading) -> Result<Result<(), Forbidden>, Error> {
    let everywhere = [String::new()];
    let namespaces = match reading.namespaces.as_slice() {
        [] => everywhere.as_slice(),
        these => these,
    };
    for namespace in namespaces {
        let mut missing = Vec::new();
        for verb in VERBS {
            match is_allowed(client, reading, namespace, verb).await {
                Ok(true) => {}
                Ok(false) => missing.push(verb),
                // A server without reviews has no authorization to ask about.
                Err(error) if error.is_not_found() => return Ok(Ok(())),
                Err(error) => return Err(error),
            }
        }
        if !missing.is_empty() {
            return Ok(Err(refused(reading, namespace, &missing)));
        }
    }
    Ok(Ok(()))
}

async fn is_allowed(client: &Client, reading: &Reading, namespace: &str, verb: &str) -> Result<bool, Error> {
    let account = &reading.account;
    let (path, kind) = match reading.is_local {
        true => (
            format!("{AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews"),
            "LocalSubjectAccessReview",
        ),
        false => (
            format!("{AUTHORIZATION}/subjectaccessreviews"),
            "SubjectAccessReview",
        ),
    };
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"namespace": reading.is_local.then_some(namespace)},
        "spec": {
            "user": account.user(),
            "groups": account.groups(),
            "resourceAttributes": {
                "verb": verb,
                "group": reading.group,
                "resource": reading.plural,
                "namespace": namespace,
            },
        },
    });
    let call = Call::new(hyper::Method::POST, path).body("application/json", review.to_string());
    let answer = client.call(&call).await?.value;
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool) == Some(true))
}

fn refused(reading: &Reading, namespace: &str, missing: &[&str]) -> Forbidden {
    let Reading { account, plural, .. } = reading;
    let resource = match reading.group.is_empty() {
        true => plural.clone(),
        false => format!("{plural}.{}", reading.group),
    };
    let (place, role, binding, flag) = match namespace {
        "" => (
            "all namespaces".into(),
            "clusterrole",
            "clusterrolebinding",
            String::new(),
        ),
        one => (
            format!("namespace {one}"),
            "role",
            "rolebinding",
            format!(" -n {one}"),
        ),
    };
    let name = format!("{}-reads-{plural}", account.name);
    Forbidden {
        reason: "Forbidden",
        message: format!(
            "service account {account} may not {} {resource} in {place}: changes wait until it may. Apply what `skopos rbac` \
             prints, or: kubectl create {role} {name} --verb=get,list,watch --resource={resource}{flag} && kubectl create \
             {binding} {name} --{role}={name} --serviceaccount={}:{}{flag}",
            missing.join(", "),
            account.namespace,
            account.name,
        ),
    }
}

fn unreviewed(reading: &Reading, error: &Error) -> Forbidden {
    let account = &reading.account;
    let reviews = match reading.is_local {
        true => "localsubjectaccessreviews",
        false => "subjectaccessreviews",
    };
    let (reason, hint) = match error.status().map(|status| status.code) {
        Some(401 | 403) => (
            "ReviewForbidden",
            format!(
                "Skopos needs the verb create on {reviews}.authorization.k8s.io: apply what `skopos rbac` prints"
            ),
        ),
        _ => ("ReviewFailed", "it is asked again in a few seconds".to_owned()),
    };
    Forbidden {
        reason,
        message: format!(
            "cannot ask what service account {account} may read ({}): changes wait until it is known; {hint}",
            chain(error)
        ),
    }
}
