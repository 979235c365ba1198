//! Why a change matched, or why not.

use std::fmt;

use jiff::Timestamp;
use skopos_cel::EvalErrorKind;
use skopos_object::Op;

use super::{
    compile::CompiledRule,
    condition::{Condition, Moment, States},
    edge::EdgeState,
    scope::Namespaces,
    subject::{Subject, op},
};

/// Why a change matched a rule, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The rule, as `namespace/name`.
    pub rule: String,
    /// The change.
    pub change: String,
    /// Whether it matched.
    pub matched: bool,
    /// What was asked, in order; the first that failed decided.
    pub steps: Vec<Step>,
}

/// One thing that was asked of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What: `kind`, `namespace`, `events`, `selector`, `matchFields`, `fields` or `when`.
    pub name: &'static str,
    /// Whether it was so.
    pub passed: bool,
    /// What was wanted and what was found.
    pub detail: String,
    /// The values that decided, as (expression or path, value).
    pub values: Vec<(String, String)>,
}

impl CompiledRule {
    /// Says why a change matches or not. `edge` is what was kept for the object before the change.
    pub fn explain(&self, subject: &Subject<'_>, edge: Option<&EdgeState>) -> Explanation {
        self.explain_at(subject, edge, subject.entry().at, Moment::Change)
    }

    /// Says why the last state of an object matches or not at a time, as [`evaluate_timer`](Self::evaluate_timer) does.
    pub fn explain_timer(&self, last: &Subject<'_>, edge: Option<&EdgeState>, now: Timestamp) -> Explanation {
        self.explain_at(last, edge, now, Moment::Timer)
    }

    fn explain_at(
        &self,
        subject: &Subject<'_>,
        edge: Option<&EdgeState>,
        now: Timestamp,
        moment: Moment,
    ) -> Explanation {
        let mut steps = vec![
            self.explain_kind(subject),
            self.explain_namespace(subject),
            self.explain_selector(subject),
        ];
        if moment == Moment::Change {
            steps.push(self.explain_events(subject));
            steps.push(self.explain_fields(subject));
        }
        steps.push(self.explain_match_fields(subject));
        if let Some(when) = &self.when {
            steps.push(explain_when(when, subject, edge, now, moment));
        }
        Explanation {
            rule: self.name(),
            change: subject.entry().id().to_string(),
            matched: steps.iter().all(|step| step.passed),
            steps,
        }
    }

    fn explain_kind(&self, subject: &Subject<'_>) -> Step {
        let entry = subject.entry();
        let version = self.scope.version.as_deref().unwrap_or("any version");
        let wanted = format!("{} of group {:?}, {version}", self.scope.kind, self.scope.group);
        let found = format!(
            "{} of group {:?}, {}",
            entry.kind.kind, entry.kind.group, entry.kind.version
        );
        step(
            "kind",
            self.scope.is_kind(entry),
            format!("wanted {wanted}; it is {found}"),
        )
    }

    fn explain_namespace(&self, subject: &Subject<'_>) -> Step {
        let namespace = &subject.entry().key.namespace;
        let wanted = match &self.scope.namespaces {
            Namespaces::All => "any".to_owned(),
            Namespaces::These(names) => names.join(", "),
        };
        let detail = format!("wanted {wanted}; it is {namespace:?}");
        step("namespace", self.scope.namespaces.contain(namespace), detail)
    }

    fn explain_events(&self, subject: &Subject<'_>) -> Step {
        let found = subject.entry().op;
        let wanted: Vec<String> = self
            .scope
            .events
            .iter()
            .map(|event| format!("{event:?}").to_lowercase())
            .collect();
        let wanted = if wanted.is_empty() {
            "any".to_owned()
        } else {
            wanted.join(", ")
        };
        step(
            "events",
            self.scope.is_event(found),
            format!("wanted {wanted}; it was {}", op(found)),
        )
    }

    fn explain_selector(&self, subject: &Subject<'_>) -> Step {
        let entry = subject.entry();
        let passed = self.scope.is_selected(entry);
        if self.scope.selector.is_everything() {
            return step("selector", passed, "none".to_owned());
        }
        let labels = entry.object().map_or_else(Vec::new, |object| {
            let labels = object.labels();
            labels
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect()
        });
        let detail = format!("wanted {} before or after", self.scope.selector);
        Step {
            values: labels,
            ..step("selector", passed, detail)
        }
    }

    fn explain_match_fields(&self, subject: &Subject<'_>) -> Step {
        match self.scope.unmet_field(subject) {
            None => step(
                "matchFields",
                true,
                format!("{} conditions", self.scope.match_fields.len()),
            ),
            Some((path, value)) => {
                let detail = format!("wanted {path} to be {value:?} before or after");
                step("matchFields", false, detail)
            }
        }
    }

    fn explain_fields(&self, subject: &Subject<'_>) -> Step {
        if subject.entry().op != Op::Updated {
            return step("fields", true, "fields count in updates only".to_owned());
        }
        let counting: Vec<&str> = self
            .fields
            .counting(subject.changed())
            .map(|changed| changed.change.path.as_str())
            .collect();
        let n_changed = subject.changed().len();
        let values = subject.changed().iter().map(|changed| {
            let show = |value: &Option<serde_json::Value>| {
                value.as_ref().map_or("nothing".to_owned(), ToString::to_string)
            };
            let (old, new) = (show(&changed.change.old), show(&changed.change.new));
            (changed.change.path.clone(), shortened(&format!("{old} -> {new}")))
        });
        Step {
            values: values.collect(),
            ..match self.fields.may_hide(subject) {
                true => step("fields", true, "a redacted value may have changed".to_owned()),
                false => step(
                    "fields",
                    !counting.is_empty(),
                    format!("{} of {n_changed} changed fields count", counting.len()),
                ),
            }
        }
    }
}

fn explain_when(
    when: &Condition,
    subject: &Subject<'_>,
    edge: Option<&EdgeState>,
    now: Timestamp,
    moment: Moment,
) -> Step {
    let states = match when.remembers() {
        true => when.states(subject, edge, now, moment),
        false => States::default(),
    };
    let (passed, outcome) = match (&states.error, when.eval(subject, &states, now)) {
        (Some(error), _) => (false, error.clone()),
        (None, Ok(value)) => (value, value.to_string()),
        (None, Err(error)) if error.kind() == EvalErrorKind::Missing => {
            (false, format!("{error}, which counts as false"))
        }
        (None, Err(error)) => (false, error.to_string()),
    };
    let mut values = when.parts(subject, &states, now);
    for (_, value) in &mut values {
        *value = shortened(value);
    }
    if let Some(due) = states.due {
        values.push(("heldFor is due".to_owned(), due.to_string()));
    }
    Step {
        values,
        ..step("when", passed, format!("{}: {outcome}", when.source.trim()))
    }
}

fn step(name: &'static str, passed: bool, detail: String) -> Step {
    Step {
        name,
        passed,
        detail,
        values: Vec::new(),
    }
}

/// Long values are cut: they are for people.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.matched { "matches" } else { "does not match" };
        writeln!(f, "{} {outcome} {}", self.rule, self.change)?;
        for step in &self.steps {
            let mark = if step.passed { "yes" } else { "NO " };
            writeln!(f, "  {mark} {}: {}", step.name, step.detail)?;
            for (what, value) in &step.values {
                writeln!(f, "        {what} = {value}")?;
            }
        }
        Ok(())
    }
}
