//! Which requests a fault is for.

use super::{Asked, Fault, Verb};

/// Which requests go wrong, when, and how.
///
/// Begin with the verb, narrow it down, end with [`then`](RuleBuilder::then):
///
/// ```
/// use std::time::Duration;
/// use skopos_testkit::{Fault, Rule};
///
/// Rule::watch().resource("widgets").nth(2).then(Fault::Cut { after_bytes: 100 });
/// Rule::list().first(3).then(Fault::Slow(Duration::from_secs(30)));
/// Rule::write().with_chance(0.2).then(Fault::LostAnswer);
/// Rule::any().then(Fault::Refused);
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    about: About,
    pub(super) when: When,
    pub(super) fault: Fault,
}

/// A rule that does not say yet what goes wrong.
#[derive(Clone, Debug)]
pub struct RuleBuilder {
    about: About,
    when: When,
}

#[derive(Clone, Debug)]
struct About {
    verbs: &'static [Verb],
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// Which of the requests that a rule is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Always,
    First(u64),
    Nth(u64),
    Chance(f64),
}

const WRITES: &[Verb] = &[
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
];

impl Rule {
    /// Is about all requests.
    pub fn any() -> RuleBuilder {
        Self::of(&[])
    }

    /// Is about reads of one object.
    pub fn get() -> RuleBuilder {
        Self::of(&[Verb::Get])
    }

    /// Is about lists.
    pub fn list() -> RuleBuilder {
        Self::of(&[Verb::List])
    }

    /// Is about watches.
    pub fn watch() -> RuleBuilder {
        Self::of(&[Verb::Watch])
    }

    /// Is about everything that changes something.
    pub fn write() -> RuleBuilder {
        Self::of(WRITES)
    }

    /// Is about these verbs.
    pub fn of(verbs: &'static [Verb]) -> RuleBuilder {
        RuleBuilder {
            about: About {
                verbs,
                resource: None,
                namespace: None,
                name: None,
            },
            when: When::Always,
        }
    }

    pub(super) fn is_about(&self, asked: &Asked) -> bool {
        let About {
            verbs,
            resource,
            namespace,
            name,
        } = &self.about;
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        (verbs.is_empty() || verbs.contains(&asked.verb))
            && is(resource, &asked.resource)
            && is(namespace, &asked.namespace)
            && is(name, &asked.name)
            && self.fault.applies_to(asked)
    }
}

impl RuleBuilder {
    /// Only requests for this resource, by its plural.
    #[must_use]
    pub fn resource(mut self, plural: &str) -> Self {
        self.about.resource = Some(plural.to_owned());
        self
    }

    /// Only requests in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.about.namespace = Some(namespace.to_owned());
        self
    }

    /// Only requests for the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.about.name = Some(name.to_owned());
        self
    }

    /// Only the n-th such request, from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Only the first n such requests.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        self.when = When::First(n);
        self
    }

    /// Each such request with this chance, between 0 and 1.
    #[must_use]
    pub fn with_chance(mut self, chance: f64) -> Self {
        self.when = When::Chance(chance);
        self
    }

    /// Says what goes wrong.
    #[must_use]
    pub fn then(self, fault: Fault) -> Rule {
        Rule {
            about: self.about,
            when: self.when,
            fault,
        }
    }
}

impl When {
    /// Whether the rule fires for the n-th request that it is about.
    pub(super) fn fires(self, n: u64, rng: &mut fastrand::Rng) -> bool {
        match self {
            Self::Always => true,
            Self::First(first) => n <= first,
            Self::Nth(nth) => n == nth,
            Self::Chance(chance) => rng.f64() < chance,
        }
    }
}
