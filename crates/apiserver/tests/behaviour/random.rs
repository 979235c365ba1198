//! Random writers against watches and lists: whatever happens, they tell the same story.
//!
//! Prints its seed; `SEED=n` replays the choices, though not the interleaving of the tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::harness::{Answer, Event, Server, WIDGETS, Watch, version, widget, widgets, with_meta};

const N_ROUNDS: usize = 6;
const N_WRITERS: u64 = 4;
const N_STEPS: usize = 60;
const N_KEYS: u64 = 5;

/// A small random generator (xorshift); good enough to choose from a handful.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 | 1)
}

/// What the answers to all writes say has happened.
#[derive(Debug, Default, PartialEq)]
struct Told {
    /// The versions of objects as they were written.
    written: BTreeSet<u64>,
    n_deleted: usize,
}

impl Told {
    /// A write that changed nothing is answered with the version of the one that made the object so.
    fn record(&mut self, answer: &Answer) {
        let object = &answer.body;
        match answer.code {
            404 | 409 | 422 => {}
            200 | 201 if object["kind"] == "Status" => self.n_deleted += 1,
            200 | 201 => {
                let metadata = &object["metadata"];
                let is_gone =
                    metadata["deletionTimestamp"].is_string() && metadata.get("finalizers").is_none();
                if is_gone {
                    self.n_deleted += 1;
                } else {
                    self.written.insert(version(object));
                }
            }
            code => panic!("{code}: {}", answer.text()),
        }
    }

    fn add(&mut self, other: Told) {
        self.written.extend(other.written);
        self.n_deleted += other.n_deleted;
    }
}

/// One random write.
async fn step(server: &Server, dice: &mut Dice, serial: &AtomicU64) -> Answer {
    let name = format!("w{}", dice.below(N_KEYS));
    let path = format!("{WIDGETS}/{name}");
    let title = format!("t{}", serial.fetch_add(1, Ordering::Relaxed));
    match dice.below(9) {
        0 | 1 => {
            let finalizers = if dice.below(3) == 0 {
                json!(["x.io/y"])
            } else {
                json!([])
            };
            server
                .post(
                    WIDGETS,
                    with_meta(
                        widget(&name, json!({"title": title})),
                        json!({"finalizers": finalizers}),
                    ),
                )
                .await
        }
        2 => {
            let found = server.get(&path).await;
            if found.code != 200 {
                return found;
            }
            let mut object = found.body;
            object["spec"]["title"] = json!(title);
            server.put(&path, &object).await
        }
        3 | 4 => server.merge(&path, json!({"spec": {"title": title}})).await,
        5 => server.merge(&path, json!({"spec": {"size": 7}})).await,
        6 => {
            server
                .merge(&format!("{path}/status"), json!({"status": {"selector": title}}))
                .await
        }
        7 => server.delete(&path).await,
        _ => {
            server
                .merge(&path, json!({"metadata": {"finalizers": null}}))
                .await
        }
    }
}

async fn write(server: Arc<Server>, seed: u64, serial: Arc<AtomicU64>) -> Told {
    let mut dice = Dice(seed);
    let mut told = Told::default();
    for _ in 0..N_STEPS {
        let answer = step(&server, &mut dice, &serial).await;
        told.record(&answer);
        tokio::task::yield_now().await;
    }
    told
}

/// Objects by name.
type State = BTreeMap<String, Value>;

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn state_of(list: &Value) -> State {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (name_of(item), item.clone()))
        .collect()
}

/// Applies an event and checks that it fits what was known.
fn fold(state: &mut State, event: &Event) {
    let name = name_of(&event.object);
    let before = state.get(&name).map(version);
    assert_eq!(
        before.is_some(),
        event.kind != "ADDED",
        "{} of {name}",
        event.kind
    );
    assert!(
        before.unwrap_or(0) < version(&event.object),
        "versions of an object go upwards"
    );
    match event.kind.as_str() {
        "DELETED" => state.remove(&name),
        _ => state.insert(name, event.object.clone()),
    };
}

/// Reads lists while the writers write.
async fn relist(server: Arc<Server>, stop: Arc<tokio::sync::Notify>) -> Vec<Value> {
    let mut lists = Vec::new();
    loop {
        lists.push(server.get(WIDGETS).await.ok());
        tokio::select! {
            () = stop.notified() => return lists,
            () = tokio::task::yield_now() => {}
        }
    }
}

/// One round of writes; returns what the writers were told and the lists read meanwhile.
async fn round(server: &Arc<Server>, dice: &mut Dice, serial: &Arc<AtomicU64>) -> (Told, Vec<Value>) {
    let stop = Arc::new(tokio::sync::Notify::new());
    let lists = tokio::spawn(relist(Arc::clone(server), Arc::clone(&stop)));
    let writers: Vec<_> = (0..N_WRITERS)
        .map(|_| {
            tokio::spawn(write(
                Arc::clone(server),
                dice.below(u64::MAX) | 1,
                Arc::clone(serial),
            ))
        })
        .collect();
    let mut told = Told::default();
    for writer in writers {
        told.add(writer.await.unwrap());
    }
    stop.notify_one();
    (told, lists.await.unwrap())
}

/// Every list must be what the events up to its version make of the state before them.
fn check_lists(state: &State, events: &[Event], mut lists: Vec<Value>) {
    lists.sort_by_key(version);
    let mut state = state.clone();
    let mut events = events.iter().peekable();
    for list in lists {
        while let Some(event) = events.next_if(|event| version(&event.object) <= version(&list)) {
            fold(&mut state, event);
        }
        assert_eq!(state_of(&list), state, "the list at version {}", version(&list));
    }
}

/// Reads events until the one that wrote `last`.
async fn read_until(watch: &mut Watch<'_>, last: &Value) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|event| event.object != *last) {
        let event = watch.next().await;
        assert!(
            events
                .last()
                .is_none_or(|before| version(&before.object) < version(&event.object)),
            "{event:?}"
        );
        events.push(event);
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watches_and_lists_agree_whatever_is_written() {
    let seed = seed();
    #[expect(clippy::print_stderr, reason = "the seed replays the test")]
    let () = eprintln!("SEED={seed}");
    let server = Server::with(|_| {}).await;
    server.install(widgets()).await;
    let server = Arc::new(server);
    let (mut dice, serial) = (Dice(seed), Arc::new(AtomicU64::new(0)));
    let mut watch = server.watch(WIDGETS).await;
    let (mut state, mut told, mut seen) = (State::new(), Told::default(), Told::default());
    told.record(&server.post(WIDGETS, widget("sentinel", json!({}))).await);
    for i in 0..N_ROUNDS {
        let (more, lists) = round(&server, &mut dice, &serial).await;
        told.add(more);
        let last = server
            .merge(
                &format!("{WIDGETS}/sentinel"),
                json!({"spec": {"title": format!("s{i}")}}),
            )
            .await;
        told.record(&last);
        let quiet = server.get(WIDGETS).await.ok();
        let events = read_until(&mut watch, &last.ok()).await;
        check_lists(&state, &events, lists);
        for event in &events {
            fold(&mut state, event);
            match event.kind.as_str() {
                "DELETED" => seen.n_deleted += 1,
                _ => _ = seen.written.insert(version(&event.object)),
            }
        }
        assert_eq!(state, state_of(&quiet), "the folded watch is the list");
        assert_eq!(
            seen, told,
            "every write that was answered is seen, and nothing else"
        );
    }
}
