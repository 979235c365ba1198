//! What a schema cannot say: values of the right form that can never work.

use std::{fmt, time::Duration};

use skopos_object::validation::{dns1123_label, dns1123_subdomain};

use crate::{Delivery, RecordSpec, RuleSpec, SinkSpec, Span};

/// Something that a specification says and that can never work, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Which field, such as `spec.watch.kind`.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Mistake {
    fn new(field: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.field, self.message, self.help)
    }
}

impl RuleSpec {
    /// What can never work, whatever serves the kind.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let watch = &self.watch;
        let mut found = Found::default();
        found.kind("spec.watch", &watch.group, watch.version.as_deref(), &watch.kind);
        found.namespaces("spec.watch", &watch.namespaces);
        for (n, action) in self.actions.iter().enumerate() {
            found.name(format!("spec.do[{n}].sink"), &action.sink, "a Sink");
        }
        if let Some(account) = &self.service_account_name {
            found.name("spec.serviceAccountName", account, "a ServiceAccount");
        }
        found.0
    }
}

impl SinkSpec {
    /// What can never work, whatever the destination says.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Found::default();
        found.delivery(&self.delivery);
        found.0
    }
}

impl RecordSpec {
    /// What can never work, whatever serves the kinds.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Found::default();
        for (n, scope) in self.watch.iter().enumerate() {
            let field = format!("spec.watch[{n}]");
            found.kind(&field, &scope.group, scope.version.as_deref(), &scope.kind);
            found.namespaces(&field, &scope.namespaces);
        }
        let nothing = "nothing would be kept";
        let help = "give more, or leave the field out to keep everything";
        if self.keep.age.is_some_and(is_zero) {
            found.add("spec.keep.for", nothing, help);
        }
        if self.keep.size.is_some_and(|size| size.0 == 0) {
            found.add("spec.keep.size", nothing, help);
        }
        found.0
    }
}

/// The mistakes so far.
#[derive(Default)]
struct Found(Vec<Mistake>);

impl Found {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>, help: &str) {
        self.0.push(Mistake::new(field, message, help));
    }

    fn kind(&mut self, field: &str, group: &str, version: Option<&str>, kind: &str) {
        let one_each = "there are no wildcards: write one for each kind that is meant";
        let help = |text: &str, otherwise: &'static str| match text.contains('*') {
            true => one_each,
            false => otherwise,
        };
        if !group.is_empty() && !dns1123_subdomain(group).is_empty() {
            let help = help(
                group,
                "write it as in apps or velero.io, without the version; the core group is empty",
            );
            self.add(
                format!("{field}.group"),
                format!("no group is called {group:?}"),
                help,
            );
        }
        // Names of kinds are like Deployment, all others of them like deployments.
        if !dns1123_label(&kind.to_lowercase()).is_empty() {
            let help = help(
                kind,
                "write it as in Deployment or deployments, without the group",
            );
            self.add(
                format!("{field}.kind"),
                format!("no kind is called {kind:?}"),
                help,
            );
        }
        if let Some(version) = version.filter(|version| !dns1123_label(version).is_empty()) {
            let message = format!("no version is called {version:?}");
            let help = "leave the field out: changes are captured in the version that the server prefers";
            self.add(format!("{field}.version"), message, help);
        }
    }

    fn namespaces(&mut self, field: &str, namespaces: &[String]) {
        for (n, namespace) in namespaces.iter().enumerate() {
            if dns1123_label(namespace).is_empty() {
                continue;
            }
            let message = format!("no namespace is called {namespace:?}");
            let help = match namespace.contains('*') {
                true => "there are no wildcards: leave the field out to watch all namespaces",
                false => "write lower case letters, digits and dashes",
            };
            self.add(format!("{field}.namespaces[{n}]"), message, help);
        }
    }

    fn name(&mut self, field: impl Into<String>, name: &str, what: &str) {
        if !dns1123_subdomain(name).is_empty() {
            let help = "write lower case letters, digits, dashes and dots";
            self.add(field, format!("{what} cannot be called {name:?}"), help);
        }
    }

    fn delivery(&mut self, delivery: &Delivery) {
        if delivery.timeout.is_some_and(is_zero) {
            let help = "give more, or leave the field out for 30s";
            self.add("spec.delivery.timeout", "every attempt would be too late", help);
        }
        let initial = delivery.backoff.initial.unwrap_or(Delivery::BACKOFF_INITIAL);
        let max = delivery.backoff.max.unwrap_or(Delivery::BACKOFF_MAX);
        if initial > max {
            let message = format!("the first wait ({initial}) is longer than the longest ({max})");
            let help = "make backoff.initial shorter, or backoff.max longer";
            self.add("spec.delivery.backoff", message, help);
        }
    }
}

