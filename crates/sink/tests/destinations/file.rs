//! Files of JSON lines.

use std::{fs, path::Path, sync::Arc};

use serde_json::Value;
use skopos_sink::Destination;
use tempfile::TempDir;

use crate::support::{Known, check_arrived, deliver, event, events, sink, unavailable};

async fn file(dir: &TempDir, options: &str) -> Arc<dyn Destination> {
    let yaml = format!("file: {{path: '{}'{options}}}", dir.path().join("log").display());
    sink(&yaml, &Known::default()).await
}

/// The ids of a file; each line must be whole.
fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let id = |line| {
        serde_json::from_str::<Value>(line).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    text.lines().map(id).collect()
}

#[tokio::test]
async fn file_has_a_line_per_event_and_old_files_are_kept_up_to_a_number() {
    let dir = TempDir::new().unwrap();
    let destination = file(&dir, ", maxBytes: 1000, maxFiles: 2").await;
    let all = events(0..12, 3);
    for event in &all {
        deliver(&*destination, std::slice::from_ref(event)).await;
    }
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["log", "log.1", "log.2"]);
    let mut found = Vec::new();
    for name in ["log.2", "log.1", "log"] {
        let path = dir.path().join(name);
        assert!(fs::metadata(&path).unwrap().len() <= 1000);
        found.extend(ids(&path));
    }
    let expect: Vec<_> = all[all.len() - found.len()..]
        .iter()
        .map(|event| event.id.clone())
        .collect();
    assert_eq!(found, expect);
}

#[tokio::test]
async fn file_that_was_moved_or_deleted_is_made_anew() {
    let dir = TempDir::new().unwrap();
    let destination = file(&dir, "").await;
    let all = events(0..9, 1);
    deliver(&*destination, &all[..3]).await;
    fs::rename(dir.path().join("log"), dir.path().join("moved")).unwrap();
    deliver(&*destination, &all[3..6]).await;
    let mut found = [ids(&dir.path().join("moved")), ids(&dir.path().join("log"))].concat();
    check_arrived(&found, &all[..6]);
    fs::remove_file(dir.path().join("log")).unwrap();
    deliver(&*destination, &all[6..]).await;
    found.extend(ids(&dir.path().join("log")));
    check_arrived(&found, &all);
}

#[tokio::test]
async fn line_that_a_crash_left_half_is_cut_off() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let whole = "{\"id\":\"a/0\"}\n";
    for (left, expect) in [
        (format!("{whole}{{\"id\":\"a/1\",\"da"), vec!["a/0", "a/2"]),
        (format!("{whole}{{\"id\":\"a/1\"}}"), vec!["a/0", "a/1", "a/2"]),
        ("{\"id\":".to_owned(), vec!["a/2"]),
        (
            format!("{whole}{{\"id\":\"{}", "x".repeat(200_000)),
            vec!["a/0", "a/2"],
        ),
    ] {
        fs::write(&path, left).unwrap();
        deliver(&*file(&dir, "").await, &[event(2, "a")]).await;
        assert_eq!(ids(&path), expect);
    }
}

#[tokio::test]
async fn file_of_someone_else_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "root:x:0").unwrap();
    let text = unavailable(&*file(&dir, "").await).await;
    assert!(text.contains("not a file of JSON lines"), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "root:x:0");
}

#[tokio::test]
async fn path_has_one_writer_until_that_is_gone() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (file(&dir, "").await, file(&dir, "").await);
    deliver(&*first, &[event(0, "a")]).await;
    let text = unavailable(&*second).await;
    assert!(text.contains("another writer has it"), "{text}");
    drop(first);
    deliver(&*second, &[event(1, "a")]).await;
    assert_eq!(ids(&dir.path().join("log")), ["a/0", "a/1"]);
}

#[tokio::test]
async fn full_disk_and_missing_directory_are_not_for_ever() {
    let text = unavailable(&*sink("file: {path: /dev/full}", &Known::default()).await).await;
    assert!(
        text.contains("cannot write /dev/full: No space left on device"),
        "{text}"
    );
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("later/log");
    let destination = sink(
        &format!("file: {{path: '{}'}}", path.display()),
        &Known::default(),
    )
    .await;
    let text = unavailable(&*destination).await;
    assert!(text.contains("No such file or directory"), "{text}");
    fs::create_dir(dir.path().join("later")).unwrap();
    deliver(&*destination, &[event(0, "a")]).await;
    assert_eq!(ids(&path), ["a/0"]);
}
