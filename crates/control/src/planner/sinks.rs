//! What sinks need: their destinations, made anew when a value that they name changes.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::RandomState},
    time::Duration,
};

use skopos_api::SinkSpec;
use skopos_react::{PlannedSink, SinkReport};
use skopos_sink::{Allowed, Context, connect};
use tokio::time::Instant;

use super::{Planned, Planner, chain};
use crate::{
    SinkVerdict,
    kinds::Given,
    secrets::{Named, Values},
};

/// A sink that was connected.
#[derive(Clone, Debug)]
pub(super) struct GoodSink {
    generation: i64,
    pub(super) spec: SinkSpec,
    planned: PlannedSink,
    /// The values that it was made with.
    named: Vec<Named>,
    /// Whether it could not be made anew since: one of them is another now, and of no use. It is tried until it can.
    is_outdated: bool,
}

/// When the values that sinks name are looked at again.
#[derive(Debug)]
pub(super) struct Looks {
    every: Duration,
    next: Instant,
    /// Sinks with failures since the last look: a new value may be the cure.
    suspects: BTreeSet<String>,
    n_failed: BTreeMap<String, u64>,
    hasher: RandomState,
}

impl Looks {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            next: Instant::now() + every,
            suspects: BTreeSet::new(),
            n_failed: BTreeMap::new(),
            hasher: RandomState::new(),
        }
    }
}

impl Planner {
    /// Whether values that sinks name should be looked at again, which a new plan does: it is time, or deliveries fail.
    pub(crate) fn is_look_due(&mut self, reports: &BTreeMap<String, SinkReport>) -> bool {
        let named = self.sinks.iter().filter(|(_, good)| !good.named.is_empty());
        for (name, _) in named {
            let n_failed = reports.get(name).map_or(0, |report| report.failed_attempts);
            let before = self.looks.n_failed.insert(name.clone(), n_failed);
            if before.is_some_and(|before| before < n_failed) {
                self.looks.suspects.insert(name.clone());
            }
        }
        !self.looks.suspects.is_empty() || self.looks.next <= Instant::now()
    }

    pub(super) async fn plan_sinks(
        &mut self,
        sinks: &BTreeMap<String, Given<SinkSpec>>,
        planned: &mut Planned,
    ) {
        let is_due = self.looks.next <= Instant::now();
        let suspects = std::mem::take(&mut self.looks.suspects);
        for (name, given) in sinks {
            let is_doubted = is_due || suspects.contains(name);
            self.plan_sink(name, given, is_doubted, planned).await;
        }
        if is_due {
            self.looks.next = Instant::now() + self.looks.every;
        }
    }

    async fn plan_sink(
        &mut self,
        name: &str,
        given: &Given<SinkSpec>,
        is_doubted: bool,
        planned: &mut Planned,
    ) {
        let mut verdict = SinkVerdict {
            generation: given.generation,
            ..SinkVerdict::default()
        };
        let known = self.sinks.get(name);
        let known = known.filter(|good| given.spec.as_ref() == Ok(&good.spec));
        let is_current = match known {
            Some(good) if good.is_outdated => false,
            Some(good) if is_doubted => !self.has_changed(name, given, good).await,
            known => known.is_some(),
        };
        if !is_current {
            match self.connect(given).await {
                Ok(good) => {
                    self.sinks.insert(name.to_owned(), good);
                }
                Err(problem) => {
                    planned.is_unsettled = true;
                    verdict.problem = Some(problem);
                    if let Some(good) = self.sinks.get_mut(name) {
                        good.is_outdated = true;
                    }
                }
            }
        }
        if let Some(good) = self.sinks.get(name) {
            verdict.in_force = Some(match is_current {
                true => given.generation,
                false => good.generation,
            });
            planned.plan.sinks.insert(name.to_owned(), good.planned.clone());
        }
        planned.verdicts.sinks.insert(name.to_owned(), verdict);
    }

    /// Whether a value that a sink names is another one now. One that cannot be read now is taken to be the same.
    async fn has_changed(&self, name: &str, given: &Given<SinkSpec>, good: &GoodSink) -> bool {
        let values = self.values(given);
        for named in &good.named {
            if values.has_changed(named).await {
                tracing::info!(sink = name, value = %named.what, "a value of a sink changed; it is connected anew");
                return true;
            }
        }
        false
    }

    fn values<'a>(&'a self, given: &'a Given<SinkSpec>) -> Values<'a> {
        let around = &self.around;
        Values {
            client: around.client.as_ref(),
            namespace: &given.key.namespace,
            is_from_file: given.is_from_file,
            env: around.env,
            hasher: &self.looks.hasher,
            named: Default::default(),
        }
    }

    async fn connect(&self, given: &Given<SinkSpec>) -> Result<GoodSink, String> {
        let spec = given.spec.clone()?;
        let mistakes: Vec<String> = spec.mistakes().iter().map(ToString::to_string).collect();
        if !mistakes.is_empty() {
            return Err(mistakes.join("; "));
        }
        let around = &self.around;
        let values = self.values(given);
        let everything = Allowed {
            exec: true,
            file: true,
        };
        let context = Context {
            namespace: &given.key.namespace,
            secrets: &values,
            allowed: if given.is_from_file {
                everything
            } else {
                around.allowed
            },
            search_path: around.search_path.as_ref(),
            client: around.client.as_ref(),
        };
        let destination = connect(&spec, context).await.map_err(|error| chain(&error))?;
        let delivery = spec.delivery_in_force();
        Ok(GoodSink {
            generation: given.generation,
            spec,
            planned: PlannedSink {
                destination,
                delivery,
            },
            named: values.into_named(),
            is_outdated: false,
        })
    }
}
