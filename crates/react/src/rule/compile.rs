//! From a specification to a rule that can be evaluated.

use skopos_api::{Existing, Payload, RuleSpec};
use skopos_journal::Wanted;
use skopos_schema::Structural;

use super::{
    condition::Condition,
    names::Environments,
    problem::Problem,
    scope::{FieldFilter, KindNames, Namespaces, Scope},
    template::Template,
};

/// The namespace whose rules may see all others.
pub const SYSTEM_NAMESPACE: &str = "skopos-system";

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it was read from a file: then it may see all namespaces.
    pub from_file: bool,
}

/// A rule whose every expression is compiled and checked. Immutable, to be shared between threads.
#[derive(Debug)]
pub struct CompiledRule {
    pub(crate) origin: Origin,
    pub(crate) scope: Scope,
    pub(crate) fields: FieldFilter,
    pub(crate) when: Option<Condition>,
    pub(crate) actions: Vec<Action>,
    fingerprint: u64,
    /// Tells of what was there before it anew with each of its generations.
    pub(crate) reconciles: bool,
    pub(crate) generation: i64,
}

/// What is sent where.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) sink: String,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Payload(Payload),
    Template(Box<Template>),
}

impl Origin {
    /// A rule that lives in a cluster.
    pub fn cluster(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            from_file: false,
        }
    }

    /// A rule that was read from a file.
    pub fn file(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            from_file: true,
            ..Self::cluster(namespace, name)
        }
    }

    fn namespaces(&self, asked: &[String]) -> Result<Namespaces, Problem> {
        let unrestricted = self.from_file || self.namespace == SYSTEM_NAMESPACE;
        let own = || vec![self.namespace.clone()];
        match (unrestricted, asked) {
            (true, []) => Ok(Namespaces::All),
            (true, asked) => Ok(Namespaces::These(asked.to_vec())),
            (false, []) => Ok(Namespaces::These(own())),
            (false, asked) if asked == own() => Ok(Namespaces::These(own())),
            (false, _) => Err(Problem::new(
                "spec.watch.namespaces",
                format!("a rule in the namespace {:?} sees only that one", self.namespace),
                format!("leave the field out, or put the rule into the namespace {SYSTEM_NAMESPACE}"),
            )),
        }
    }
}

impl CompiledRule {
    /// The namespaces that the rule sees; nothing if it sees all.
    pub fn namespaces(&self) -> Option<&[String]> {
        match &self.scope.namespaces {
            Namespaces::All => None,
            Namespaces::These(names) => Some(names),
        }
    }

    /// Compiles a specification. With the schema of the kind, names and types in expressions are checked against it;
    /// without, anything goes until it is evaluated.
    ///
    /// # Errors
    /// Everything that is wrong, each with its field.
    pub fn compile(
        origin: Origin,
        spec: &RuleSpec,
        schema: Option<&Structural>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems: Vec<Problem> = spec.mistakes().into_iter().map(Problem::from).collect();
        let environments = Environments::new(&spec.watch.kind, schema);
        let namespaces = keep(
            origin.namespaces(&spec.watch.namespaces).map_err(|one| vec![one]),
            &mut problems,
        );
        let scope = keep(
            Scope::compile(&spec.watch, namespaces.unwrap_or(Namespaces::All)),
            &mut problems,
        );
        let fields = keep(FieldFilter::compile(&spec.fields), &mut problems);
        let when = spec
            .when
            .as_deref()
            .map(|when| Condition::compile("spec.when", when, &environments));
        let when = keep(when.transpose(), &mut problems);
        let mut actions = Vec::new();
        for (index, action) in spec.actions.iter().enumerate() {
            let content = match &action.template {
                None => Some(Content::Payload(action.payload)),
                Some(template) => {
                    let field = format!("spec.do[{index}].template");
                    let template = Template::compile(&field, template, &environments);
                    keep(template, &mut problems).map(|template| Content::Template(Box::new(template)))
                }
            };
            let sink = action.sink.clone();
            actions.extend(content.map(|content| Action { sink, content }));
        }
        let (Some(scope), Some(fields), Some(when), true) = (scope, fields, when, problems.is_empty()) else {
            return Err(problems);
        };
        Ok(Self {
            origin,
            scope,
            fields,
            fingerprint: fingerprint(spec.when.as_deref().unwrap_or_default()),
            when,
            actions,
            reconciles: spec.existing == Existing::Reconcile,
            generation: 0,
        })
    }

    /// Tells the names of the kind, so that a rule that uses a short one finds it.
    #[must_use]
    pub fn with_names(mut self, names: KindNames) -> Self {
        if names.is_meant_by(&self.scope.group, &self.scope.kind) {
            self.scope.names = Some(names);
        }
        self
    }

    /// Tells which generation it is, which the ids of what it reconciles have in them.
    #[must_use]
    pub fn with_generation(mut self, generation: i64) -> Self {
        self.generation = generation;
        self
    }

    /// The rule, as `namespace/name`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.origin.namespace, self.origin.name)
    }

    /// The names of the sinks, by action.
    pub fn sinks(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().map(|action| action.sink.as_str())
    }

    /// Whether an [`EdgeState`](super::EdgeState) must be kept for its objects.
    pub fn remembers(&self) -> bool {
        self.when.as_ref().is_some_and(Condition::remembers)
    }

    /// What edge states mean: those made with another value say nothing.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Which changes it can match at all.
    pub fn wanted(&self) -> Wanted {
        let kind = self
            .scope
            .names
            .as_ref()
            .map_or(&self.scope.kind, |names| &names.kind);
        let namespace = match &self.scope.namespaces {
            Namespaces::These(names) if names.len() == 1 => names.first().cloned(),
            _ => None,
        };
        Wanted {
            kind: Some((self.scope.group.clone(), kind.clone())),
            namespace,
            ..Wanted::default()
        }
    }
}

/// Sets problems aside.
fn keep<T>(result: Result<T, Vec<Problem>>, problems: &mut Vec<Problem>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(mut found) => {
            problems.append(&mut found);
            None
        }
    }
}

/// A number that stays the same for the same text, on every machine and in every version (FNV-1a).
fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
