//! The `when` of a rule: an expression, and the states that its calls are about.

use jiff::Timestamp;
use serde_json::Value as Json;
use skopos_cel::{Activation, CallSite, Env, EvalError, EvalErrorKind, Host, Program, Type, Value};

use super::{
    edge::{EdgeState, Held},
    names::{self, Environments},
    path::FieldPattern,
    problem::{Problem, problems},
    subject::Subject,
};

/// A compiled condition.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) source: String,
    program: Program,
    env: Env,
    calls: Calls,
    /// The states of `became()`, by their number.
    became: Vec<Program>,
    /// The state of `heldFor()` and for how long.
    held: Option<(Program, Program)>,
}

/// The calls of an expression, by their number in it.
pub(crate) type Calls = Vec<Call>;

/// What a call asks.
#[derive(Debug)]
pub(crate) enum Call {
    /// `changed()`, with its path if it is a constant.
    Changed(Option<FieldPattern>),
    /// `was()`, of a state.
    Was(Box<Program>),
    /// `became()`, by its number.
    Became(usize),
    HeldFor,
}

/// Why something is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The object changed.
    Change,
    /// Time passed.
    Timer,
}

/// What the states of an object are, beside what was known of them.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// By the number of the `became()`.
    pub(crate) became: Vec<bool>,
    /// Whether the time of `heldFor()` has come, and it was not told yet.
    pub(crate) is_due: bool,
    /// When it comes.
    pub(crate) due: Option<Timestamp>,
    /// What to remember.
    pub(crate) edge: EdgeState,
    pub(crate) n_missing: u32,
    pub(crate) error: Option<String>,
}

impl Condition {
    pub(crate) fn compile(
        field: &str,
        source: &str,
        environments: &Environments,
    ) -> Result<Self, Vec<Problem>> {
        let env = &environments.when;
        let program = env
            .compile(source)
            .map_err(|error| problems(field, source, &error))?;
        if !is_bool(program.result_type()) {
            let message = format!(
                "the expression gives {}, not true or false",
                program.result_type()
            );
            return Err(vec![Problem::new(
                field,
                message,
                "compare it with something, as in object.spec.replicas > 3",
            )]);
        }
        let mut condition = Self {
            source: source.to_owned(),
            calls: Vec::new(),
            became: Vec::new(),
            held: None,
            env: env.clone(),
            program,
        };
        let sites = condition.program.call_sites().to_vec();
        let mut found = Vec::new();
        for site in &sites {
            if let Err(mut problems) = condition.add(field, site, environments) {
                found.append(&mut problems);
            }
        }
        match found.is_empty() {
            true => Ok(condition),
            false => Err(found.into_iter().map(|problem| reline(problem, source)).collect()),
        }
    }

    fn add(&mut self, field: &str, site: &CallSite, environments: &Environments) -> Result<(), Vec<Problem>> {
        let call = match &*site.function {
            "became" => {
                self.became.push(state(field, site, 0, environments)?);
                Call::Became(self.became.len() - 1)
            }
            "heldFor" if self.held.is_some() => {
                let help = "make a rule of each";
                return Err(vec![Problem::new(
                    field,
                    "heldFor() can be asked once in a rule",
                    help,
                )]);
            }
            "heldFor" => {
                let subject = state(field, site, 0, environments)?;
                self.held = Some((subject, state(field, site, 1, environments)?));
                Call::HeldFor
            }
            _ => plain_call(field, site, environments)?,
        };
        self.calls.push(call);
        Ok(())
    }

    /// Whether something must be remembered of objects.
    pub(crate) fn remembers(&self) -> bool {
        !self.became.is_empty() || self.held.is_some()
    }

    /// Finds out how the states are, and how they were.
    pub(crate) fn states(
        &self,
        subject: &Subject<'_>,
        edge: Option<&EdgeState>,
        now: Timestamp,
        moment: Moment,
    ) -> States {
        let mut states = States::default();
        for (index, program) in self.became.iter().enumerate() {
            let known = edge.and_then(|edge| edge.was.get(index).copied());
            let was = known.unwrap_or_else(|| {
                let before = subject.before();
                before.is_some_and(|before| States::default().is_so(program, before) == Some(true))
            });
            // What cannot be told stays as it was.
            let is = states.is_so(program, subject.object()).unwrap_or(was);
            states.became.push(is && !was && moment == Moment::Change);
            states.edge.was.push(is);
        }
        if subject.entry().after.is_some() {
            self.held(&mut states, subject, edge.and_then(|edge| edge.held), now);
        }
        states
    }

