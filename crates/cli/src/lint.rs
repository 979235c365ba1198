//! Checks rules, sinks, records and resources without a server.

mod creation;
mod fit;
mod resources;
mod rules;

use std::collections::BTreeMap;

use serde::Serialize;
use skopos_api::Resource;

use crate::rule_files::{RuleFiles, name};

/// What was found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// What is wrong.
    pub(crate) problems: Vec<Finding>,
    /// What may be wrong.
    pub(crate) warnings: Vec<Finding>,
    /// The cases of tests that passed.
    pub(crate) tests_passed: usize,
    /// The cases of tests that failed; each is also a problem.
    pub(crate) tests_failed: usize,
    pub(crate) files: usize,
    pub(crate) objects: usize,
    /// Resources of kinds whose definition is not in the files.
    pub(crate) unchecked: usize,
}

/// Something that was found, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The file and line, or what can be said of the place.
    pub(crate) place: String,
    /// The object, as `Rule ops/backup-failed`.
    pub(crate) object: String,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Report {
    fn problem(&mut self, place: &str, object: &str, message: impl Into<String>) {
        self.problems.push(finding(place, object, message));
    }

    fn warning(&mut self, place: &str, object: &str, message: impl Into<String>) {
        self.warnings.push(finding(place, object, message));
    }
}

fn finding(place: &str, object: &str, message: impl Into<String>) -> Finding {
    Finding {
        place: place.to_owned(),
        object: object.to_owned(),
        message: message.into(),
    }
}

/// Checks everything that files hold.
pub(crate) async fn lint(files: &RuleFiles) -> Report {
    let mut report = Report {
        files: files.n_files,
        objects: files.ours.len() + files.definitions.len() + files.others.len(),
        ..Report::default()
    };
    for problem in &files.problems {
        report.problem("", "", problem.as_str());
    }
    twice(files, &mut report);
    let defined = resources::definitions(files, &mut report);
    resources::resources(files, &defined, &mut report);
    resources::own(files, &mut report);
    let compiled = rules::rules(files, &mut report);
    rules::sinks(files, &mut report).await;
    rules::records(files, &mut report);
    fit::fit(files, &mut report);
    rules::tests(files, &compiled, &mut report);
    report
}

/// Two objects of the same name would fight for it.
fn twice(files: &RuleFiles, report: &mut Report) {
    let mut seen: BTreeMap<_, String> = BTreeMap::new();
    for loaded in &files.ours {
        let key = name(&loaded.resource);
        let place = place(loaded);
        if let Some(first) = seen.insert(key.clone(), place.clone()) {
            report.problem(
                &place,
                &title(&loaded.resource),
                format!("is there twice: also at {first}"),
            );
        }
    }
}

/// Where an object of ours was written.
fn place(loaded: &skopos_api::Loaded) -> String {
    format!("{}:{}", loaded.file.display(), loaded.line)
}

/// What an object of ours is called, for people.
fn title(resource: &Resource) -> String {
    let (kind, namespace, name) = name(resource);
    format!("{kind} {namespace}/{name}")
}
