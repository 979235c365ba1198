//! Lives through changes, bad sinks, crashes and new plans, by seed: in the end each sink has exactly what its rules
//! matched, in order per object, or it is among the dead letters.
//!
//! `SEED=n` replays one, `SEEDS=n` lives through more.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use skopos_api::{Batch, Delivery, Existing};
use skopos_journal::{Entry, Log as _};
use skopos_object::Op;
use tokio::time::sleep;

use super::kit::{Disk, Life, MemoryLog, Mood, Recorder, Toy, When, plan, rule};
use crate::rule::Subject;

use crate::delivery::{
    Evaluator as _, Letters, Outcome, Plan, PlannedRule, Status, Trigger,
    entries::{existing, object_id},
};

#[test]
#[expect(clippy::print_stderr, reason = "says how to replay")]
fn what_arrives_is_what_matched_whatever_happens() {
    for seed in seeds(200) {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(live(seed));
        }));
        if let Err(panic) = lived {
            eprintln!("replay with SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// All of them, `SEEDS` many, or `SEED` alone. The testing kit has the same, but brings a whole server along.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().unwrap());
    match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(default),
    }
}

/// The rules, in the order in which they may come.
const RULES: [(&str, When, Existing, &[&str]); 6] = [
    ("all", When::Always, Existing::Ignore, &["a", "b"]),
    ("even", When::Even, Existing::Ignore, &["a"]),
    ("became", When::Became, Existing::Ignore, &["b"]),
    ("held", When::Held(30), Existing::Ignore, &["a"]),
    ("emit", When::Always, Existing::Emit, &["b"]),
    ("emit-became", When::Became, Existing::Reconcile, &["a", "b"]),
];

struct World {
    rng: fastrand::Rng,
    seed: u64,
    log: Arc<MemoryLog>,
    sinks: BTreeMap<&'static str, Arc<Recorder>>,
    deliveries: BTreeMap<&'static str, Delivery>,
    life: Option<Life>,
    /// How many of the rules there are, and where each began.
    bases: Vec<u64>,
    suspended: BTreeSet<&'static str>,
    truth: Vec<Entry>,
}

