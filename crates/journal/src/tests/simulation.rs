//! Random changes, faults, crashes and outages: what is written down adds up to what happened.

use std::{collections::BTreeSet, time::Duration};

use skopos_remote::{MemoryServer, Troubles};
use skopos_testkit::{Data, Fault, Faults, Rule, seeds};
use tokio_util::sync::CancellationToken;

use super::{remote::on_server, *};
use crate::{Asked, Capture, CaptureConfig, Limits, Phase, Retention};

/// What really happened: the id of each change, whose it was, and its version.
type Truth = BTreeMap<String, (String, u64)>;

struct World {
    rng: fastrand::Rng,
    source: ModelSource,
    truth: Truth,
    may_forget: bool,
    /// What is kept of the log, where not everything is.
    retention: Retention,
}

impl World {
    fn act(&mut self) {
        let name = format!("w{}", self.rng.u32(..6));
        let key = ObjectKey::namespaced("home", name.as_str());
        let exists = self.source.objects().contains_key(&key);
        if exists && self.rng.u32(..4) == 0 {
            let gone = self.source.delete("home", &name).unwrap();
            self.note("deleted", &gone);
            return;
        }
        let size = self.rng.u32(..);
        let put = self.source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home}}, spec: {{size: {size}}}}}"
        )));
        match exists {
            true => self.note(put.resource_version().as_str(), &put),
            false => self.note("created", &put),
        }
    }

    fn note(&mut self, what: &str, object: &Object) {
        let version = object.resource_version().as_str().parse().unwrap();
        let id = format!("{}.{what}", object.uid());
        self.truth.insert(id, (object.uid().into(), version));
    }

    fn disturb(&mut self) {
        let faults = self.source.faults();
        match self.rng.u32(..6) {
            0 => faults.cut_open_streams(),
            1 => drop(faults.add(Rule::list().first(2).then(Fault::internal()))),
            2 => drop(faults.add(Rule::watch().first(2).then(Fault::unavailable(1)))),
            3 if self.may_forget => {
                self.source.compact();
                faults.cut_open_streams();
            }
            4 => self.source.restart(Data::Kept),
            _ => {}
        }
    }
}

/// Every third run keeps only some changes, by their number or by their size, every third no more than some bytes.
fn retention(seed: u64) -> Retention {
    let limits = Limits {
        max_changes: (seed % 6 == 1).then_some(5 + seed % 20),
        max_bytes: (seed % 6 == 4).then_some(1000 + seed % 3000),
        ..Limits::default()
    };
    Retention {
        default: limits,
        max_bytes: (seed % 3 == 2).then_some(8000),
        ..Retention::default()
    }
}

/// Where the journal is.
enum Place {
    /// Of what was not synced, anything may be there after a crash.
    Disk(SimDisk),
    /// Whoever crashed is not dead but cut off, and goes on until it is refused.
    Server(MemoryServer),
}

impl Place {
    async fn open(&self) -> Journal {
        match self {
            Self::Disk(disk) => open(disk),
            Self::Server(server) => on_server(server).await,
        }
    }
}

async fn simulate(seed: u64, mut place: Place) {
    let mut world = World {
        rng: fastrand::Rng::with_seed(seed),
        source: ModelSource::with_faults(Faults::seeded(seed)),
        truth: Truth::default(),
        may_forget: seed % 2 == 1,
        retention: retention(seed),
    };
    let mut is_listed = false;
    let mut cut_off = Vec::new();
    for _ in 0..world.rng.u32(2..6) {
        let journal = place.open().await;
        let collections = Arc::new(One(Some(world.source.clone()).into()));
        let config = CaptureConfig {
            reflector: skopos_informer::ReflectorConfig {
                seed: Some(seed),
                ..Default::default()
            },
            ..CaptureConfig::default()
        };
        journal.set_retention(world.retention.clone());
        let capture = Capture::new(journal.clone(), collections, config);
        capture.ask(vec![Asked::from("widgets.example.com")]);
        let stop = CancellationToken::new();
        let task = tokio::spawn(capture.clone().run(stop.clone()));
        if !is_listed {
            // What happens before the first list is nobody's loss.
            while !matches!(capture.status().first(), Some(status) if status.phase == Phase::Watching) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            is_listed = true;
        }
        for _ in 0..world.rng.u32(1..40) {
            for _ in 0..world.rng.u32(1..5) {
                world.act();
            }
            if world.rng.u32(..8) == 0 {
                world.disturb();
            }
            tokio::time::sleep(Duration::from_millis(world.rng.u64(..3000))).await;
        }
        if world.rng.bool() {
            stop.cancel();
            task.await.unwrap();
            journal.close().await;
        } else if let Place::Disk(disk) = &mut place {
            task.abort();
            let _ = task.await;
            let mut rng = world.rng.fork();
            *disk = disk.crashed(|unsynced| rng.usize(..=unsynced));
        } else {
            cut_off.push(task);
        }
        // While nobody looks.
        for _ in 0..world.rng.u32(..20) {
            world.act();
        }
        if world.rng.bool() {
            world.disturb();
        }
    }
    settle(&mut world, &place, seed).await;
    for task in cut_off {
        task.abort();
        let _ = task.await;
    }
}

