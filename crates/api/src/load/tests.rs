//! What is loaded from text, and what is said of text that cannot be.

use super::*;

fn messages(text: &str) -> Vec<String> {
    let loaded = load(text, Path::new("rules.yaml"));
    let show = |result: Result<Loaded, LoadError>| match result {
        Ok(loaded) => format!("ok line {}", loaded.line),
        Err(error) => error.to_string(),
    };
    loaded.into_iter().map(show).collect()
}

#[test]
fn reads_several_documents_and_defaults_the_namespace() {
    let text = "# rules of the team\n---\napiVersion: skopos.dev/v1alpha1\nkind: Rule\nmetadata: {name: a}\n\
        spec: {watch: {kind: Pod}, do: [{sink: out}]}\n---\n\n---\napiVersion: skopos.dev/v1alpha1\nkind: Record\n\
        metadata: {name: b, namespace: ops}\nspec: {watch: [{kind: Pod}], keep: {for: 30d}}\n";
    let loaded = load(text, Path::new("rules.yaml"));
    let [Ok(first), Ok(second)] = &loaded[..] else {
        panic!("{loaded:?}");
    };
    let Resource::Rule(rule) = &first.resource else {
        panic!("{first:?}");
    };
    assert_eq!(rule.metadata.namespace.as_deref(), Some("default"));
    assert_eq!((first.line, second.line), (3, 10));
}

#[test]
fn one_bad_document_does_not_spoil_the_others() {
    let text = "kind: [\n---\napiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: s}\nspec: {stdout: {}}\n";
    let messages = messages(text);
    assert!(messages[0].starts_with("rules.yaml:1: "), "{messages:?}");
    assert_eq!(messages[1], "ok line 3");
}

#[test]
fn says_which_field_is_wrong_and_what_is_expected() {
    let text = |spec: &str| {
        format!(
            "apiVersion: skopos.dev/v1alpha1\nkind: Rule\nmetadata: {{name: a, namespace: team}}\nspec: {spec}\n"
        )
    };
    for (spec, expect) in [
        ("{do: [{sink: s}]}", "spec.watch: Required value"),
        (
            "{watch: {kind: Pod}, do: []}",
            "spec.do: Invalid value: 0: spec.do in body should have at least 1 items",
        ),
        (
            "{watch: {kind: Pod, events: [made]}, do: [{sink: s}]}",
            "spec.watch.events[0]: Unsupported value: \"made\": supported values: \"created\", \"updated\", \"deleted\"",
        ),
        (
            "{watch: {kind: Pod}, do: [{sink: s}], limits: {maxActionsPerMinute: 0}}",
            "spec.limits.maxActionsPerMinute: Invalid value: 0: spec.limits.maxActionsPerMinute in body should be greater than or equal to 1",
        ),
        (
            "{watch: {kind: Pod}, does: [], do: [{sink: s}]}",
            "spec.does: Forbidden: unknown field",
        ),
        (
            "{on: {kind: Pod}, do: [{sink: s}]}",
            "the field is called `watch`",
        ),
        (
            "{watch: {kind: Pod}, do: [{sink: s}], dryRun: 3}",
            "spec.dryRun: Invalid value: \"integer\": spec.dryRun in body must be of type boolean",
        ),
    ] {
        let found = messages(&text(spec));
        assert!(found[0].starts_with("rules.yaml:1: Rule team/a: "), "{found:?}");
        assert!(found[0].contains(expect), "{spec}: {found:?}");
    }
}

#[test]
fn names_kinds_that_are_none_of_ours() {
    let found = messages("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n");
    assert!(
        found[0].contains("kind \"Pod\" of apiVersion \"v1\" is none of ours"),
        "{found:?}"
    );
}

#[test]
fn sinks_have_exactly_one_destination() {
    let text = |spec: &str| {
        format!("apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {{name: s}}\nspec: {spec}\n")
    };
    for spec in ["{}", "{stdout: {}, file: {path: /tmp/x}}"] {
        let found = messages(&text(spec));
        assert!(
            found[0].contains("exactly one destination must be given"),
            "{found:?}"
        );
    }
}

#[test]
fn keys_given_twice_are_an_error() {
    let text = "apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: s}\nspec:\n  stdout: {}\n  stdout: {}\n";
    assert!(
        messages(text)[0].contains("given more than once: spec.stdout"),
        "{:?}",
        messages(text)
    );
}
