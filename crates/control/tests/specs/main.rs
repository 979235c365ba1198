//! What the fields of our kinds do as people write them, and what is said of those that can never work.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod delivering;
mod stage;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../support/mod.rs"]
mod support;

use prometheus_client::encoding::text::encode;
use serde_json::json;
use skopos_control::Status;

use stage::{Stage, is, message, reason};
use support::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_can_never_fire_is_invalid_and_says_what_to_do() {
    let stage = Stage::start().await;
    stage.file("out").await;
    stage.put("Sink", "writer", "kubernetes: {}").await;
    let cases = [
        (
            "watch: {group: example.com, kind: Widget, version: v9}\ndo: [{sink: out}]",
            "captured in version v1, not v9: leave the field out",
        ),
        (
            "watch: {kind: Namespace}\ndo: [{sink: out}]",
            "put it into the namespace skopos-system, or give it in a file",
        ),
        (
            "watch: {group: '*', kind: '*'}\ndo: [{sink: out}]",
            "there are no wildcards: write one for each kind that is meant",
        ),
        (
            "watch: {group: example.com, kind: Widget}\ndo: [{sink: out}, {sink: writer}]",
            "spec.do[1].template: the sink \"writer\" writes objects, and no object is given",
        ),
        (
            "watch: {group: example.com, kind: Widget}\ndo: [{sink: writer, template: \
             {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: kube-system}}}]",
            "this is the namespace \"kube-system\", and a rule in the namespace \"default\" writes only there",
        ),
        (
            "watch: {group: example.com, kind: Widget}\ndo: [{sink: writer, template: \
             {apiVersion: v1, kind: Namespace, metadata: {name: a}}}]",
            "namespaces are in no namespace, and a rule in the namespace \"default\" writes only there",
        ),
        (
            "watch: {group: example.com, kind: Widget}\ndo: [{sink: writer, template: \
             {apiVersion: v1, kind: '${object.kind}', metadata: {name: a}}}]",
            "apiVersion and kind are not written out",
        ),
        (
            "watch: {kind: Pod, namespaces: [Bad Name]}\ndo: [{sink: out}]",
            "no namespace is called \"Bad Name\"",
        ),
        (
            "watch: {kind: Pod}\nserviceAccountName: Not A Name\ndo: [{sink: out}]",
            "a ServiceAccount cannot be called \"Not A Name\"",
        ),
    ];
    for (n, (spec, expected)) in cases.into_iter().enumerate() {
        let name = format!("never-{n}");
        stage.put("Rule", &name, spec).await;
        let status = stage
            .status("Rule", &name, |status| is(status, "Ready", "False"))
            .await;
        assert_eq!(reason(&status, "Ready"), "Invalid", "{spec}: {status:#}");
        assert!(message(&status, "Ready").contains(expected), "{spec}: {status:#}");
        assert_eq!(reason(&status, "Delivering"), "NotInForce", "{spec}: {status:#}");
    }
    stage.put("Record", "cluster", "watch: [{kind: Namespace}]").await;
    let status = stage
        .status("Record", "cluster", |status| is(status, "Ready", "False"))
        .await;
    assert!(
        message(&status, "Ready").contains("namespaces are in no namespace"),
        "{status:#}"
    );
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_whose_sink_comes_to_write_objects_stands_still_without_one() {
    let stage = Stage::start().await;
    stage.file("out").await;
    stage.rule("all", "do: [{sink: out}]").await;
    stage.put("Sink", "out", "kubernetes: {}").await;
    let status = stage
        .status("Rule", "all", |status| is(status, "Ready", "False"))
        .await;
    assert!(message(&status, "Ready").contains("writes objects"), "{status:#}");
    assert_eq!(reason(&status, "Delivering"), "NotInForce", "{status:#}");
    stage.widget("a", 1).await;
    stage.file("out").await;
    let delivered = stage.delivered(1).await;
    assert_eq!(delivered[0]["subject"], "default/a", "what came meanwhile waited");
    let status = stage
        .status("Rule", "all", |status| status["delivered"] == 1)
        .await;
    assert_eq!(status["deadLettered"], 0);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_never_was_right_is_not_delivering() {
    let stage = Stage::start().await;
    stage
        .put("Sink", "never", "{stdout: {}, delivery: {timeout: 0s}}")
        .await;
    let status = stage
        .status("Sink", "never", |status| is(status, "Ready", "False"))
        .await;
    assert_eq!(reason(&status, "Ready"), "Invalid");
    assert!(
        message(&status, "Ready").contains("spec.delivery.timeout: every attempt would be too late"),
        "{status:#}"
    );
    assert!(is(&status, "Delivering", "False"), "{status:#}");
    assert_eq!(reason(&status, "Delivering"), "NotInForce");

    stage.put("Sink", "once", "{stdout: {}}").await;
    stage
        .status("Sink", "once", |status| is(status, "Ready", "True"))
        .await;
    stage
        .put("Sink", "once", "{stdout: {}, delivery: {backoff: {initial: 1h}}}")
        .await;
    let status = stage
        .status("Sink", "once", |status| is(status, "Ready", "False"))
        .await;
    assert!(
        message(&status, "Ready").contains("(generation 1 stays in force)"),
        "{status:#}"
    );
    assert!(is(&status, "Delivering", "True"), "{status:#}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_in_files_are_shown_where_people_and_alerts_look() {
    let stage = Stage::start_with(
        "{apiVersion: skopos.dev/v1alpha1, kind: Sink, metadata: {name: bad}, spec: {stdout: {}, delivery: {timeout: 0s}}}\n\
         ---\n\
         {apiVersion: skopos.dev/v1alpha1, kind: Record, metadata: {name: bad}, spec: {watch: [{kind: Pod}], keep: {for: 0s}}}\n\
         ---\n\
         {apiVersion: skopos.dev/v1alpha1, kind: Sinkk, metadata: {name: bad}}\n",
    )
    .await;
    let status = until("known", async || {
        let status = stage.admin.ask(&Status {}).await.unwrap();
        match status.sinks.is_empty() || status.records.is_empty() {
            true => Err(json!(status)),
            false => Ok(status),
        }
    })
    .await;
    let shown = |conditions: &[skopos_control::ConditionView]| {
        let ready = conditions.iter().find(|one| one.kind == "Ready").unwrap();
        format!("{} {}", ready.reason, ready.message)
    };
    assert!(
        shown(&status.sinks[0].conditions).starts_with("Invalid spec.delivery.timeout"),
        "{status:#?}"
    );
    assert!(
        shown(&status.records[0].conditions).starts_with("Invalid spec.keep.for"),
        "{status:#?}"
    );
    assert!(status.unreadable[0].contains("Sinkk"), "{status:#?}");
    let mut page = String::new();
    encode(&mut page, &stage.metrics).unwrap();
    for line in [
        r#"skopos_condition{sink="default/bad",condition="Ready",reason="Invalid"} 0"#,
        r#"skopos_condition{record="default/bad",condition="Ready",reason="Invalid"} 0"#,
    ] {
        assert!(page.contains(line), "{line} missing in {page}");
    }
    let unreadable = page.lines().find(|line| line.starts_with("skopos_unreadable"));
    assert!(unreadable.is_some_and(|line| line.ends_with(" 1")), "{page}");
    stage.stop().await;
}

/// Widgets here have a schema that says what a size is.
#[tokio::test(flavor = "multi_thread")]
async fn an_expression_that_does_not_fit_the_schema_is_invalid_and_says_where() {
    let stage = Stage::start().await;
    let mut definition = skopos_testkit::definition("typed.example.com", "v1", "Gadget", "gadgets");
    definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}});
    stage.server.put(&definition).await;
    stage.file("out").await;
    let spec = "watch: {group: typed.example.com, kind: Gadget}\nwhen: object.spec.size == 'large'\ndo: [{sink: out}]";
    stage.put("Rule", "typed", spec).await;
    let status = stage
        .status("Rule", "typed", |status| reason(status, "Ready") == "Invalid")
        .await;
    let said = message(&status, "Ready");
    assert!(
        said.contains("when") && said.contains("int") && said.contains("string"),
        "{said}"
    );
    let spec = spec.replace("'large'", "7");
    stage.put("Rule", "typed", &spec).await;
    stage
        .status("Rule", "typed", |status| is(status, "Ready", "True"))
        .await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_only_the_object_tells_is_refused_when_it_is_another_one() {
    let stage = Stage::start().await;
    stage.put("Sink", "writer", "kubernetes: {}").await;
    let rule = "watch: {group: example.com, kind: Widget}\ndo: [{sink: writer, template: {apiVersion: v1, kind: ConfigMap, \
        metadata: {name: copy, namespace: '${object.spec.size == 1 ? \"default\" : \"kube-system\"}'}}}]";
    stage.put("Rule", "copies", rule).await;
    stage
        .status("Rule", "copies", |status| is(status, "CaptureComplete", "True"))
        .await;
    stage.widget("own", 1).await;
    stage.widget("foreign", 2).await;
    let status = stage
        .status("Rule", "copies", |status| {
            status["delivered"] == 1 && status["deadLettered"] == 1
        })
        .await;
    assert!(is(&status, "Ready", "True"), "{status:#}");
    stage.stop().await;
}
