//! `kill -9` under sixteen writers, again and again on one directory: what was acknowledged is there, nothing
//! is half there, revisions go on upwards, and a watch from before the crash resumes exactly or is refused.
//!
//! The test runs its own binary as the process to be killed. What a writer does is a pure function of seed,
//! writer and step, so that the outcome can be computed: after a kill each writer's keys are as after its last
//! acknowledged step, or as after the one that was in flight.
//!
//! `SKOPOS_KILL_SEED=<n>` replays one seed, `SKOPOS_KILL_ROUNDS=<n>` sets the kills per seed.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    hash::{BuildHasher, RandomState},
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use skopos_store::{
    Config, EventOp, Expect, History, Op, Range, Revision, Store, Template, Write, WriteError,
};

const WRITERS: u64 = 16;
const SPACE: &str = "core/configmaps";
const CHILD: &str = "SKOPOS_KILL_CHILD";

type Content = BTreeMap<String, String>;

#[test]
fn acknowledged_writes_survive_kill_9() {
    let seeds = match env::var("SKOPOS_KILL_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..2)
            .map(|i| RandomState::new().hash_one(i) % 1_000_000)
            .collect(),
    };
    let rounds = env::var("SKOPOS_KILL_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    for seed in seeds {
        let dir = tempfile::tempdir().unwrap();
        let mut trial = Trial {
            seed,
            steps: [0; WRITERS as usize],
            counter: 0,
            revision: Revision(1),
        };
        for round in 0..rounds {
            let acknowledged = trial.run_and_kill(dir.path(), round);
            trial.check(dir.path(), &acknowledged);
        }
    }
}

/// The process that is killed. Does nothing when the tests are run as usual.
#[test]
fn writers_until_killed() {
    let Ok(setup) = env::var(CHILD) else { return };
    let mut setup = setup.split(';');
    let dir = setup.next().unwrap().to_owned();
    let numbers: Vec<u64> = setup.map(|number| number.parse().unwrap()).collect();
    let store = Store::open(config(Path::new(&dir))).unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, seed, done) = (store.clone(), numbers[0], numbers[1 + writer as usize]);
            scope.spawn(move || run(write_for_ever(&store, seed, writer, done)));
        }
    });
}

/// Small bounds, so that kills also hit snapshots and the change of log files.
fn config(dir: &Path) -> Config {
    let history = History {
        max_events: 2_000,
        ..History::default()
    };
    Config {
        dir: Some(dir.to_owned()),
        history,
        snapshot_after_bytes: 400_000,
        segment_bytes: 100_000,
        ..Config::default()
    }
}

/// What a writer does in one step.
struct Step {
    key: String,
    /// `None` deletes.
    value: Option<String>,
}

fn step(seed: u64, writer: u64, n: u64) -> Step {
    let dice = mix(seed ^ (writer << 48) ^ n);
    let key = format!("w{writer:02}/{}", dice % 7);
    let letter = char::from(b'a' + (dice >> 40) as u8 % 26);
    let text = || {
        format!(
            "{writer}:{n}:{}",
            letter.to_string().repeat((dice >> 16) as usize % 3_000)
        )
    };
    Step {
        key,
        value: (dice >> 8 & 7 != 0).then(text),
    }
}

async fn write_for_ever(store: &Store, seed: u64, writer: u64, done: u64) {
    for n in done + 1.. {
        let Step { key, value } = step(seed, writer, n);
        let op = match value {
            Some(value) => Op::Put(Template::plain(value.into_bytes())),
            None => Op::Delete {
                tombstone: Template::plain(&b"gone"[..]),
            },
        };
        let outcome = store
            .write(Write {
                space: SPACE.into(),
                key,
                expect: Expect::Any,
                op,
            })
            .await;
        match outcome {
            Ok(entry) => say(format_args!("write {writer} {n} {}", entry.modified)),
            // There was nothing to delete.
            Err(WriteError::Conflict { current: None }) => say(format_args!("write {writer} {n} 0")),
            Err(error) => panic!("{error}"),
        }
        if n % 8 == 0 {
            count_up(store).await;
        }
    }
}