    fn held(&self, states: &mut States, subject: &Subject<'_>, known: Option<Held>, now: Timestamp) {
        let Some((program, span)) = &self.held else {
            return;
        };
        let object = subject.object();
        match states.is_so(program, object) {
            Some(true) => {}
            Some(false) => return,
            None => return states.edge.held = known,
        }
        let held = known.unwrap_or_else(|| Held::begun(subject.entry().at));
        states.edge.held = Some(held);
        let span = match span.eval(&on(span, object)) {
            Ok(Value::Duration(nanos)) => nanos,
            Ok(_) => return states.fail("the time of heldFor() is no duration"),
            Err(error) => return states.note(&error),
        };
        states.due = held.due(span).filter(|_| !held.fired);
        states.is_due = states.due.is_some_and(|due| due <= now);
    }

    /// The value of the condition.
    pub(crate) fn eval(
        &self,
        subject: &Subject<'_>,
        states: &States,
        now: Timestamp,
    ) -> Result<bool, EvalError> {
        let host = Answers {
            calls: &self.calls,
            subject,
            states: Some(states),
            main: None,
        };
        let change = change_if_used(&self.program, subject);
        let vars =
            activation(&self.program, subject, change.as_ref(), &host).with("now", Value::Timestamp(now));
        let value = self.program.eval(&vars)?;
        // What is neither true nor false is decided by who reads the data, not by us.
        value
            .as_bool()
            .ok_or_else(|| EvalError::from("the expression gives neither true nor false"))
    }

    /// The parts of the condition and their values, for people.
    pub(crate) fn parts(
        &self,
        subject: &Subject<'_>,
        states: &States,
        now: Timestamp,
    ) -> Vec<(String, String)> {
        let parts = Env::parts(&self.source).into_iter();
        parts
            .filter(|part| *part != self.source.trim())
            .filter_map(|part| {
                let program = self.env.compile(part).ok()?;
                Some((part.to_owned(), self.part(&program, subject, states, now)))
            })
            .collect()
    }

    fn part(&self, program: &Program, subject: &Subject<'_>, states: &States, now: Timestamp) -> String {
        let host = Answers {
            calls: &self.calls,
            subject,
            states: Some(states),
            main: Some(&self.program),
        };
        let change = change_if_used(program, subject);
        let vars = activation(program, subject, change.as_ref(), &host).with("now", Value::Timestamp(now));
        match program.eval(&vars) {
            Ok(value) => match value.to_json() {
                Ok(json) => json.to_string(),
                Err(_) => value.to_string(),
            },
            Err(error) => error.to_string(),
        }
    }
}