async fn settle(world: &mut World, place: &Place, seed: u64) {
    world.source.faults().clear();
    let journal = place.open().await;
    let collections = Arc::new(One(Some(world.source.clone()).into()));
    let capture = Capture::new(journal.clone(), collections, CaptureConfig::default());
    capture.ask(vec![Asked::from("widgets.example.com")]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(capture.run(stop.clone()));
    let mut n_looks = 0;
    while mirror(&journal).await != world.source.objects() {
        n_looks += 1;
        assert!(
            n_looks < 1000,
            "seed {seed}: the mirror never became what the source has"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    check(world, &journal, seed).await;
    stop.cancel();
    task.await.unwrap();
    journal.close().await;
}

async fn check(world: &World, journal: &Journal, seed: u64) {
    if world.retention != Retention::default() {
        return check_thinned(world, journal, seed).await;
    }
    let entries = all(journal).await;
    let mut seen = BTreeSet::new();
    let mut present: BTreeMap<String, Object> = BTreeMap::new();
    for entry in &entries {
        let id = entry.id().to_string();
        assert!(seen.insert(id.clone()), "seed {seed}: {id} twice");
        assert!(world.truth.contains_key(&id), "seed {seed}: {id} never happened");
        // In order per object, each from the state before.
        let before = match entry.op {
            Op::Created => present.insert(entry.uid.clone(), entry.after.clone().unwrap()),
            Op::Updated => present.insert(entry.uid.clone(), entry.after.clone().unwrap()),
            Op::Deleted => present.remove(&entry.uid),
        };
        assert_eq!(before.is_some(), entry.op != Op::Created, "seed {seed}: {id}");
        if entry.op == Op::Updated {
            let before = before.unwrap();
            assert!(before.resource_version() < entry.version, "seed {seed}: {id}");
            assert_eq!(entry.before.as_ref(), Some(&before), "seed {seed}: {id}");
        }
    }
    let lost: Vec<_> = world.truth.iter().filter(|(id, _)| !seen.contains(*id)).collect();
    assert!(
        lost.is_empty() || !journal.holes().is_empty(),
        "seed {seed}: lost without a hole: {lost:?}"
    );
    assert!(
        world.may_forget || journal.holes().is_empty(),
        "seed {seed}: {:?}",
        journal.holes()
    );
    for (id, (uid, version)) in lost {
        let of_it = entries.iter().filter(|entry| entry.uid == *uid);
        // Only what was overwritten inside a hole may be lost: a later comparison shows what became of it.
        let is_overwritten = of_it.clone().any(|entry| {
            let is_later =
                entry.op == Op::Deleted || entry.version.as_str().parse::<u64>().unwrap() >= *version;
            is_later && matches!(entry.observed, Observed::Relist { .. })
        });
        let is_update = !id.ends_with(".created") && !id.ends_with(".deleted");
        let is_excused = of_it.count() == 0 || is_update && is_overwritten;
        assert!(is_excused, "seed {seed}: lost {id}");
    }
}

/// What is left of a log that lost its oldest: it happened, in this order, and each once. The mirror was compared before.
async fn check_thinned(world: &World, journal: &Journal, seed: u64) {
    let entries = all(journal).await;
    let mut seen = BTreeSet::new();
    let mut last = Seq(0);
    for entry in &entries {
        let id = entry.id().to_string();
        assert!(
            entry.seq > last && entry.seq <= journal.head(),
            "seed {seed}: {id}"
        );
        last = entry.seq;
        assert!(seen.insert(id.clone()), "seed {seed}: {id} twice");
        assert!(world.truth.contains_key(&id), "seed {seed}: {id} never happened");
    }
    if let Some(most) = world.retention.default.max_changes {
        let newest = usize::try_from(most).unwrap().min(world.truth.len() / 4);
        assert!(entries.len() >= newest, "seed {seed}: {} left", entries.len());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_down_adds_up_to_what_happened() {
    for seed in seeds(60) {
        simulate(seed, Place::Disk(SimDisk::default())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_on_a_server_that_fails_loses_answers_and_is_taken_over() {
    for seed in seeds(40) {
        let server = MemoryServer::new(seed);
        server.set(Troubles {
            refused: 0.05,
            torn: 0.05,
            unanswered: 0.05,
        });
        simulate(seed, Place::Server(server)).await;
    }
}
