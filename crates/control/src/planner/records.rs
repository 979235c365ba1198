//! What records ask for.

use skopos_api::{RecordSpec, Scope};
use skopos_journal::{Asked, FieldPath, Limits, SelectionPart};
use skopos_object::{CollectionName, LabelSelector, Object};
use skopos_react::rule::{KindNames, SYSTEM_NAMESPACE};

use super::{
    Planned, Planner,
    find::{Found, NotServed},
    memory::Form,
};
use crate::{RecordVerdict, kinds::Given};

/// A record without problems.
#[derive(Clone, Debug)]
pub(super) struct GoodRecord {
    pub(super) form: Form<RecordSpec>,
    watched: Vec<Watched>,
    redact: Vec<FieldPath>,
    limits: Limits,
}

/// What is to be left out of a kind, whoever asks for it.
#[derive(Debug)]
pub(super) struct LeftOut {
    group: String,
    kind: String,
    redact: Vec<FieldPath>,
}

/// Objects of one kind.
#[derive(Clone, Debug)]
struct Watched {
    group: String,
    kind: String,
    version: Option<String>,
    part: SelectionPart,
}

impl Planner {
    pub(super) async fn plan_record(
        &mut self,
        name: &str,
        given: &Given<RecordSpec>,
        definitions: &[Object],
        planned: &mut Planned,
    ) {
        let mut verdict = RecordVerdict {
            generation: given.generation,
            ..RecordVerdict::default()
        };
        match GoodRecord::read(given) {
            Ok(good) => {
                self.records.insert(name.to_owned(), good);
            }
            Err(problems) => {
                verdict.problems = problems;
                self.recall_record(name, given);
            }
        }
        // One with a mistake leaves the last good one: to go on without its redactions would write down too much.
        match self.records.get(name) {
            Some(good) => {
                verdict.in_force = Some(good.form.generation);
                self.put_in_force(given, good, definitions, &mut verdict, planned)
                    .await;
            }
            None => planned.left_out.extend(readable(given)),
        }
        planned.verdicts.records.insert(name.to_owned(), verdict);
    }

    /// Puts the last good form in force that is remembered from before the start, if none is in force.
    fn recall_record(&mut self, name: &str, given: &Given<RecordSpec>) {
        let form = self.memory.records.get(name);
        let form = form.filter(|_| !self.records.contains_key(name));
        let good = form.and_then(|form| GoodRecord::read(&form.given(given.key.clone())).ok());
        if let Some(good) = good {
            self.records.insert(name.to_owned(), good);
        }
    }

    async fn put_in_force(
        &self,
        given: &Given<RecordSpec>,
        good: &GoodRecord,
        definitions: &[Object],
        verdict: &mut RecordVerdict,
        planned: &mut Planned,
    ) {
        for watched in &good.watched {
            let found = self.find(&watched.group, &watched.kind, definitions).await;
            let problem = match &found {
                Ok(found) => self.misfit(given, watched, found, planned).await,
                Err(not) => {
                    planned.is_unsettled = true;
                    verdict.not_served.push(not.reason.clone());
                    // Whoever looks for the kind a moment later may find it.
                    planned.left_out.push(good.left_out(watched));
                    None
                }
            };
            if let Some(problem) = problem {
                verdict.problems.push(problem);
                // It asks for nothing so, but who else asks for the kind must not write down what it leaves out.
                planned.left_out.push(good.left_out(watched));
                continue;
            }
            let Some(found) = NotServed::known(&found) else {
                continue;
            };
            let name = CollectionName::new(found.names.group.as_str(), found.names.plural.as_str());
            let scoped = self.scoped(found, &name, &watched.part);
            verdict.problems.extend(scoped.problem);
            for (name, part) in scoped.parts {
                let limits = planned.retention.collections.entry(name.to_string());
                limits
                    .and_modify(|others| *others = others.longest(good.limits))
                    .or_insert(good.limits);
                verdict.collections.push(name.to_string());
                let asked = planned.ask(name, &found.names);
                asked.selection.add(part);
                asked.redact.extend(good.redact.iter().cloned());
            }
        }
        verdict.collections.sort();
        verdict.collections.dedup();
    }

    /// Why nothing that a record asks for ever shows up in a kind that is served.
    async fn misfit(
        &self,
        given: &Given<RecordSpec>,
        watched: &Watched,
        found: &Found,
        planned: &mut Planned,
    ) -> Option<String> {
        match self.version_problem(found, watched.version.as_deref()).await {
            Ok(problem) => problem.or_else(|| self.scope_problem(found, given, &watched.part.namespaces)),
            Err(()) => {
                planned.is_unsettled = true;
                None
            }
        }
    }
}