/// Adds one to a counter that all writers share, if nobody else does at the same time.
async fn count_up(store: &Store) {
    let current = store.get("core/counters", "shared");
    let number = current
        .as_ref()
        .map_or(0, |e| str::from_utf8(&e.value).unwrap().parse::<u64>().unwrap());
    let expect = current.map_or(Expect::Absent, |entry| Expect::At(entry.modified));
    let op = Op::Put(Template::plain((number + 1).to_string().into_bytes()));
    let write = Write {
        space: "core/counters".into(),
        key: "shared".into(),
        expect,
        op,
    };
    match store.write(write).await {
        Ok(entry) => say(format_args!("count {} 0 {}", number + 1, entry.modified)),
        Err(WriteError::Conflict { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Tells the parent, in one piece.
fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

struct Trial {
    seed: u64,
    /// How many steps of each writer are in the store.
    steps: [u64; WRITERS as usize],
    counter: u64,
    revision: Revision,
}

struct Acknowledged {
    steps: [u64; WRITERS as usize],
    counts: BTreeSet<u64>,
    revisions: BTreeSet<u64>,
}

impl Trial {
    fn run_and_kill(&self, dir: &Path, round: u64) -> Acknowledged {
        let steps: Vec<_> = self.steps.iter().map(u64::to_string).collect();
        let setup = format!("{};{};{}", dir.display(), self.seed, steps.join(";"));
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "writers_until_killed", "--nocapture"])
            .env(CHILD, setup)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut seen = Acknowledged {
            steps: self.steps,
            counts: BTreeSet::new(),
            revisions: BTreeSet::new(),
        };
        let kill_after = mix(self.seed ^ round << 32) % 1_500;
        let mut lines = 0;
        // What was said before the kill counts, also if it is read after it.
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            self.note(&line.unwrap(), &mut seen);
            lines += 1;
            if lines == kill_after.max(1) {
                child.kill().unwrap();
            }
        }
        assert!(
            !child.wait().unwrap().success(),
            "seed {}: the child ended by itself",
            self.seed
        );
        seen
    }

    fn note(&self, line: &str, seen: &mut Acknowledged) {
        let words: Vec<_> = line.split(' ').collect();
        let [kind @ ("write" | "count"), a, b, revision] = words[..] else {
            return;
        };
        let [a, b, revision] = [a, b, revision].map(|number| number.parse::<u64>().unwrap());
        if kind == "write" {
            assert_eq!(b, seen.steps[a as usize] + 1);
            seen.steps[a as usize] = b;
        } else {
            assert!(
                seen.counts.insert(a),
                "seed {}: an update of the counter was lost",
                self.seed
            );
        }
        if revision > 0 {
            assert!(
                revision > self.revision.0,
                "seed {}: revision {revision} used again",
                self.seed
            );
            assert!(
                seen.revisions.insert(revision),
                "seed {}: revision {revision} given twice",
                self.seed
            );
        }
    }

    /// Opens the directory in this process and compares.
    fn check(&mut self, dir: &Path, acknowledged: &Acknowledged) {
        let seed = self.seed;
        let before = self.revision;
        let store = Store::open(config(dir)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(
            store.revision().0 >= acknowledged.revisions.last().copied().unwrap_or(1),
            "seed {seed}"
        );
        let old: Content = (0..WRITERS).flat_map(|writer| self.expected(writer)).collect();
        for writer in 0..WRITERS {
            self.check_writer(&store, writer, acknowledged.steps[writer as usize]);
        }
        let counter = store.get("core/counters", "shared");
        let counter = counter.map_or(0, |e| str::from_utf8(&e.value).unwrap().parse().unwrap());
        assert!(
            counter >= acknowledged.counts.last().copied().unwrap_or(0).max(self.counter),
            "seed {seed}"
        );
        check_watch(&store, before, old, seed);
        self.counter = counter;
        self.revision = store.revision();
        run(store.close());
    }

    fn check_writer(&mut self, store: &Store, writer: u64, acknowledged: u64) {
        let found = content(store, &format!("w{writer:02}/"));
        self.steps[writer as usize] = acknowledged;
        if found == self.expected(writer) {
            return;
        }
        // The step that was in flight may be there, but then all of it.
        self.steps[writer as usize] = acknowledged + 1;
        let seed = self.seed;
        assert!(
            found == self.expected(writer),
            "seed {seed}: writer {writer} after step {acknowledged}"
        );
    }

    fn expected(&self, writer: u64) -> Content {
        let mut content = Content::new();
        for n in 1..=self.steps[writer as usize] {
            let Step { key, value } = step(self.seed, writer, n);
            match value {
                Some(value) => drop(content.insert(key, value)),
                None => drop(content.remove(&key)),
            }
        }
        content
    }
}

/// A client that knew everything up to `from` resumes and ends up with what is there now, or is refused.
fn check_watch(store: &Store, from: Revision, mut content_at: Content, seed: u64) {
    let Ok(mut watcher) = store.watch(SPACE, "", from) else {
        return;
    };
    let mut last = from;
    while watcher.progress() < store.revision() || last == from {
        let events = watcher.take().unwrap();
        if events.is_empty() {
            break;
        }
        for event in events {
            assert!(event.revision() > last, "seed {seed}");
            last = event.revision();
            let key = event.entry.key.to_string();
            match event.op {
                EventOp::Put => {
                    drop(content_at.insert(key, String::from_utf8(event.entry.value.to_vec()).unwrap()));
                }
                EventOp::Delete => drop(content_at.remove(&key)),
            }
        }
    }
    assert!(
        content_at == content(store, ""),
        "seed {seed}: the watch from {from} missed something"
    );
}

fn content(store: &Store, prefix: &str) -> Content {
    let range = Range {
        prefix: prefix.into(),
        ..Range::default()
    };
    let items = store.list(SPACE, &range).unwrap().items;
    items
        .iter()
        .map(|e| (e.key.to_string(), String::from_utf8(e.value.to_vec()).unwrap()))
        .collect()
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// SplitMix64: enough chance for a test, and the same on every machine.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