async fn live(seed: u64) {
    let mut world = World::new(seed);
    world.start(Disk::default());
    for _ in 0..world.rng.usize(10..60) {
        world.act().await;
    }
    world.rest().await;
    world.check_all_but_dead().await;
    world.redrive_and_check().await;
    if let Some(life) = world.life.take() {
        life.end().await;
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let batch = [1, 3, 50][rng.usize(..3)];
        Self {
            seed,
            log: MemoryLog::new(),
            sinks: BTreeMap::from([("a", Recorder::new(batch)), ("b", Recorder::new(1))]),
            deliveries: BTreeMap::from([("a", Delivery::default()), ("b", Delivery::default())]),
            life: None,
            bases: Vec::new(),
            suspended: BTreeSet::new(),
            truth: Vec::new(),
            rng,
        }
    }

    fn start(&mut self, disk: Disk) {
        self.life = Some(Life::begin(disk, &self.log, self.plan(), self.seed));
    }

    fn life(&self) -> &Life {
        self.life.as_ref().unwrap()
    }

    fn plan(&self) -> Plan {
        let rules = RULES[..self.bases.len()]
            .iter()
            .map(|(name, when, existing, sinks)| {
                let planned = PlannedRule {
                    existing: *existing,
                    suspend: self.suspended.contains(name),
                    ..rule(name, *when, sinks)
                };
                (*name, planned)
            });
        let sinks = self.sinks.iter();
        let sinks = sinks.map(|(name, sink)| (*name, sink.planned_with(self.deliveries[name].clone())));
        plan(rules, sinks)
    }

    async fn act(&mut self) {
        match self.rng.u32(..100) {
            0..40 => self.change(),
            40..60 => sleep(Duration::from_millis(self.rng.u64(0..200))).await,
            60..63 => self.fill_or_free(),
            63..66 => sleep(Duration::from_secs(self.rng.u64(1..90))).await,
            66..76 => self.upset_a_sink(),
            76..82 => self.add_rule().await,
            82..89 => self.crash().await,
            89..91 => self.restart().await,
            91..94 => self.suspend_or_resume(),
            94..96 => self.configure(),
            96..98 => {
                let to = self.rng.u64(0..=self.log.head().0);
                self.log.trim(to);
            }
            _ => self.log.fail_reads(self.rng.usize(1..4)),
        }
    }

    fn change(&mut self) {
        for _ in 0..self.rng.usize(1..12) {
            let name = format!("w{}", self.rng.u32(..6));
            let entry = match self.log.exists(&name) && self.rng.u32(..5) == 0 {
                true => self.log.delete(&name),
                false => self.log.set(&name, self.rng.i64(0..10)),
            };
            self.truth.push(entry);
        }
    }

    /// The disk is full after some more bytes, or no longer.
    fn fill_or_free(&mut self) {
        let disk = &self.life.as_ref().unwrap().disk;
        match self.rng.bool() {
            true => disk.fill(self.rng.usize(..1 << 18)),
            false => disk.free(),
        }
    }

    fn upset_a_sink(&mut self) {
        let rng = &mut self.rng;
        let name = ["a", "b"][rng.usize(..2)];
        let mut mood = Mood {
            takes: Duration::from_millis(rng.u64(0..30)),
            ..Mood::default()
        };
        match rng.u32(..8) {
            0 => mood.is_down = true,
            1 => mood.hangs = true,
            2 => mood.takes = Duration::from_secs(rng.u64(1..40)),
            3 => {
                mood.is_down = true;
                mood.retry_after = Some(Duration::from_secs(rng.u64(1..100)));
            }
            4 => {
                let objects = [rng.u32(..6), rng.u32(..6)];
                mood.failing = objects.map(|n| format!("home/w{n}")).into();
            }
            5 => mood.refuses = Some(7),
            6 => mood.lies = true,
            _ => {}
        }
        self.sinks[name].be(mood);
    }

    async fn add_rule(&mut self) {
        if self.bases.len() == RULES.len() {
            return;
        }
        self.life().disk.free();
        let waits = |status: &Status| status.no_space.is_none();
        self.life().until("there is room", waits).await;
        let (name, _, policy, _) = RULES[self.bases.len()];
        self.bases.push(self.log.head().0);
        self.life().reactor.swap(self.plan());
        let is_known = |status: &Status| {
            let rule = status.rules.get(name);
            rule.is_some_and(|rule| policy != Existing::Ignore || !rule.is_telling_existing)
        };
        self.life().until("the rule is known", is_known).await;
        // What a crash may undo is no older than this. What holds already is remembered since then.
        sleep(Duration::from_millis(match policy {
            Existing::Ignore => 200,
            Existing::Emit | Existing::Reconcile => 1,
        }))
        .await;
    }

    async fn crash(&mut self) {
        let life = self.life.take().unwrap();
        let disk = life.crash(&mut self.rng).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.start(disk);
    }

    async fn restart(&mut self) {
        let disk = self.life.take().unwrap().end().await;
        self.start(disk);
    }

    fn suspend_or_resume(&mut self) {
        if self.bases.is_empty() {
            return;
        }
        let name = RULES[self.rng.usize(..self.bases.len())].0;
        if !self.suspended.remove(name) {
            self.suspended.insert(name);
        }
        self.life().reactor.swap(self.plan());
    }

    fn configure(&mut self) {
        let delivery = Delivery {
            concurrency: Some(self.rng.u32(1..10)),
            batch: self.rng.bool().then(|| Batch {
                max_events: self.rng.u32(1..60),
            }),
            max_per_second: self.rng.bool().then(|| self.rng.u32(5..1000)),
            ..Delivery::default()
        };
        let name = ["a", "b"][self.rng.usize(..2)];
        self.deliveries.insert(name, delivery);
        self.life().reactor.swap(self.plan());
    }

    /// Everything works again, but what is refused stays refused.
    async fn rest(&mut self) {
        for sink in self.sinks.values() {
            sink.be(Mood {
                refuses: Some(7),
                ..Mood::default()
            });
        }
        self.suspended.clear();
        self.life().disk.free();
        self.log.fail_reads(0);
        self.life().reactor.swap(self.plan());
        sleep(Duration::from_millis(200)).await;
        self.life().until_quiet().await;
        sleep(Duration::from_secs(60)).await;
        self.life().until_quiet().await;
    }

    async fn check_all_but_dead(&self) {
        let letters = self
            .life()
            .reactor
            .dead_letters(&Letters::All, None, usize::MAX)
            .await
            .unwrap();
        let mut dead = BTreeSet::new();
        for letter in &letters {
            let (_, event) = self.life().reactor.dead_letter(&letter.id).await.unwrap();
            dead.insert((letter.sink.clone(), event.unwrap().id));
        }
        assert_eq!(dead.len(), letters.len(), "no delivery is given up twice");
        for (sink, recorder) in &self.sinks {
            let arrived = recorder.distinct();
            for (place, base) in self.bases.iter().enumerate() {
                let (name, _, _, sinks) = &RULES[place];
                if !sinks.contains(sink) {
                    continue;
                }
                let mut expected = self.expected(place, *base);
                // A letter may have arrived all the same, when the sink lied.
                let is_dead = |id: &String| dead.contains(&((*sink).to_owned(), id.clone()));
                let mut got: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for event in arrived
                    .iter()
                    .filter(|event| event.rule == *name && !is_dead(&event.id))
                {
                    got.entry(event.lane.clone()).or_default().push(event.id.clone());
                }
                for ids in expected.values_mut() {
                    ids.retain(|id| !is_dead(id));
                }
                expected.retain(|_, ids| !ids.is_empty());
                assert_eq!(got, expected, "rule {name}, sink {sink}");
            }
        }
    }

    async fn redrive_and_check(&self) {
        for sink in self.sinks.values() {
            sink.be(Mood::default());
        }
        self.life().reactor.redrive(&Letters::All).await.unwrap();
        let status = self.life().until_quiet().await;
        for (sink, recorder) in &self.sinks {
            let arrived: BTreeSet<String> = recorder.ids().into_iter().collect();
            for (place, base) in self.bases.iter().enumerate() {
                let (name, _, _, sinks) = &RULES[place];
                if sinks.contains(sink) {
                    let expected = self.expected(place, *base);
                    let missing: Vec<_> = expected
                        .values()
                        .flatten()
                        .filter(|id| !arrived.contains(*id))
                        .collect();
                    assert!(
                        missing.is_empty(),
                        "rule {name}, sink {sink}: {missing:?} never arrived"
                    );
                    assert_eq!(status.rules[*name].routes[*sink].dead, 0);
                }
            }
        }
    }

    /// What a rule must send, by object and in order, found out the simple way.
    fn expected(&self, place: usize, base: u64) -> BTreeMap<String, Vec<String>> {
        let (name, when, policy, _) = RULES[place];
        let mut model = Model {
            toy: Toy::new(name, when),
            kept: HashMap::new(),
            expected: BTreeMap::new(),
        };
        let (before, after): (Vec<_>, Vec<_>) = self.truth.iter().partition(|entry| entry.seq.0 <= base);
        let mut there: BTreeMap<String, &Entry> = BTreeMap::new();
        for entry in before {
            match entry.op {
                Op::Deleted => there.remove(&object_id(entry)),
                Op::Created | Op::Updated => there.insert(object_id(entry), entry),
            };
        }
        for entry in there.into_values() {
            match policy {
                Existing::Ignore => model.observe(entry),
                Existing::Emit | Existing::Reconcile => {
                    model.look(&existing(entry.clone()), Trigger::Existing);
                }
            }
        }
        for entry in after {
            model.look(entry, Trigger::Change);
        }
        model.wake_all();
        model.expected
    }
}