impl States {
    /// Whether a state is so. What is missing is not so; nothing if it cannot be told, which is noted.
    fn is_so(&mut self, program: &Program, object: &Json) -> Option<bool> {
        match program.eval(&on(program, object)) {
            Ok(value) => match value.as_bool() {
                Some(is) => Some(is),
                None => {
                    self.fail("a state is neither true nor false");
                    None
                }
            },
            Err(error) if error.kind() == EvalErrorKind::Missing => {
                self.n_missing += 1;
                Some(false)
            }
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    fn note(&mut self, error: &EvalError) {
        match error.kind() {
            EvalErrorKind::Missing => self.n_missing += 1,
            _ => self.fail(&error.to_string()),
        }
    }

    fn fail(&mut self, message: &str) {
        self.error.get_or_insert_with(|| message.to_owned());
    }
}

/// Calls that need nothing remembered; also those of templates.
pub(crate) fn plain_call(
    field: &str,
    site: &CallSite,
    environments: &Environments,
) -> Result<Call, Vec<Problem>> {
    if &*site.function == "was" {
        return Ok(Call::Was(Box::new(state(field, site, 0, environments)?)));
    }
    let Some(path) = constant_text(site, environments) else {
        return Ok(Call::Changed(None));
    };
    match path.parse() {
        Ok(pattern) => Ok(Call::Changed(Some(pattern))),
        Err(error) => {
            let error: super::BadPath = error;
            let mut problem = Problem::new(
                field,
                error.to_string(),
                "write paths as in spec.containers[*].image",
            );
            problem.location = site.args.first().map(|arg| arg.location);
            Err(vec![problem])
        }
    }
}

fn constant_text(site: &CallSite, environments: &Environments) -> Option<String> {
    let program = environments.state.compile(&site.args.first()?.text).ok()?;
    let value = program.eval(&Activation::new(&program)).ok()?;
    value.as_str().map(str::to_owned)
}

/// Compiles an argument that is about a state of the object and nothing else.
fn state(
    field: &str,
    site: &CallSite,
    index: usize,
    environments: &Environments,
) -> Result<Program, Vec<Problem>> {
    let Some(argument) = site.args.get(index) else {
        let message = format!("{}() lacks an argument", site.function);
        return Err(vec![Problem::new(field, message, "")]);
    };
    let compiled = environments.state.compile(&argument.text);
    compiled.map_err(|error| {
        let found = problems(field, &argument.text, &error).into_iter();
        let explain = |mut problem: Problem| {
            let function = &site.function;
            problem.help =
                format!("{function}() is about a state of the object: only `object` can be used in it, no variables of macros and no other such calls");
            problem.within(&argument.text, argument.location)
        };
        found.map(explain).collect()
    })
}

fn reline(mut problem: Problem, source: &str) -> Problem {
    if let Some(at) = problem.location {
        let line = source.split('\n').nth(at.line as usize - 1);
        problem.line = line.unwrap_or_default().trim_end().to_owned();
    }
    problem
}

pub(crate) fn is_bool(result: &Type) -> bool {
    matches!(result, Type::Bool | Type::Dyn)
}

/// An evaluation of something that only looks at `object`.
fn on<'a>(program: &'a Program, object: &'a Json) -> Activation<'a> {
    Activation::new(program).with_json("object", object)
}

pub(crate) fn change_if_used(program: &Program, subject: &Subject<'_>) -> Option<Json> {
    program
        .uses("change")
        .then(|| names::change(subject.entry(), subject.changed()))
}

/// An evaluation that looks at a whole change.
pub(crate) fn activation<'a>(
    program: &'a Program,
    subject: &'a Subject<'_>,
    change: Option<&'a Json>,
    host: &'a dyn Host,
) -> Activation<'a> {
    let old = subject.before().unwrap_or(&Json::Null);
    let vars = Activation::new(program)
        .with_json("object", subject.object())
        .with_json("oldObject", old)
        .with_host(host);
    match change {
        Some(change) => vars.with_json("change", change),
        None => vars,
    }
}

/// Answers the calls of an expression.
pub(crate) struct Answers<'a> {
    pub(crate) calls: &'a [Call],
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) states: Option<&'a States>,
    /// The program that the calls belong to, if a part of it is evaluated: calls are then found by what they say.
    pub(crate) main: Option<&'a Program>,
}

impl Answers<'_> {
    fn call_of(&self, site: &CallSite) -> Option<&Call> {
        let index = match self.main {
            None => site.index,
            Some(main) => main.call_sites().iter().position(|own| is_same(own, site))?,
        };
        self.calls.get(index)
    }

    fn changed(&self, pattern: &FieldPattern) -> bool {
        let mut changed = self.subject.changed().iter();
        changed.any(|changed| pattern.touches(&changed.parts, &changed.change))
    }
}

fn is_same(a: &CallSite, b: &CallSite) -> bool {
    let texts = |site: &CallSite| site.args.iter().map(|arg| arg.text.clone()).collect::<Vec<_>>();
    a.function == b.function && texts(a) == texts(b)
}

impl Host for Answers<'_> {
    fn call<'a>(&self, site: &CallSite, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
        let unknown = || EvalError::from(format!("{}() is not known here", site.function));
        match (self.call_of(site).ok_or_else(unknown)?, self.states) {
            (Call::Changed(Some(pattern)), _) => Ok(Value::Bool(self.changed(pattern))),
            (Call::Changed(None), _) => {
                let path = args.first().and_then(Value::as_str).unwrap_or_default();
                let pattern = path
                    .parse()
                    .map_err(|error: super::BadPath| EvalError::from(error.to_string()))?;
                Ok(Value::Bool(self.changed(&pattern)))
            }
            (Call::Was(program), _) => {
                let Some(before) = self.subject.before() else {
                    return Err(EvalError::missing("there is no state before".to_owned()));
                };
                let value = program.eval(&on(program, before))?;
                value.detached()
            }
            (Call::Became(index), Some(states)) => Ok(Value::Bool(states.became.get(*index) == Some(&true))),
            (Call::HeldFor, Some(states)) => Ok(Value::Bool(states.is_due)),
            (Call::Became(_) | Call::HeldFor, None) => Err(unknown()),
        }
    }
}
