//! Leader election by a Lease, as one writes it by hand: `kube` has none.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};

use crate::server::Server;

const LEASE: Duration = Duration::from_secs(1);
const NAME: &str = "leader";

/// Runs for the lease. A holder is thought dead when its lease stays the same for as long as it lasts.
struct Contender {
    leases: Api<Lease>,
    identity: &'static str,
    seen: Option<(Option<String>, Instant)>,
}

impl Contender {
    /// Takes or renews the lease if it may; whether it leads now.
    async fn attempt(&mut self) -> anyhow::Result<bool> {
        let Some(lease) = self.leases.get_opt(NAME).await? else {
            let metadata = ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            };
            let spec = Some(self.claim(0));
            let lease = Lease { metadata, spec };
            return won(self.leases.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let is_free = holder.is_empty() || holder == self.identity;
        if !is_free && !self.has_run_out(lease.metadata.resource_version.clone()) {
            return Ok(false);
        }
        let transitions = spec.lease_transitions.unwrap_or_default() + i32::from(holder != self.identity);
        let metadata = lease.metadata;
        let spec = Some(self.claim(transitions));
        let claim = Lease { metadata, spec };
        won(self.leases.replace(NAME, &PostParams::default(), &claim).await)
    }

    fn claim(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.to_owned()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    fn has_run_out(&mut self, version: Option<String>) -> bool {
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed() > LEASE,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }

    async fn until_leads(&mut self) -> anyhow::Result<()> {
        while !self.attempt().await? {
            tokio::time::sleep(LEASE / 20).await;
        }
        Ok(())
    }

    async fn release(&self) -> anyhow::Result<()> {
        let mut lease = self.leases.get(NAME).await?;
        lease.spec.get_or_insert_default().holder_identity = None;
        self.leases.replace(NAME, &PostParams::default(), &lease).await?;
        Ok(())
    }
}

/// A conflict means that another was faster.
fn won(written: kube::Result<Lease>) -> anyhow::Result<bool> {
    match written {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        written => Ok(written.map(|_| true)?),
    }
}

/// Of three that run at once one wins; when it dies another takes over and gives back, and the third has it at once.
pub(crate) async fn election(server: &Server) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(server.client.clone(), &server.namespace);
    let contender = |identity| Contender {
        leases: leases.clone(),
        identity,
        seen: None,
    };
    let mut three = ["one", "two", "three"].map(contender);
    let leads = try_join_all(three.iter_mut().map(Contender::attempt)).await?;
    assert_eq!(leads.iter().filter(|leads| **leads).count(), 1, "{leads:?}");
    let mut leads = leads.into_iter();
    let (mut first, mut rest): (Vec<_>, Vec<_>) = three.into_iter().partition(|_| leads.next() == Some(true));
    assert!(first[0].attempt().await?, "the holder renews");
    assert!(!rest[0].attempt().await?, "nobody else leads");
    drop(first);
    rest[0].until_leads().await?;
    rest[0].release().await?;
    assert!(rest[1].attempt().await?, "a free lease is taken at once");
    let spec = leases.get(NAME).await?.spec.unwrap_or_default();
    assert_eq!(spec.holder_identity.as_deref(), Some(rest[1].identity));
    assert_eq!(spec.lease_transitions, Some(2));
    Ok(())
}