type Kept = (Option<Vec<u8>>, Option<Timestamp>, Entry);

/// A rule without an engine.
struct Model {
    toy: Toy,
    /// Edge state, timer and last change by object.
    kept: HashMap<String, Kept>,
    expected: BTreeMap<String, Vec<String>>,
}

impl Model {
    fn look(&mut self, entry: &Entry, trigger: Trigger) {
        let object = object_id(entry);
        if let Some((_, Some(at), _)) = self.kept.get(&object)
            && *at <= entry.at
        {
            self.wake(&object);
        }
        let edge = self.kept.get(&object).and_then(|(edge, ..)| edge.clone());
        let said = self.toy.evaluate(&Subject::new(entry), edge.as_deref(), entry.at);
        if said.outcome == Outcome::Match {
            self.expect(entry, trigger);
        }
        match entry.op {
            Op::Deleted => self.kept.remove(&object),
            Op::Created | Op::Updated => self.kept.insert(object, (said.edge, said.wake_at, entry.clone())),
        };
    }

    fn observe(&mut self, entry: &Entry) {
        let created = existing(entry.clone());
        let said = self.toy.observe(&Subject::new(&created), None, entry.at);
        self.kept
            .insert(object_id(entry), (said.edge, said.wake_at, entry.clone()));
    }

    fn wake(&mut self, object: &str) {
        let (edge, at, entry) = self.kept[object].clone();
        let said = self.toy.wake(&Subject::new(&entry), edge.as_deref(), at.unwrap());
        if said.outcome == Outcome::Match {
            self.expect(&entry, Trigger::Held);
        }
        self.kept
            .insert(object.to_owned(), (said.edge, said.wake_at, entry));
    }

    fn wake_all(&mut self) {
        let objects: Vec<String> = self.kept.keys().cloned().collect();
        for object in objects {
            if self.kept[&object].1.is_some() {
                self.wake(&object);
            }
        }
    }

    fn expect(&mut self, entry: &Entry, trigger: Trigger) {
        let id = self.toy.id(entry, trigger);
        self.expected.entry(object_id(entry)).or_default().push(id);
    }
}
