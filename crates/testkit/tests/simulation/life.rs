//! One life: what happens to the server and to its subscribers, drawn from a seed.

use std::collections::BTreeSet;
use std::time::Duration;

use skopos_informer::{Compression, Index, IndexReader, Informer, InformerConfig, ReflectorConfig};
use skopos_object::{LabelSelector, ObjectKey, ResourceVersion};
use skopos_testkit::{Data, Rule};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::faults::{read_fault, write_fault};
use super::onlookers::Onlooker;
use super::tempo::Tempo;
use super::truth::{Truth, compare, truth};
use super::world::{NAMESPACES, World};

const NAMES: [&str; 8] = ["ada", "ben", "cleo", "dan", "eve", "fay", "gus", "hal"];
const COLORS: [&str; 3] = ["red", "green", "blue"];
/// How many objects there may be whose names the server gave.
const MADE: usize = 4;
const N_KEYS: usize = NAMES.len() * NAMESPACES.len() + MADE;

pub(crate) struct Life {
    rng: fastrand::Rng,
    tempo: Tempo,
    world: World,
    informer: Informer,
    indexes: Vec<(&'static str, IndexReader)>,
    /// Whether lists are read from the beginning of a watch.
    streams: bool,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    onlookers: Vec<Onlooker>,
    n_onlookers: usize,
    n_writes: u64,
    /// The version of the last write.
    version: u64,
    /// Everything that gives reason for requests.
    n_disturbances: u64,
    begun: Instant,
}

impl Life {
    pub(crate) async fn begin(seed: u64, tempo: Tempo, world: World) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let config = InformerConfig {
            reflector: ReflectorConfig {
                page_size: rng.usize(1..6),
                initial_events: rng.bool(),
                seed: Some(seed),
                ..tempo.reflector()
            },
            compression: if rng.bool() {
                Compression::Lz4
            } else {
                Compression::None
            },
            resync: rng
                .bool()
                .then(|| tempo.of(Duration::from_secs(rng.u64(20..200)))),
            ..InformerConfig::default()
        };
        let streams = config.reflector.initial_events;
        let informer = Informer::new("widgets", config);
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (informer, source, stop) = (informer.clone(), world.source(), stop.clone());
            async move { informer.run(source, stop).await }
        });
        let mut life = Self {
            indexes: vec![
                ("namespace", informer.store().add_index(Index::namespace())),
                ("color", informer.store().add_index(Index::label("color"))),
            ],
            rng,
            tempo,
            world,
            informer,
            streams,
            stop,
            running,
            onlookers: Vec::new(),
            n_onlookers: 0,
            n_writes: 0,
            version: 0,
            n_disturbances: 0,
            begun: Instant::now(),
        };
        life.subscribe(Duration::ZERO);
        life.subscribe(Duration::from_secs(3));
        life.change_faults();
        life.put().await;
        life
    }

    /// Lives on for so many steps; the last is a quiet point.
    pub(crate) async fn live(mut self, n_steps: usize) -> Result<(), String> {
        for _ in 0..n_steps {
            self.step().await?;
        }
        self.quiet().await?;
        self.stop.cancel();
        self.running.await.map_err(|error| error.to_string())
    }

    async fn step(&mut self) -> Result<(), String> {
        match self.rng.u32(0..100) {
            0..32 => self.put().await,
            32..35 => self.make().await?,
            35..50 => {
                let key = self.key();
                self.world.delete(&key).await;
            }
            50..57 => {
                let key = self.key();
                self.world.delete(&key).await;
                self.put_at(&key).await;
            }
            57..61 => {
                self.n_disturbances += 1;
                self.world.compact();
            }
            61..65 => {
                self.n_disturbances += 1;
                self.world.faults().cut_open_streams();
            }
            65..68 => self.restart(Data::Kept).await,
            68..69 => self.restart(Data::Lost).await,
            69..71 => self.away().await,
            71..74 => self.change_faults(),
            74..77 => {
                let pace = Duration::from_millis(self.rng.u64(0..5_000));
                self.subscribe(pace);
            }
            77..79 => self.leave()?,
            79..96 => self.wait().await,
            _ => self.quiet().await?,
        }
        Ok(())
    }

    fn key(&mut self) -> ObjectKey {
        let (namespace, name) = (self.rng.choice(NAMESPACES), self.rng.choice(NAMES));
        ObjectKey::namespaced(namespace.unwrap(), name.unwrap())
    }

    async fn put(&mut self) {
        let key = self.key();
        self.put_at(&key).await;
    }

    async fn put_at(&mut self, key: &ObjectKey) {
        self.n_writes += 1;
        let color = self.rng.choice(COLORS).unwrap();
        self.version = self.world.put(key, color, self.n_writes).await;
    }

    /// Has the server name an object, after room was made for it.
    async fn make(&mut self) -> Result<(), String> {
        let objects = self.world.objects().await;
        let made: Vec<_> = objects
            .keys()
            .filter(|key| key.name.starts_with("made-"))
            .collect();
        if made.len() >= MADE {
            self.world.delete(made[0]).await;
        }
        self.n_writes += 1;
        let color = self.rng.choice(COLORS).unwrap();
        let namespace = self.rng.choice(NAMESPACES).unwrap();
        self.world.make(namespace, color, self.n_writes).await
    }

    async fn restart(&mut self, data: Data) {
        self.n_disturbances += 1;
        self.world.restart(data).await;
        if data == Data::Lost {
            // The new history may be as long as the one before when the informer first sees it, or longer.
            for _ in 0..self.rng.usize(1..30) {
                self.put().await;
            }
        }
    }

    async fn away(&mut self) {
        self.n_disturbances += 1;
        self.world.faults().go_away();
        let writes_meanwhile = self.rng.u32(0..4);
        for _ in 0..writes_meanwhile {
            self.put().await;
        }
        let time = Duration::from_secs(self.rng.u64(1..900));
        sleep(self.tempo.of(time)).await;
        self.world.faults().come_back();
    }

    async fn wait(&mut self) {
        let time = match self.rng.u32(0..10) {
            0..4 => Duration::ZERO,
            4..7 => Duration::from_millis(self.rng.u64(1..2_000)),
            7..9 => Duration::from_secs(self.rng.u64(1..90)),
            _ => Duration::from_secs(self.rng.u64(60..900)),
        };
        match time.is_zero() {
            true => tokio::task::yield_now().await,
            false => sleep(self.tempo.of(time)).await,
        }
    }

    fn subscribe(&mut self, pace: Duration) {
        self.n_onlookers += 1;
        let name = format!(
            "subscriber {} ({} ms a change)",
            self.n_onlookers,
            pace.as_millis()
        );
        let onlooker = Onlooker::new(name, &self.informer, self.tempo.of(pace), N_KEYS);
        self.onlookers.push(onlooker);
    }

    fn leave(&mut self) -> Result<(), String> {
        let gone = self.rng.usize(0..self.onlookers.len());
        self.onlookers.swap_remove(gone).is_sound()?;
        if self.onlookers.is_empty() {
            self.subscribe(Duration::ZERO);
        }
        Ok(())
    }

    /// Draws new rules.
    fn change_faults(&mut self) {
        self.n_disturbances += self.world.faults().injected();
        self.world.faults().clear();
        for _ in 0..self.rng.u32(0..5) {
            let fault = read_fault(&mut self.rng, self.tempo, self.streams);
            let chance = self.chance();
            let rule = match self.rng.u32(0..3) {
                0 => Rule::list(),
                1 => Rule::watch(),
                _ => Rule::any(),
            };
            self.world.faults().add(rule.with_chance(chance).then(fault));
        }
        let Some(faults) = self.world.write_faults().cloned() else {
            return;
        };
        faults.clear();
        for _ in 0..self.rng.u32(0..3) {
            let (fault, chance) = (write_fault(&mut self.rng, self.tempo), self.chance());
            faults.add(Rule::any().with_chance(chance).then(fault));
        }
    }

    fn chance(&mut self) -> f64 {
        [0.1, 0.3, 0.7][self.rng.usize(0..3)]
    }

    /// Lets everything come to rest, and compares.
    async fn quiet(&mut self) -> Result<(), String> {
        self.pause_faults();
        self.come_to_rest().await?;
        self.heal_unread().await?;
        self.check_indexes().await?;
        self.check_own_write().await?;
        self.check_requests()?;
        self.resume_faults();
        Ok(())
    }

    fn pause_faults(&self) {
        self.world.faults().pause();
        if let Some(faults) = self.world.write_faults() {
            faults.pause();
        }
    }

    fn resume_faults(&self) {
        self.world.faults().resume();
        if let Some(faults) = self.world.write_faults() {
            faults.resume();
        }
    }

    /// Waits until cache and subscribers show what is there, but for what could not be read.
    async fn come_to_rest(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.tempo.rest();
        loop {
            let Err(problem) = self.is_in_step().await else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(format!("{problem}\n{:#?}", self.informer.report()));
            }
            sleep(self.tempo.of(Duration::from_secs(5))).await;
        }
    }

    async fn is_in_step(&self) -> Result<(), String> {
        if !self.informer.has_synced() {
            return Err("the informer has no list yet".to_owned());
        }
        let unread: BTreeSet<ObjectKey> = self.informer.report().quarantined.into_keys().collect();
        let without_unread = |mut truth: Truth| {
            truth.retain(|key, _| !unread.contains(key));
            truth
        };
        let objects = self.world.objects().await;
        let server = without_unread(truth(objects.values()));
        let listed = self.informer.store().list();
        compare("list", &server, &without_unread(truth(&listed)))?;
        for key in objects.keys().filter(|key| !unread.contains(*key)) {
            let got = self.informer.store().get_key(key);
            let only = |truth: &Truth| truth.iter().filter(|(k, _)| *k == key).map(pair).collect();
            compare("get", &only(&server), &truth(&got))?;
        }
        for onlooker in self.onlookers.iter().filter(|_| unread.is_empty()) {
            onlooker.is_up_to_date(&server)?;
        }
        self.onlookers.iter().try_for_each(Onlooker::is_sound)
    }

    /// Writes what could not be read once more: then it can, unless a watch that was opened before spoils it again.
    async fn heal_unread(&mut self) -> Result<(), String> {
        const TRIES: usize = 4;
        const HEALING: Duration = Duration::from_secs(10 * 60);
        for _ in 0..TRIES {
            let unread = self.informer.report().quarantined;
            if unread.is_empty() {
                return self.come_to_rest().await;
            }
            for key in unread.keys() {
                self.put_at(key).await;
            }
            sleep(self.tempo.of(HEALING)).await;
        }
        let report = self.informer.report();
        Err(format!("still set aside, though it can be read\n{report:#?}"))
    }

    async fn check_indexes(&self) -> Result<(), String> {
        let objects = self.world.objects().await;
        for (name, reader) in &self.indexes {
            let values: &[&str] = if *name == "color" { &COLORS } else { &NAMESPACES };
            let value_of = |object: &skopos_object::Object| match *name {
                "color" => object.label("color").unwrap_or_default().into_owned(),
                _ => object.namespace().to_owned(),
            };
            for value in values {
                let chosen = objects.values().filter(|object| value_of(object) == *value);
                let expected = truth(chosen);
                let what = format!("index {name}={value}");
                compare(&what, &expected, &truth(&reader.get(value)))?;
                let counted = reader.values().into_iter().find(|(v, _)| v == value);
                if counted.map_or(0, |(_, n)| n) != expected.len() {
                    return Err(format!("{what} does not count {}", expected.len()));
                }
            }
        }
        let red = LabelSelector::parse("color=red").unwrap();
        let expected = truth(objects.values().filter(|object| object.is_selected_by(&red)));
        compare("selector", &expected, &truth(&self.informer.store().select(&red)))
    }

    /// What was just written can be waited for, and is there then.
    async fn check_own_write(&mut self) -> Result<(), String> {
        let key = self.key();
        self.put_at(&key).await;
        let version = ResourceVersion::from(self.version);
        match timeout(self.tempo.rest(), self.informer.seen(&version)).await {
            Ok(Ok(())) => {}
            Ok(Err(stopped)) => return Err(stopped.to_string()),
            Err(_) => return Err(format!("own write {version} was never seen")),
        }
        let there = self.informer.store().get_key(&key);
        let is_there = there.is_some_and(|object| object.resource_version() == version);
        // A watch that was opened before may still spoil it: then it is said to be set aside.
        if is_there || self.informer.report().quarantined.contains_key(&key) {
            return self.heal_unread().await;
        }
        let report = self.informer.report();
        Err(format!(
            "own write {version} of {key} was seen, but is not there\n{report:#?}"
        ))
    }

    /// Requests come from the passing of time and from disturbances, and are bounded by both.
    fn check_requests(&self) -> Result<(), String> {
        let requests = self.world.faults().requests();
        let disturbances = self.n_disturbances + self.world.faults().injected();
        // While a server is away it is asked every 30 to 60 s, and watches end every 5 to 10 minutes; a list of
        // all keys in pages of one object takes as many requests as there are keys.
        let half_minute = self.tempo.of(Duration::from_secs(30));
        let time = (self.begun.elapsed().as_millis() / half_minute.as_millis()) as u64;
        let bound = 40 + time + disturbances * (4 + N_KEYS as u64);
        match requests <= bound {
            true => Ok(()),
            false => Err(format!(
                "{requests} requests for {disturbances} disturbances in {time} half minutes"
            )),
        }
    }
}

fn pair((key, told): (&ObjectKey, &String)) -> (ObjectKey, String) {
    (key.clone(), told.clone())
}
