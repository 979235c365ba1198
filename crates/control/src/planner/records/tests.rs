//! What records leave out is left out of what rules ask for, whatever becomes of the record.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_core::future::BoxFuture;
use skopos_journal::{Journal, JournalConfig, Retention};
use skopos_object::{Collection, Collections, GroupVersionKind, OpenError};
use skopos_testkit::{ModelSource, object};

use super::*;
use crate::{
    Kinds,
    kinds::given,
    planner::{Origins, Surroundings},
};

/// Serves widgets, but not when it is asked for the first times.
#[derive(Debug)]
struct Later(AtomicUsize);

impl Collections for Later {
    fn open<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        let is_early = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        let found = match is_early {
            Ok(_) => Err(OpenError::Missing(name.to_string())),
            Err(_) => Ok(Collection {
                kind: GroupVersionKind::new("example.com", "v1", "Widget"),
                plural: "widgets".into(),
                singular: "widget".into(),
                short_names: vec!["wd".into()],
                namespaced: true,
                source: Arc::new(ModelSource::new()),
            }),
        };
        Box::pin(std::future::ready(found))
    }
}

/// What is left out of widgets, for which a rule asks by their plural.
async fn left_out(record: &str, n_not_served: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let around = Surroundings {
        client: None,
        collections: Arc::new(Later(n_not_served.into())),
        journal: Journal::open(JournalConfig::new(dir.path())).unwrap(),
        allowed: Default::default(),
        search_path: None,
        env: |_| None,
        retention: Retention::default(),
        look_every: Duration::from_secs(1),
        review_every: Duration::from_secs(1),
        origins: Origins {
            cluster: true,
            files: false,
        },
        namespaces: Vec::new(),
    };
    let of = |kind: &str, spec: &str| {
        let metadata = "{name: one, namespace: skopos-system, uid: u, generation: 1}";
        object(&format!(
            "{{apiVersion: skopos.dev/v1alpha1, kind: {kind}, metadata: {metadata}, spec: {spec}}}"
        ))
    };
    let rule = "{watch: {group: example.com, kind: widgets}, do: [{sink: out}]}";
    let kinds = Kinds {
        rules: given(&[of("Rule", rule)]),
        records: given(&[of("Record", record)]),
        ..Kinds::default()
    };
    let planned = Planner::new(around, &BTreeMap::new()).plan(&kinds, &[]).await;
    let [asked] = &planned.asked[..] else {
        panic!("{:?}", planned.asked);
    };
    asked.redact.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_kind_that_appears_after_its_record_was_looked_at_is_redacted() {
    for kind in ["Widget", "widget", "wd", "WIDGETS"] {
        let record = format!("{{watch: [{{group: example.com, kind: {kind}}}], redact: [spec.secret]}}");
        assert_eq!(left_out(&record, 1).await, ["spec.secret"], "{kind}");
        assert_eq!(left_out(&record, 0).await, ["spec.secret"], "{kind}");
    }
}

#[tokio::test]
async fn what_can_be_read_of_a_record_with_a_mistake_is_left_out() {
    let record = "{watch: [{group: example.com, kind: Widget}], redact: [spec.secret, /spec/other]}";
    assert_eq!(left_out(record, 0).await, ["spec.secret"]);
    let other = "{watch: [{group: example.com, kind: Gadget}], redact: [spec.secret, /spec/other]}";
    assert!(left_out(other, 0).await.is_empty());
}
