//! Commands.

use std::{error::Error as _, fs, path::Path, process::Command, sync::Arc, time::Duration};

use serde_json::Value;
use skopos_sink::Destination;
use skopos_testkit::eventually;
use tempfile::TempDir;

use crate::support::{Known, event, refused, sink, unavailable};

async fn script(text: &str, options: &str) -> Arc<dyn Destination> {
    let known = Known::default().with("token", "hunter2");
    sink(&format!("exec: {{command: [sh, -c, '{text}']{options}}}"), &known).await
}

#[tokio::test]
async fn command_gets_the_event_and_no_more_of_our_environment_than_the_path() {
    let dir = TempDir::new().unwrap();
    let options = format!(
        ", dir: '{}', env: {{TOKEN: {{secret: {{name: s, key: token}}}}}}",
        dir.path().display()
    );
    let destination = script("cat > event; env > environment", &options).await;
    let sent = destination.send(&[event(7, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
    let got: Value = serde_json::from_slice(&fs::read(dir.path().join("event")).unwrap()).unwrap();
    assert_eq!((&got["id"], &got["data"]["n"]), (&"a/7".into(), &7.into()));
    let environment = fs::read_to_string(dir.path().join("environment")).unwrap();
    // The shell adds variables of its own.
    let mut names: Vec<_> = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["PATH", "TOKEN"]);
    assert!(!format!("{destination:?}").contains("hunter2"));
}

#[tokio::test]
async fn exit_codes_decide_and_what_was_printed_is_told_in_part_and_without_secrets() {
    let token = ", env: {TOKEN: {secret: {name: s, key: token}}}";
    let text = unavailable(&*script("echo oh no $TOKEN >&2; exit 3", token).await).await;
    assert!(text.contains("exit status: 3; stderr: oh no …"), "{text}");
    let text = refused(&*script("echo bad data; exit 65", "").await, event(0, "a")).await;
    assert!(text.contains("stdout: bad data"), "{text}");
    let text = unavailable(&*script("yes | head -c 1000000; exit 1", "").await).await;
    assert!(text.len() < 10_000, "{}", text.len());
    // What is kept ends within the secret.
    let cut = "head -c 4090 /dev/zero | tr \"\\0\" x; echo $TOKEN; exit 1";
    let text = unavailable(&*script(cut, token).await).await;
    assert!(text.ends_with("xxx…"), "{}", &text[text.len() - 20..]);
    let text = unavailable(&*sink("exec: {command: [no-such-program]}", &Known::default()).await).await;
    assert!(text.contains("cannot start \"no-such-program\""), "{text}");
}

#[tokio::test]
async fn command_that_does_not_read_is_done_when_it_ends() {
    let large = skopos_sink::Event {
        data: vec![b' '; 1 << 20].into(),
        ..event(0, "a")
    };
    let sent = script("exit 0", "").await.send(&[large]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
}

#[tokio::test]
async fn command_that_is_given_up_ends_with_all_it_started() {
    let dir = TempDir::new().unwrap();
    let options = format!(", dir: '{}'", dir.path().display());
    let destination = script("echo $$ > leader; sleep 1000 & echo $! > child; wait", &options).await;
    let pid = dir.path().join("child");
    let events = [event(0, "a")];
    tokio::select! {
        sent = destination.send(&events) => panic!("{sent:?}"),
        () = eventually(async || written(&pid)) => {}
    }
    check_gone(&pid).await;
    check_gone(&dir.path().join("leader")).await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let dir = TempDir::new().unwrap();
    let options = format!(", dir: '{}'", dir.path().display());
    // It holds the output open, which must not keep us waiting.
    let destination = script("sleep 1000 & echo $! > child", &options).await;
    let sent = destination.send(&[event(0, "a")]).await;
    assert!(sent.failure.is_none(), "{sent:?}");
    check_gone(&dir.path().join("child")).await;
}

/// A process that leaves the group is nobody's to kill, and need not end for the command to have ended.
#[tokio::test]
async fn command_is_done_when_it_ends_although_what_left_its_group_holds_the_output() {
    let large = skopos_sink::Event {
        data: vec![b' '; 1 << 20].into(),
        ..event(0, "a")
    };
    for (end, expect) in [
        ("exit 0", None),
        ("echo oh no >&2; exit 3", Some("stderr: oh no")),
    ] {
        let dir = TempDir::new().unwrap();
        let options = format!(", dir: \"{}\"", dir.path().display());
        let leave = r#"setsid sh -c "touch up; exec sleep 1000" & echo $! > child"#;
        let wait = "while ! [ -e up ]; do sleep 0.01; done";
        let destination = script(&format!("{leave}; {wait}; {end}"), &options).await;
        let events = [large.clone()];
        let sent = tokio::time::timeout(Duration::from_secs(120), destination.send(&events)).await;
        let pid = fs::read_to_string(dir.path().join("child")).unwrap();
        Command::new("kill").arg(pid.trim()).status().unwrap();
        let failure = sent.expect("done long before").failure;
        let text = failure.map(|failure| failure.source().unwrap().to_string());
        match expect {
            None => assert_eq!(text, None),
            Some(expect) => assert!(text.as_ref().unwrap().contains(expect), "{text:?}"),
        }
    }
}

fn written(path: &Path) -> Result<(), String> {
    match fs::read_to_string(path) {
        Ok(text) if text.ends_with('\n') => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Waits until the process is gone: neither running nor a zombie of ours.
async fn check_gone(pid: &Path) {
    let pid = fs::read_to_string(pid).unwrap();
    let status = format!("/proc/{}/status", pid.trim());
    eventually(async || match fs::read_to_string(&status) {
        // A child of a child belongs to whoever reaps orphans, which is not ours to wait for.
        Ok(text)
            if text.contains("State:\tZ") && !text.contains(&format!("PPid:\t{}\n", std::process::id())) =>
        {
            Ok(())
        }
        Ok(text) => Err(text),
        Err(_) => Ok(()),
    })
    .await;
}
