//! What would a rule have done, and why?

use std::{collections::BTreeMap, sync::Arc};

use skopos_api::{Resource, load};
use skopos_react::rule::Origin;

use super::{Stage, at};
use crate::{Backtest, Explain, GivenRule, Reason, RuleProvider};

const GROWN: &str = "
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: grown, namespace: ops}
spec:
  watch: {group: example.com, kind: Widget}
  when: became(object.spec.size > 1)
  limits: {maxActionsPerMinute: 1}
  do:
  - {sink: chat, template: '${object.metadata.name} is ${string(object.spec.size)}'}
  - {sink: log, payload: ref}
";

const HELD: &str = "
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: held, namespace: ops}
spec:
  watch: {group: example.com, kind: widgets}
  when: heldFor(object.spec.size > 1, duration('1m'))
  do: [{sink: chat, payload: ref}]
";

#[derive(Debug)]
struct InForce(BTreeMap<String, GivenRule>);

impl RuleProvider for InForce {
    fn rules(&self) -> BTreeMap<String, GivenRule> {
        self.0.clone()
    }
}

fn in_force(text: &str) -> Arc<InForce> {
    let loaded = load(text, "rule.yaml".as_ref()).remove(0).unwrap();
    let Resource::Rule(rule) = loaded.resource else {
        panic!("no rule");
    };
    let given = GivenRule::compile(
        Origin::file("ops", rule.metadata.name.clone().unwrap()),
        &rule,
        None,
    )
    .unwrap();
    Arc::new(InForce(BTreeMap::from([(given.compiled.name(), given)])))
}

fn of(rule: &str) -> Backtest {
    Backtest {
        rule: rule.into(),
        ..Backtest::default()
    }
}

#[tokio::test]
async fn a_backtest_tells_what_would_have_been_sent() {
    let mut stage = Stage::start().await;
    stage.put(10, "home/a", 1).await;
    stage.put(20, "home/a", 2).await;
    stage.put(21, "home/a", 3).await;
    stage.put(25, "home/b", 5).await;
    let admin = stage.admin();
    let report = admin.ask(&of(GROWN)).await.unwrap();
    assert_eq!((report.looked, report.matched, report.objects), (4, 2, 2));
    assert_eq!((report.max_per_minute, report.busiest), (2, Some(at(0))));
    assert_eq!(report.limit_exceeded, Some(1));
    assert_eq!(
        report.deliveries,
        BTreeMap::from([("chat".into(), 2), ("log".into(), 2)])
    );
    assert_eq!(report.problems, Vec::<String>::new());
    let first = &report.payloads[0];
    assert_eq!(
        (first.seq, first.sink.as_str(), first.data.as_str()),
        (2, "chat", Some("a is 2"))
    );
    let late = Backtest {
        since: Some(at(22)),
        payloads: Some(1),
        ..of(GROWN)
    };
    let report = admin.ask(&late).await.unwrap();
    assert_eq!((report.looked, report.matched, report.payloads.len()), (1, 1, 1));
    stage.stop().await;
}

#[tokio::test]
async fn a_rule_is_tried_by_any_name_of_its_kind() {
    let mut stage = Stage::start().await;
    stage.put(10, "home/a", 2).await;
    let admin = stage.admin();
    for kind in ["Widget", "widgets", "widget", "wd", "WIDGETS", "WD"] {
        let rule = GROWN.replace("kind: Widget", &format!("kind: {kind}"));
        let report = admin.ask(&of(&rule)).await.unwrap();
        assert_eq!((report.looked, report.matched), (1, 1), "{kind}");
    }
    stage.stop().await;
}

#[tokio::test]
async fn a_backtest_lets_time_pass() {
    let mut stage = Stage::start().await;
    stage.put(10, "home/a", 2).await;
    stage.put(200, "home/a", 1).await;
    stage.put(300, "home/b", 2).await;
    stage.put(310, "home/b", 1).await;
    stage.put(400, "home/c", 2).await;
    let admin = stage.admin();
    let report = admin
        .ask(&Backtest {
            until: Some(at(500)),
            ..of(HELD)
        })
        .await
        .unwrap();
    let held: Vec<_> = report
        .payloads
        .iter()
        .map(|one| (one.object.as_str(), one.time.as_second(), one.held))
        .collect();
    assert_eq!(held, [("home/a", 70, true), ("home/c", 460, true)]);
    stage.stop().await;
}

