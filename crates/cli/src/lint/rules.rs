//! Rules, sinks, records, and the tests of rules.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use skopos_api::{Loaded, Resource, Rule, RuleTest, SecretKey};
use skopos_control::{GivenRule, is_definition_of};
use skopos_journal::FieldPath;
use skopos_react::rule::{Origin, run_test};
use skopos_sink::{Allowed, BadSink, Context, SecretError, Secrets, connect};

use super::{Report, place, title};
use crate::rule_files::{RuleFiles, name};

/// Rules that compile, by namespace and name.
pub(super) type Compiled = BTreeMap<(String, String), GivenRule>;

/// Compiles the rules, and looks for the sinks they name.
pub(super) fn rules(files: &RuleFiles, report: &mut Report) -> Compiled {
    let mut compiled = Compiled::new();
    for loaded in &files.ours {
        let Resource::Rule(rule) = &loaded.resource else {
            continue;
        };
        let (_, namespace, own) = name(&loaded.resource);
        match compile(files, rule, &namespace, &own) {
            Ok(rule) => {
                compiled.insert((namespace.clone(), own), rule);
            }
            Err(problems) => {
                for problem in problems {
                    report.problem(&place(loaded), &title(&loaded.resource), problem);
                }
            }
        }
        for action in rule
            .spec
            .actions
            .iter()
            .filter(|action| !has_sink(files, &namespace, &action.sink))
        {
            let message = format!(
                "the sink {:?} is not in these files; is it in the cluster?",
                action.sink
            );
            report.warning(&place(loaded), &title(&loaded.resource), message);
        }
    }
    compiled
}

fn compile(files: &RuleFiles, rule: &Rule, namespace: &str, own: &str) -> Result<GivenRule, Vec<String>> {
    let watch = &rule.spec.watch;
    let definitions = files.definitions.iter().map(|one| &one.object);
    let definition = definitions
        .into_iter()
        .find(|one| is_definition_of(one, &watch.group, &watch.kind));
    GivenRule::compile(Origin::file(namespace, own), rule, definition)
}

fn has_sink(files: &RuleFiles, namespace: &str, sink: &str) -> bool {
    let sink = ("Sink", namespace.to_owned(), sink.to_owned());
    files.ours.iter().any(|loaded| name(&loaded.resource) == sink)
}

/// Checks addresses and options of sinks. Values that are kept elsewhere are not looked at.
pub(super) async fn sinks(files: &RuleFiles, report: &mut Report) {
    for loaded in &files.ours {
        let Resource::Sink(sink) = &loaded.resource else {
            continue;
        };
        for mistake in sink.spec.mistakes() {
            report.problem(&place(loaded), &title(&loaded.resource), mistake.to_string());
        }
        let (_, namespace, _) = name(&loaded.resource);
        let context = Context {
            namespace: &namespace,
            secrets: &Nothing,
            allowed: Allowed {
                exec: true,
                file: true,
            },
            search_path: None,
            client: None,
        };
        // Where it would write to a cluster there is nothing to check without one.
        if sink.spec.kubernetes.is_some() {
            continue;
        }
        match connect(&sink.spec, context).await {
            Ok(_) | Err(BadSink::Secret { .. }) => {}
            Err(error) => report.problem(&place(loaded), &title(&loaded.resource), error.to_string()),
        }
    }
}

/// Knows no values.
struct Nothing;

impl Secrets for Nothing {
    fn secret<'a>(&'a self, _: &'a SecretKey) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        Box::pin(std::future::ready(Err(SecretError::Missing)))
    }
}

/// Checks what records watch, keep and leave out.
pub(super) fn records(files: &RuleFiles, report: &mut Report) {
    for loaded in &files.ours {
        let Resource::Record(record) = &loaded.resource else {
            continue;
        };
        for mistake in record.spec.mistakes() {
            report.problem(&place(loaded), &title(&loaded.resource), mistake.to_string());
        }
        for (n, path) in record.spec.redact.iter().enumerate() {
            if let Err(error) = FieldPath::parse(path) {
                let message = format!("spec.redact[{n}]: {error}");
                report.problem(&place(loaded), &title(&loaded.resource), message);
            }
        }
    }
}

/// Runs the tests.
pub(super) fn tests(files: &RuleFiles, compiled: &Compiled, report: &mut Report) {
    for loaded in &files.ours {
        if let Resource::RuleTest(test) = &loaded.resource {
            match rule_of(files, loaded, test, compiled) {
                Ok(Some(rule)) => cases(loaded, test, &rule, report),
                // The rule does not compile, which was said.
                Ok(None) => report.tests_failed += test.spec.cases.len(),
                Err(problems) => {
                    report.tests_failed += test.spec.cases.len();
                    for problem in problems {
                        report.problem(&place(loaded), &title(&loaded.resource), problem);
                    }
                }
            }
        }
    }
}

/// The rule that a test is about; nothing if it is there but does not compile.
fn rule_of(
    files: &RuleFiles,
    loaded: &Loaded,
    test: &RuleTest,
    compiled: &Compiled,
) -> Result<Option<GivenRule>, Vec<String>> {
    let (_, namespace, own) = name(&loaded.resource);
    match (&test.spec.rule, &test.spec.rule_spec) {
        (Some(rule), None) => {
            let wanted = ("Rule", namespace.clone(), rule.clone());
            match files.ours.iter().any(|one| name(&one.resource) == wanted) {
                true => Ok(compiled.get(&(namespace, rule.clone())).cloned()),
                false => Err(vec![format!(
                    "spec.rule: there is no Rule {namespace}/{rule} in these files"
                )]),
            }
        }
        (None, Some(spec)) => {
            let rule = Rule::new(&own, spec.clone());
            compile(files, &rule, &namespace, &own).map(Some)
        }
        _ => Err(vec![
            "spec: exactly one of rule and ruleSpec must be given".to_owned(),
        ]),
    }
}

fn cases(loaded: &Loaded, test: &RuleTest, rule: &GivenRule, report: &mut Report) {
    for result in run_test(&rule.compiled, &test.spec) {
        match result.failures.is_empty() {
            true => report.tests_passed += 1,
            false => {
                report.tests_failed += 1;
                for failure in &result.failures {
                    let message = format!("case {:?}: {failure}", result.name);
                    report.problem(&place(loaded), &title(&loaded.resource), message);
                }
            }
        }
    }
}