impl Planned {
    /// Leaves out what records want left out of what others ask for.
    pub(super) fn leave_out(&mut self) {
        for left_out in std::mem::take(&mut self.left_out) {
            for kind in self.kinds.iter().filter(|kind| left_out.is_of(kind)) {
                let is_of_kind =
                    |one: &&mut Asked| one.name.group == kind.group && one.name.resource == kind.plural;
                for asked in self.asked.iter_mut().filter(is_of_kind) {
                    let others = left_out.redact.iter();
                    // What asks for the same as before is followed on without a break.
                    let others: Vec<_> = others.filter(|path| !asked.redact.contains(path)).collect();
                    asked.redact.extend(others.into_iter().cloned());
                }
            }
        }
    }
}

impl LeftOut {
    /// Whether this is the kind, by any of its names and in any case: better too much is left out than too little.
    fn is_of(&self, kind: &KindNames) -> bool {
        let mut names = [&kind.kind, &kind.plural, &kind.singular]
            .into_iter()
            .chain(&kind.short_names);
        kind.group == self.group && names.any(|name| name.eq_ignore_ascii_case(&self.kind))
    }
}

impl GoodRecord {
    fn left_out(&self, watched: &Watched) -> LeftOut {
        LeftOut {
            group: watched.group.clone(),
            kind: watched.kind.clone(),
            redact: self.redact.clone(),
        }
    }

    /// Checks everything that can be checked without a server.
    fn read(given: &Given<RecordSpec>) -> Result<Self, Vec<String>> {
        let spec = given.spec.as_ref().map_err(|problem| vec![problem.clone()])?;
        let mut problems: Vec<String> = spec.mistakes().iter().map(ToString::to_string).collect();
        let mut redact = Vec::new();
        for path in &spec.redact {
            match FieldPath::parse(path) {
                Ok(path) => redact.push(path),
                Err(error) => problems.push(format!("spec.redact: {error}")),
            }
        }
        let mut watched = Vec::new();
        for (index, scope) in spec.watch.iter().enumerate() {
            match part(given, scope) {
                Ok(part) => watched.push(Watched {
                    group: scope.group.clone(),
                    kind: scope.kind.clone(),
                    version: scope.version.clone(),
                    part,
                }),
                Err(problem) => problems.push(format!("spec.watch[{index}].{problem}")),
            }
        }
        match problems.is_empty() {
            true => Ok(Self {
                form: Form::of(given, spec),
                watched,
                redact,
                limits: Limits {
                    max_age: spec.keep.age.map(|span| span.0),
                    max_changes: spec.keep.changes,
                    max_bytes: spec.keep.size.map(|size| size.0),
                },
            }),
            false => Err(problems),
        }
    }
}

/// What can be read of what a record with a mistake wants left out.
fn readable(given: &Given<RecordSpec>) -> Vec<LeftOut> {
    let Ok(spec) = &given.spec else {
        return Vec::new();
    };
    let paths = spec.redact.iter();
    let redact: Vec<FieldPath> = paths.filter_map(|path| FieldPath::parse(path).ok()).collect();
    let of = |scope: &Scope| LeftOut {
        group: scope.group.clone(),
        kind: scope.kind.clone(),
        redact: redact.clone(),
    };
    spec.watch.iter().map(of).collect()
}

/// Which objects of its kind a scope means.
fn part(given: &Given<RecordSpec>, scope: &Scope) -> Result<SelectionPart, String> {
    let labels = match &scope.selector {
        None => LabelSelector::everything(),
        Some(selector) => {
            let json = serde_json::to_value(selector).unwrap_or_default();
            LabelSelector::from_match(&json).map_err(|error| format!("selector: {error}"))?
        }
    };
    let own = &given.key.namespace;
    let is_unrestricted = given.is_from_file || own == SYSTEM_NAMESPACE;
    let namespaces = match is_unrestricted {
        true => scope.namespaces.clone(),
        false if scope.namespaces.iter().all(|one| one == own) => vec![own.clone()],
        false => {
            return Err(format!(
                "namespaces: a record in the namespace {own:?} sees only that one: leave the field out, or put the record \
                 into the namespace {SYSTEM_NAMESPACE}"
            ));
        }
    };
    Ok(SelectionPart { namespaces, labels })
}

#[cfg(test)]
mod tests;
