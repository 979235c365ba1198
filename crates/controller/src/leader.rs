//! Elects one of several replicas to lead, by a Lease on the API server.
//!
//! Start at [`Elector`]. Who leads is decided in `election.rs`, without IO; here it is put into practice.

mod clock;
mod config;
mod election;
mod lease;
mod metrics;
mod pulse;
#[cfg(test)]
mod simulation;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{fmt, future};

use prometheus_client::registry::Registry;
use serde_json::Value;
use skopos_client::{Api, Client, Error, Resource, WriteParams};
use skopos_object::GroupVersionKind;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::clock::Clock;
pub use self::config::{ClockSkew, LeaderConfig, LeaderConfigError};
pub use self::election::Holder;
use self::election::{Effect, Election, Input, Loss, Report};
pub(crate) use self::lease::micro_time;
use self::lease::{API_VERSION, Lease};
use self::metrics::{Counts, Exporter};
use self::pulse::Pulse;
use crate::{Fence, FenceKeeper};

/// Takes part in the election of a leader.
///
/// Understands leases of client-go, and is understood by it: replicas in Go and in Rust can share one. The
/// [`fence`](Self::fence) is open while this replica leads.
///
/// ```no_run
/// # async fn lead(client: skopos_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use skopos_controller::{Elector, LeaderConfig};
/// use tokio_util::sync::CancellationToken;
///
/// let config = LeaderConfig::new("default", "my-controller", "pod-1_5f2a");
/// let elector = Elector::new(&client, config)?;
/// let (fence, stop) = (elector.fence(), CancellationToken::new());
/// let client = client.guarded(Arc::new(fence.clone()));
/// let electing = tokio::spawn(elector.run(stop.clone()));
///
/// fence.opened().await;
/// // Do what only the leader may do, with `client`, until `fence.closed()`. Then, when nothing is under way any more:
/// stop.cancel();
/// electing.await?.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Elector {
    config: LeaderConfig,
    clock: Clock,
    api: Api,
    keeper: FenceKeeper,
    holder: watch::Sender<Holder>,
    counts: Arc<Counts>,
    pulse: Pulse,
}

/// A replica that takes no part in the election any more, and does not lead, but may still be named in the lease.
#[must_use = "without `release` the others wait for the end of the lease"]
#[derive(Debug)]
pub struct Resigned {
    config: LeaderConfig,
    clock: Clock,
    api: Api,
    election: Election,
}

/// Whether the lease was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The next leader can begin at once.
    Released,
    /// This replica did not hold the lease, or keeps it until its end as the configuration says.
    NotHeld,
}

impl Elector {
    /// Prepares to take part. Neither guards nor limits of `client` apply here: the lease must not wait for others.
    pub fn new(client: &Client, config: LeaderConfig) -> Result<Self, LeaderConfigError> {
        config.check()?;
        let gvk = GroupVersionKind::from_api_version(API_VERSION, "Lease").expect("a group and a version");
        let own = client.unlimited();
        Ok(Self {
            api: Api::namespaced(&own, &Resource::known(&gvk, "leases", true), &config.namespace),
            clock: Clock::new(config.skew),
            config,
            keeper: FenceKeeper::closed(),
            holder: watch::Sender::default(),
            counts: Arc::default(),
            pulse: Pulse::default(),
        })
    }

    /// The right to act: open while this replica leads.
    pub fn fence(&self) -> Fence {
        self.keeper.fence()
    }

    /// Tells who holds the lease, as far as known here.
    pub fn holder(&self) -> watch::Receiver<Holder> {
        self.holder.subscribe()
    }

