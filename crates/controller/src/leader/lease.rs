//! A Lease as client-go reads and writes it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) const API_VERSION: &str = "coordination.k8s.io/v1";

/// A lease as it was read. What cannot be understood counts as missing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lease {
    /// The whole object, so that what others put there is kept.
    object: Value,
    pub(super) version: String,
    /// Empty if nobody holds it.
    pub(super) holder: String,
    /// How long others have to wait.
    pub(super) duration: Option<Duration>,
    pub(super) renew_time: Option<Timestamp>,
    pub(super) transitions: u64,
}

/// What a holder writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    /// Empty to give it back.
    pub(super) holder: &'a str,
    pub(super) duration: Duration,
    pub(super) acquire_time: Timestamp,
    pub(super) renew_time: Timestamp,
    pub(super) transitions: u64,
}

impl Lease {
    pub(super) fn read(object: Value) -> Self {
        let spec = &object["spec"];
        let time = |name: &str| spec[name].as_str().and_then(|time| time.parse().ok());
        Self {
            version: text(&object["metadata"]["resourceVersion"]),
            holder: text(&spec["holderIdentity"]),
            duration: spec["leaseDurationSeconds"].as_u64().map(Duration::from_secs),
            renew_time: time("renewTime"),
            transitions: spec["leaseTransitions"].as_u64().unwrap_or_default(),
            object,
        }
    }
}

impl Claim<'_> {
    /// The object to create.
    pub(super) fn create(self, namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": self.spec(),
        })
    }

    /// The object to replace exactly this version of the lease with.
    pub(super) fn replace(self, lease: &Lease) -> Value {
        let mut object = lease.object.clone();
        let Value::Object(spec) = self.spec() else {
            unreachable!("made as an object below");
        };
        for (name, value) in spec {
            object["spec"][name] = value;
        }
        object
    }

    fn spec(self) -> Value {
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": micro_time(self.acquire_time),
            "renewTime": micro_time(self.renew_time),
            "leaseTransitions": self.transitions,
        })
    }
}

/// `MicroTime`: always six digits.
pub(crate) fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of client-go's `LeaderElectionRecordToLeaseSpec`.
    fn by_client_go() -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "lock", "namespace": "default", "resourceVersion": "42", "labels": {"a": "b"}},
            "spec": {
                "acquireTime": "2026-11-15T21:54:20.123456Z",
                "holderIdentity": "pod-1_6a3c",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 3,
                "renewTime": "2026-11-15T21:54:24.000120Z",
            },
        })
    }

    #[test]
    fn reads_what_client_go_writes() {
        let lease = Lease::read(by_client_go());
        assert_eq!((&*lease.version, &*lease.holder), ("42", "pod-1_6a3c"));
        assert_eq!(
            (lease.duration, lease.transitions),
            (Some(Duration::from_secs(15)), 3)
        );
        assert_eq!(
            lease.renew_time.map(micro_time).as_deref(),
            Some("2026-11-15T21:54:24.000120Z")
        );
    }

    #[test]
    fn writes_the_same_fields_in_the_same_form() {
        let lease = Lease::read(by_client_go());
        let time = "2026-11-15T21:55:00Z".parse().unwrap();
        let claim = Claim {
            holder: "me",
            duration: Duration::from_millis(1500),
            acquire_time: time,
            renew_time: time,
            transitions: 4,
        };
        let mut expect = by_client_go();
        expect["spec"] = json!({
            "acquireTime": "2026-11-15T21:55:00.000000Z",
            "holderIdentity": "me",
            "leaseDurationSeconds": 2,
            "leaseTransitions": 4,
            "renewTime": "2026-11-15T21:55:00.000000Z",
        });
        assert_eq!(claim.replace(&lease), expect);
        assert_eq!(claim.create("default", "lock")["spec"], expect["spec"]);
    }

    #[test]
    fn a_lease_that_says_nothing_is_free() {
        let lease =
            Lease::read(json!({"metadata": {"resourceVersion": "1"}, "spec": {"renewTime": "yesterday"}}));
        assert_eq!(
            (&*lease.holder, lease.duration, lease.renew_time),
            ("", None, None)
        );
        let released = Lease::read(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
        assert!(released.holder.is_empty());
    }
}
