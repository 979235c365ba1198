//! Tests of rules as data.

use std::path::Path;

use skopos_api::{Resource, RuleTestSpec, load};
use skopos_react::rule::{CompiledRule, Origin, run_test};

fn run(yaml: &str) -> Vec<Vec<String>> {
    let loaded = load(yaml, Path::new("test.yaml")).remove(0).unwrap();
    let Resource::RuleTest(test) = loaded.resource else {
        panic!("no test: {loaded:?}");
    };
    let test: RuleTestSpec = test.spec;
    let spec = test.rule_spec.as_ref().unwrap();
    let rule = CompiledRule::compile(Origin::file("ops", "test"), spec, None).unwrap();
    run_test(&rule, &test)
        .into_iter()
        .map(|result| result.failures)
        .collect()
}

const HEAD: &str = "\
apiVersion: skopos.dev/v1alpha1
kind: RuleTest
metadata: {name: t}
spec:
  ruleSpec:
    watch: {group: velero.io, kind: Backup}
    when: became(object.status.phase == 'Failed') || heldFor(object.status.phase == 'Pending', duration('10m'))
    do:
      - sink: out
        template: {text: '${object.metadata.name} is ${object.status.phase}', n: 1}
  cases:
";

#[test]
fn cases_that_are_as_expected_pass() {
    let cases = "
    - name: fails
      before: {status: {phase: Running}}
      after: {metadata: {name: nightly}, status: {phase: Failed}}
      expect: {matches: true, payload: {text: nightly is Failed}}
    - name: goes on failing
      afterPrevious: true
      after: {metadata: {name: nightly, labels: {a: b}}, status: {phase: Failed}}
      expect: {matches: false}
    - name: is deleted
      before: {status: {phase: Running}}
      expect: {matches: false}
    - name: pends for long
      now: 2026-02-01T00:00:00Z
      after: {status: {phase: Pending}}
      wait: 11m
      expect: {matches: true, payload: {text: test is Pending}}
    - name: pends for a while
      after: {status: {phase: Pending}}
      wait: 9m
      expect: {matches: false}
";
    assert_eq!(run(&format!("{HEAD}{cases}")), vec![Vec::<String>::new(); 5]);
}

#[test]
fn a_case_may_say_who_wrote() {
    let test = "\
apiVersion: skopos.dev/v1alpha1
kind: RuleTest
metadata: {name: t}
spec:
  ruleSpec:
    watch: {group: velero.io, kind: Backup}
    when: change.by.exists(name, name.startsWith('kubectl'))
    do: [{sink: out}]
  cases:
    - {name: by hand, by: [kubectl-edit], after: {}, expect: {matches: true}}
    - {name: by a controller, by: [velero], after: {}, expect: {matches: false}}
    - {name: nobody knows, after: {}, expect: {matches: false}}
";
    assert_eq!(run(test), vec![Vec::<String>::new(); 3]);
}

#[test]
fn cases_that_differ_say_where() {
    let cases = "
    - name: does not fail
      before: {status: {phase: Running}}
      after: {status: {phase: Done}}
      expect: {matches: true}
    - name: other text
      before: {status: {phase: Running}}
      after: {status: {phase: Failed}}
      expect: {matches: true, payload: {text: nothing, more: 2}}
    - name: no time
      now: noon
      after: {status: {phase: Failed}}
      expect: {matches: true}
    - name: nothing happens
      expect: {matches: false}
";
    let found = run(&format!("{HEAD}{cases}"));
    assert!(
        found[0][0].starts_with("spec.cases[0].expect.matches: expected true, found false: when: "),
        "{found:?}"
    );
    assert_eq!(
        found[1],
        [
            "spec.cases[1].expect.payload.more: expected 2, found nothing",
            "spec.cases[1].expect.payload.text: expected \"nothing\", found \"test is Failed\"",
        ]
    );
    assert!(found[2][0].contains("\"noon\" is no time"), "{found:?}");
    assert!(found[3][0].contains("neither before nor after"), "{found:?}");
}
