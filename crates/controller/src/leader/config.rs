//! What is to be elected, and how fast.

use std::time::Duration;

/// Which lease decides who leads, who this replica is, and how fast leadership moves.
///
/// The times are those of client-go and controller-runtime by default. All replicas should have the same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderConfig {
    /// The namespace of the lease. It must exist.
    pub namespace: String,
    /// The name of the lease. Who shares it takes turns.
    pub name: String,
    /// Who this is, for people who look at the lease. Has to be different for every process, also after a restart: the
    /// pod's name and something random.
    pub identity: String,
    /// How long the others wait after the last sign of life of a leader before one of them takes over. 15 s by default.
    ///
    /// The lease tells it in whole seconds, rounded up.
    pub lease_duration: Duration,
    /// How long this replica leads after the start of its last successful renewal. 10 s by default.
    ///
    /// Has to be shorter than the lease by a tenth or more: by this much, the clocks of two replicas may differ in
    /// their speed. What is left of the lease is also the time that writes sent last have to arrive.
    pub renew_deadline: Duration,
    /// How often the leader renews and the others look. 2 s by default; up to a fifth is added at random.
    pub retry_period: Duration,
    /// Whether [`Resigned::release`](crate::Resigned::release) gives the lease back, so that the next leader need not
    /// wait for its end. True by default.
    pub release_on_shutdown: bool,
    /// By what this replica's clock is wrong, for simulations. By nothing by default.
    pub skew: ClockSkew,
}

/// By what a clock is wrong. For simulations of replicas whose clocks differ; see [`LeaderConfig::skew`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockSkew {
    /// How much later it shows than the others. That must not matter.
    pub ahead: Duration,
    /// How many milliseconds it gains in a second; loses, below zero.
    pub gain_per_mille: i32,
}

/// Why an election cannot be held like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaderConfigError {
    /// A name is missing.
    #[error("leader election needs: {0}")]
    Empty(&'static str),
    /// The lease is too short for anything.
    #[error("lease_duration ({0:?}) is shorter than a second")]
    ShortLease(Duration),
    /// A leader could still lead when the next one begins.
    #[error(
        "renew_deadline ({renew_deadline:?}) times 1.1 is longer than lease_duration ({lease_duration:?}): with clocks \
         that differ by a tenth, two replicas could lead at once"
    )]
    LateDeadline {
        /// How long a leader leads without renewal.
        renew_deadline: Duration,
        /// How long the others wait.
        lease_duration: Duration,
    },
    /// A single lost request would end the leadership.
    #[error(
        "retry_period ({retry_period:?}) is zero, or more than half of renew_deadline ({renew_deadline:?}): a leader \
         could not try a second time"
    )]
    RareRetries {
        /// How often it is tried.
        retry_period: Duration,
        /// How long it may take to succeed.
        renew_deadline: Duration,
    },
}

impl LeaderConfig {
    /// The usual times.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_shutdown: true,
            skew: ClockSkew::default(),
        }
    }

    /// Says whether at most one replica can lead at any time with these times.
    pub fn check(&self) -> Result<(), LeaderConfigError> {
        let names = [
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("identity", &self.identity),
        ];
        if let Some((what, _)) = names.into_iter().find(|(_, name)| name.is_empty()) {
            return Err(LeaderConfigError::Empty(what));
        }
        let (lease_duration, renew_deadline, retry_period) =
            (self.lease_duration, self.renew_deadline, self.retry_period);
        if lease_duration < Duration::from_secs(1) {
            return Err(LeaderConfigError::ShortLease(lease_duration));
        }
        if renew_deadline.saturating_mul(11) > lease_duration.saturating_mul(10) {
            return Err(LeaderConfigError::LateDeadline {
                renew_deadline,
                lease_duration,
            });
        }
        if retry_period.is_zero() || retry_period.saturating_mul(2) > renew_deadline {
            return Err(LeaderConfigError::RareRetries {
                retry_period,
                renew_deadline,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut LeaderConfig), expect: &str) {
        let mut config = LeaderConfig::new("default", "lock", "me");
        change(&mut config);
        let said = config
            .check()
            .map_or_else(|error| error.to_string(), |()| String::new());
        assert!(said.starts_with(expect), "{said}");
        assert_eq!(said.is_empty(), expect.is_empty(), "{said}");
    }

    #[test]
    fn refuses_times_with_which_two_could_lead() {
        check(|_| {}, "");
        check(
            |config| config.identity.clear(),
            "leader election needs: identity",
        );
        check(
            |config| config.lease_duration = Duration::from_millis(900),
            "lease_duration",
        );
        check(
            |config| config.renew_deadline = Duration::from_secs(14),
            "renew_deadline",
        );
        check(|config| config.retry_period = Duration::ZERO, "retry_period");
        check(
            |config| config.retry_period = Duration::from_secs(6),
            "retry_period",
        );
    }
}