#[tokio::test]
async fn a_rule_that_does_not_compile_is_refused() {
    let mut stage = Stage::start().await;
    let admin = stage.admin();
    for (rule, part) in [
        (
            GROWN.replace("object.spec.size > 1", "objekt.spec.size >"),
            "spec.when",
        ),
        ("kind: [".into(), "rule:"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}".into(),
            "no Rule",
        ),
        (format!("{GROWN}---{HELD}"), "2 Rules"),
    ] {
        let refusal = admin.ask(&of(&rule)).await.unwrap_err();
        assert!(
            refusal.reason == Reason::BadQuestion && refusal.message.contains(part),
            "{refusal:?}"
        );
    }
    stage.stop().await;
}

#[tokio::test]
async fn an_explanation_says_what_decided() {
    let mut stage = Stage::start().await;
    stage.put(10, "home/a", 2).await;
    stage.put(20, "home/a", 3).await;
    let admin = stage.admin().with_rules(in_force(GROWN));
    let explain = |change: &str| Explain {
        change: Some(change.into()),
        ..Explain::default()
    };
    let first = admin.ask(&explain("1")).await.unwrap();
    assert_eq!(first.explanations.len(), 1);
    assert!(first.explanations[0].matched, "{first:?}");
    // As a receiver of the delivery knows it.
    let id = &first.change.as_ref().unwrap().id;
    for delivery in [format!("{id}/ops.grown"), format!("{id}.held/ops.grown#2")] {
        let again = admin.ask(&explain(&delivery)).await.unwrap();
        assert_eq!(again.explanations, first.explanations, "{delivery}");
    }
    let gone = admin.ask(&explain(&format!("{id}/ops.gone"))).await.unwrap_err();
    assert!(gone.message.contains("there is no rule \"ops/gone\""), "{gone:?}");
    let again = admin.ask(&explain("u1.reconcile-2/ops.grown")).await.unwrap_err();
    assert!(
        again.message.contains("is no change") && again.hint.contains("ops/grown"),
        "{again:?}"
    );
    let second = admin.ask(&explain("2")).await.unwrap();
    let decided = second.explanations[0]
        .steps
        .iter()
        .find(|step| !step.passed)
        .unwrap();
    assert_eq!(decided.name, "when");
    for name in ["ops/grown", "grown"] {
        let recent = Explain {
            rule: Some(name.into()),
            ..Explain::default()
        };
        let recent = admin.ask(&recent).await.unwrap();
        let matched: Vec<_> = recent
            .explanations
            .iter()
            .map(|one| (one.seq, one.matched))
            .collect();
        assert_eq!(matched, [(1, true), (2, false)]);
    }
    stage.stop().await;
}

#[tokio::test]
async fn without_rules_an_explanation_says_what_to_do() {
    let mut stage = Stage::start().await;
    stage.put(10, "home/a", 2).await;
    let admin = stage.admin();
    let explain = Explain {
        change: Some("1".into()),
        ..Explain::default()
    };
    assert_eq!(admin.ask(&explain).await.unwrap_err().reason, Reason::Unavailable);
    let tried = Explain {
        try_rule: Some(GROWN.into()),
        ..explain
    };
    assert!(admin.ask(&tried).await.unwrap().explanations[0].matched);
    let admin = admin.with_rules(in_force(GROWN));
    let nobody = Explain {
        rule: Some("nobody".into()),
        ..Explain::default()
    };
    let refusal = admin.ask(&nobody).await.unwrap_err();
    assert!(refusal.hint.contains("ops/grown"), "{refusal:?}");
    assert_eq!(
        admin.ask(&Explain::default()).await.unwrap_err().reason,
        Reason::BadQuestion
    );
    stage.stop().await;
}