fn is_zero(span: Span) -> bool {
    span.0 == Duration::ZERO
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use skopos_object::yaml;

    use super::*;

    fn spec<T: DeserializeOwned>(text: &str) -> T {
        let read = yaml::decode(text.as_bytes()).unwrap();
        serde_json::from_value(read.value).unwrap()
    }

    fn fields(mistakes: &[Mistake]) -> Vec<&str> {
        mistakes.iter().map(|one| one.field.as_str()).collect()
    }

    #[test]
    fn names_that_nothing_can_have_are_mistakes() {
        let check = |watch: &str, more: &str, expect: &[&str]| {
            let rule: RuleSpec = spec(&format!("{{watch: {watch}, do: [{{sink: out}}]{more}}}"));
            assert_eq!(fields(&rule.mistakes()), expect, "{watch} {more}");
        };
        check("{kind: Pod}", "", &[]);
        check(
            "{group: apps, version: v1, kind: deployments, namespaces: [a-1]}",
            "",
            &[],
        );
        check(
            "{group: '*', kind: '*'}",
            "",
            &["spec.watch.group", "spec.watch.kind"],
        );
        check("{group: apps/v1, kind: Deployment}", "", &["spec.watch.group"]);
        check("{kind: deployments.apps}", "", &["spec.watch.kind"]);
        check("{version: apps/v1, kind: Pod}", "", &["spec.watch.version"]);
        check(
            "{kind: Pod, namespaces: [a, Bad Name, '*']}",
            "",
            &["spec.watch.namespaces[1]", "spec.watch.namespaces[2]"],
        );
        check(
            "{kind: Pod}",
            ", serviceAccountName: Not A Name",
            &["spec.serviceAccountName"],
        );
    }

    #[test]
    fn a_wildcard_is_told_what_to_write_instead() {
        let rule: RuleSpec = spec("{watch: {kind: '*', namespaces: ['*']}, do: []}");
        let said: Vec<String> = rule.mistakes().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "spec.watch.kind: no kind is called \"*\": there are no wildcards: write one for each kind that is meant",
                "spec.watch.namespaces[0]: no namespace is called \"*\": there are no wildcards: leave the field out to watch all namespaces",
            ]
        );
    }

    #[test]
    fn deliveries_that_can_never_be_made_are_mistakes() {
        let check = |delivery: &str, expect: &[&str]| {
            let sink: SinkSpec = spec(&format!("{{stdout: {{}}, delivery: {delivery}}}"));
            assert_eq!(fields(&sink.mistakes()), expect, "{delivery}");
        };
        check("{}", &[]);
        check(
            "{backoff: {initial: 1s, max: 1s}, timeout: 1ms, maxAttempts: 1}",
            &[],
        );
        check("{timeout: 0s}", &["spec.delivery.timeout"]);
        check("{backoff: {initial: 2s, max: 1s}}", &["spec.delivery.backoff"]);
        check("{backoff: {initial: 1h}}", &["spec.delivery.backoff"]);
    }

    #[test]
    fn a_record_that_keeps_nothing_is_a_mistake() {
        let check = |keep: &str, expect: &[&str]| {
            let record: RecordSpec = spec(&format!("{{watch: [{{kind: Pod}}], keep: {keep}}}"));
            assert_eq!(fields(&record.mistakes()), expect, "{keep}");
        };
        check("{}", &[]);
        check("{for: 1s, changes: 1, size: 1Ki}", &[]);
        check("{for: 0s}", &["spec.keep.for"]);
        check("{size: 0Gi}", &["spec.keep.size"]);
    }
}
