//! Files on top of blocks.

use std::collections::BTreeMap;

use skopos_disk::{Disk, write_all};
use skopos_remote::{MemoryServer, Remote, RemoteDisk, Troubles};

use crate::support::{Server, content, on_thread};

/// What should be in the files.
type Model = BTreeMap<String, Vec<u8>>;

fn contents(disk: &dyn Disk) -> Model {
    let names = disk.names().unwrap();
    names
        .into_iter()
        .map(|name| (name.clone(), content(disk, &name)))
        .collect()
}

/// Changes files by chance, all of them synced in the end.
fn play(disk: &RemoteDisk, model: &mut Model, rng: &mut fastrand::Rng, n_steps: u32) {
    for _ in 0..n_steps {
        let name = format!("f{}", rng.u32(..4));
        let known = model.get(&name).map(Vec::len);
        match (rng.u32(..10), known) {
            (0, Some(_)) => {
                disk.remove(&name).unwrap();
                model.remove(&name);
            }
            (1, Some(_)) => {
                disk.rename(&name, "renamed").unwrap();
                let moved = model.remove(&name).unwrap();
                model.insert("renamed".into(), moved);
            }
            (2 | 3, Some(len)) => {
                let kept = rng.usize(..=len);
                let mut file = disk.append(&name).unwrap();
                file.truncate(kept as u64).unwrap();
                file.sync().unwrap();
                model.get_mut(&name).unwrap().truncate(kept);
            }
            (4, _) | (_, None) => {
                disk.create(&name).unwrap().sync().unwrap();
                model.insert(name, Vec::new());
            }
            (_, Some(len)) => {
                let n = rng.usize(..3000);
                let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(1..)).take(n).collect();
                let mut file = disk.append(&name).unwrap();
                write_all(&mut *file, &bytes).unwrap();
                file.sync().unwrap();
                let open = disk.open(&name).unwrap();
                let mut back = vec![0; bytes.len()];
                open.read_exact_at(&mut back, len as u64).unwrap();
                assert_eq!(back, bytes);
                model.get_mut(&name).unwrap().extend(bytes);
            }
        }
    }
    disk.sync_names().unwrap();
}

async fn check_files(server: &Server, seed: u64, n_rounds: u32) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    for round in 0..n_rounds {
        let remote = server.remote().await;
        let disk = remote.disk();
        (model, rng) = on_thread(move || {
            assert_eq!(contents(&disk), model, "seed {seed}, round {round}");
            play(&disk, &mut model, &mut rng, 20);
            assert_eq!(contents(&disk), model, "seed {seed}, round {round}");
            (model, rng)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_memory_are_what_was_written() {
    for seed in skopos_testkit::seeds(50) {
        let server = MemoryServer::new(seed);
        server.set(Troubles {
            refused: 0.05,
            torn: 0.05,
            unanswered: 0.05,
        });
        check_files(&Server::Memory(server), seed, 5).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_postgres_are_what_was_written() {
    check_files(&Server::postgres().await, 1, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_nats_are_what_was_written() {
    check_files(&Server::nats().await, 1, 4).await;
}

/// The server goes away in the middle: whoever writes waits, and nothing is lost.
async fn check_outage(mut server: Server) {
    let remote = server.remote().await;
    let (disk, (told, mut heard)) = (remote.disk(), tokio::sync::mpsc::channel(100));
    let writing = tokio::task::spawn_blocking(move || {
        let mut file = disk.create("f").unwrap();
        for n in 0..200 {
            write_all(&mut *file, format!("{n:050}\n").as_bytes()).unwrap();
            file.sync().unwrap();
            told.blocking_send(n).unwrap();
        }
    });
    while heard.recv().await != Some(20) {}
    server.stop().await;
    // What is written now waits.
    server.start_again().await;
    while heard.recv().await.is_some() {}
    writing.await.unwrap();
    drop(remote);
    let disk = server.remote().await.disk();
    let lines = on_thread(move || String::from_utf8(content(&disk, "f")).unwrap()).await;
    let expect: Vec<String> = (0..200).map(|n| format!("{n:050}")).collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_to_postgres_waits_while_it_is_away() {
    check_outage(Server::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_to_nats_waits_while_it_is_away() {
    check_outage(Server::nats().await).await;
}

fn append(remote: &Remote, text: &'static str) -> impl Future<Output = std::io::Result<()>> + use<> {
    let disk = remote.disk();
    on_thread(move || {
        let mut file = match disk.names()?.is_empty() {
            true => disk.create("f")?,
            false => disk.append("f")?,
        };
        write_all(&mut *file, text.as_bytes())?;
        file.sync()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_was_taken_over_hears_of_it_and_changes_nothing() {
    let server = Server::memory();
    let first = server.remote().await;
    append(&first, "one ").await.unwrap();
    let second = server.remote().await;
    let error = append(&first, "late ").await.unwrap_err().to_string();
    assert!(error.contains("another replica took over"), "{error}");
    assert!(first.lost().await.to_string().contains("another replica"));
    append(&second, "two ").await.unwrap();
    let disk = server.remote().await.disk();
    assert_eq!(on_thread(move || content(&disk, "f")).await, b"one two ");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_ever_once_it_was_given_up() {
    let mut server = Server::memory();
    let remote = server.remote().await;
    append(&remote, "one ").await.unwrap();
    server.stop().await;
    let waiting = tokio::spawn(append(&remote, "two "));
    while !metrics(&remote).contains("skopos_remote_waiting 1") {
        tokio::task::yield_now().await;
    }
    remote.give_up();
    let error = waiting.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("memory did not answer before the end"), "{error}");
    assert!(append(&remote, "three").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_name_any_more_is_removed_when_nobody_reads_it() {
    let memory = MemoryServer::new(1);
    let server = Server::Memory(memory.clone());
    let remote = server.remote().await;
    append(&remote, "one").await.unwrap();
    assert_eq!(memory.n_blocks(), 2);
    let disk = remote.disk();
    on_thread(move || {
        let reader = disk.open("f").unwrap();
        disk.remove("f").unwrap();
        disk.sync_names().unwrap();
        let mut bytes = [0; 3];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"one");
        drop(reader);
        disk.create("g").unwrap().sync().unwrap();
    })
    .await;
    assert_eq!(memory.n_blocks(), 1);
}

fn metrics(remote: &Remote) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    remote.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_those_of_the_page() {
    let page = include_str!("../../../../docs/guide/metrics.md");
    let text = metrics(&Server::memory().remote().await);
    let exported: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("| `{name}_total` | counter |"),
            (name, other) => format!("| `{name}` | {other} |"),
        })
        .collect();
    let documented: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `skopos_remote_"))
        .collect();
    assert_eq!(exported.len(), documented.len());
    for row in exported {
        assert!(documented.iter().any(|line| line.starts_with(&row)), "{row}");
    }
}