    /// Shows the election as `leader_election_*` and `skopos_leader_*` in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Exporter {
            name: self.config.name.clone(),
            fence: self.fence(),
            counts: self.counts.clone(),
        }));
    }

    /// A check for [`Health::add_liveness`](crate::Health::add_liveness): fails if the election has stood still for the
    /// duration of the lease and 20 s more. A server that does not answer is no reason, for then it goes on trying.
    ///
    /// By then the [`fence`](Self::fence) has closed by itself; only a new start brings the election back.
    pub fn liveness(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        const TOLERANCE: Duration = Duration::from_secs(20);
        let (pulse, fence, lease) = (self.pulse.clone(), self.fence(), self.config.name.clone());
        let longest = self.config.lease_duration + TOLERANCE;
        move || match (pulse.age().as_secs(), fence.believes_to_lead()) {
            (age, _) if age <= longest.as_secs() => Ok(()),
            (age, true) => Err(format!(
                "lease {lease} was not renewed for {age} s, and the lead not laid down"
            )),
            (age, false) => Err(format!(
                "the election has not looked at lease {lease} for {age} s"
            )),
        }
    }

    /// Takes part until `stop` is cancelled, then closes the fence.
    ///
    /// Cancel it only when there is nothing left to do for which this replica has to lead: work that is being finished
    /// still needs it. The lease is not given back yet; see [`Resigned::release`].
    pub async fn run(self, stop: CancellationToken) -> Resigned {
        let mut election = Election::new(self.config.clone(), fastrand::Rng::new(), self.clock.now());
        let mut request: Option<Request> = None;
        loop {
            self.pulse.beat();
            let input = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                input = answer(request.as_mut()) => {
                    request = None;
                    input
                }
                () = until(election.wake_at().map(|at| self.clock.when(at))) => Input::Tick,
            };
            for effect in election.step(input, self.clock.now()) {
                self.perform(effect, &mut request);
            }
        }
        for effect in election.resign() {
            self.perform(effect, &mut request);
        }
        self.pulse.end();
        Resigned {
            config: self.config,
            clock: self.clock,
            api: self.api,
            election,
        }
    }

    fn perform(&self, effect: Effect, request: &mut Option<Request>) {
        match effect {
            Effect::Read { by } => {
                if self.keeper.fence().is_open() {
                    self.counts.slow_paths.fetch_add(1, Relaxed);
                }
                *request = Some(self.read(self.clock.when(by)));
            }
            Effect::Write { object, is_new, by } => {
                *request = Some(self.write(object, is_new, self.clock.when(by)));
            }
            Effect::Lead { until, epoch } => self.keeper.open_until(self.clock.when(until), epoch),
            Effect::Stop { epoch, why } => {
                self.keeper.close();
                self.stopped(epoch, why);
            }
            Effect::Report(report) => self.report(report),
        }
    }

    fn read(&self, by: Instant) -> Request {
        let (api, name, counts) = (self.api.clone(), self.config.name.clone(), self.counts.clone());
        Box::pin(async move {
            match timeout_at(by, api.find(&name)).await {
                Ok(Ok(lease)) => Input::Read(lease.map(Lease::read)),
                Ok(Err(error)) => failed(&counts, &name, &error, Input::ReadFailed),
                Err(late) => failed(&counts, &name, &late, Input::ReadFailed),
            }
        })
    }

    fn write(&self, object: Value, is_new: bool, by: Instant) -> Request {
        let (api, name, counts) = (self.api.clone(), self.config.name.clone(), self.counts.clone());
        Box::pin(async move {
            match timeout_at(by, put(&api, &name, &object, is_new)).await {
                Ok(Ok(lease)) => Input::Written(lease),
                Ok(Err(error)) if error.is_conflict() || (!is_new && error.is_not_found()) => Input::Conflict,
                Ok(Err(error)) => failed(&counts, &name, &error, Input::WriteFailed),
                Err(late) => failed(&counts, &name, &late, Input::WriteFailed),
            }
        })
    }

    fn stopped(&self, epoch: u64, why: Loss) {
        let lease = &self.config.name;
        match why {
            Loss::Resigned => return info!(lease, epoch, "leads no longer"),
            Loss::Expired => warn!(lease, epoch, "lost the lead: could not renew the lease in time"),
            Loss::Taken => warn!(lease, epoch, "lost the lead: the lease has another holder"),
        }
        self.counts.losses.fetch_add(1, Relaxed);
    }

    fn report(&self, report: Report) {
        let lease = &self.config.name;
        match report {
            Report::Began { epoch } => {
                self.counts.terms.fetch_add(1, Relaxed);
                info!(lease, epoch, "leads");
            }
            Report::Holder(holder) => {
                info!(
                    lease,
                    holder = holder.identity,
                    epoch = holder.epoch,
                    "the lease changed hands"
                );
                self.holder.send_replace(holder);
            }
            Report::SlowRenewal { took } => {
                self.counts.slow_renewals.fetch_add(1, Relaxed);
                warn!(lease, ?took, "slow renewal of the lease");
            }
        }
    }
}

impl Resigned {
    /// Gives the lease back, so that the next leader can begin at once.
    ///
    /// Call it when nothing of this replica can write any more, also nothing that was sent and not answered: whoever
    /// leads next trusts in that. If it fails the others wait for the end of the lease.
    pub async fn release(self) -> Result<Release, Error> {
        const ATTEMPTS: usize = 3;
        if !self.config.release_on_shutdown || !self.election.may_hold() {
            return Ok(Release::NotHeld);
        }
        let name = &self.config.name;
        for attempt in 1.. {
            let lease = self.within(self.api.find(name)).await?.map(Lease::read);
            let Some(object) = lease.and_then(|lease| self.election.release(&lease, self.clock.now())) else {
                break;
            };
            match self.within(put(&self.api, name, &object, false)).await {
                Ok(_) => return Ok(Release::Released),
                // A renewal that was under way came through.
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Release::NotHeld)
    }

    /// For how long the others wait if the lease is not given back; nothing if it is not this replica's.
    pub(crate) fn holds_for(&self) -> Option<Duration> {
        self.election.may_hold().then_some(self.config.lease_duration)
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let after = self.config.renew_deadline / 2;
        match tokio::time::timeout(after, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::TimedOut {
                request: format!("release of lease {}", self.config.name),
                after,
            }),
        }
    }
}

/// The one request that is under way.
type Request = Pin<Box<dyn Future<Output = Input> + Send>>;

async fn answer(request: Option<&mut Request>) -> Input {
    match request {
        Some(request) => request.await,
        None => future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => future::pending().await,
    }
}

async fn put(api: &Api, name: &str, object: &Value, is_new: bool) -> Result<Lease, Error> {
    let params = WriteParams::default();
    let answer = match is_new {
        true => api.create(object, &params).await?,
        false => api.update(name, object, &params).await?,
    };
    Ok(Lease::read(answer.value))
}

fn failed(counts: &Counts, lease: &str, error: &dyn fmt::Display, input: Input) -> Input {
    counts.failures.fetch_add(1, Relaxed);
    warn!(lease, %error, "request for the lease failed");
    input
}
