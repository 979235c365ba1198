//! A host that is gone from one moment to the next: no more packets, no goodbye. It lives in a network namespace of its
//! own behind a cable that is pulled, which only root can make; the kernel's own clock decides when it is given up.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::{Running, skopos};

/// A peer is asked after 30 s of silence, and again each 10 s, three times.
const NOTICED: Duration = Duration::from_secs(90);

/// Another host, and the cable to it. Both are gone at the end.
struct Host {
    name: String,
    ours: String,
    theirs: String,
    address: String,
}

impl Host {
    /// Nothing if it cannot be made here.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let host = Self {
            name: format!("skopos-{id}"),
            ours: format!("sko{id}"),
            theirs: format!("skp{id}"),
            // Of the range for tests of devices; nothing else uses it.
            address: format!("198.18.{}.2", id % 256),
        };
        let Self {
            name,
            ours,
            theirs,
            address,
        } = &host;
        let gateway = format!("198.18.{}.1/30", id % 256);
        let made = ip(&["netns", "add", name])
            && ip(&["link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name])
            // Over this it reaches itself, with the cable or without.
            && ip(&["-n", name, "link", "set", "lo", "up"])
            && ip(&["addr", "add", &gateway, "dev", ours])
            && ip(&["link", "set", ours, "up"])
            && ip(&["-n", name, "addr", "add", &format!("{address}/30"), "dev", theirs])
            && ip(&["-n", name, "link", "set", theirs, "up"]);
        made.then_some(host)
    }

    /// A command that runs there.
    fn skopos(&self, dir: &Path) -> Command {
        let ours = skopos(dir);
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.name]).arg(ours.get_program());
        there.current_dir(dir).env("HOME", dir).env("NO_COLOR", "1");
        there
    }

    fn cable(&self, state: &str) {
        assert!(ip(&["-n", &self.name, "link", "set", &self.theirs, state]));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        ip(&["link", "del", &self.ours]);
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(args: &[&str]) -> bool {
    let done = Command::new("ip").args(args).output();
    done.is_ok_and(|done| done.status.success())
}

/// Starts an API server on the host, and returns it with the kubeconfig that reaches it.
fn serve(host: &Host, dir: &Path) -> Running {
    let mut serve = host.skopos(dir);
    serve.args([
        "apiserver",
        "--bind-address",
        &host.address,
        "--secure-port",
        "7443",
    ]);
    serve.args(["--data-dir", "data", "--kubeconfig", "kubeconfig"]);
    let server = Running::start(&mut serve);
    server.lines.find("is ready");
    server
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n")
}

#[test]
#[ignore = "takes more than a minute, by the kernel's clock"]
#[expect(
    clippy::print_stderr,
    reason = "who runs the tests should know what was left out, and how long it took"
)]
fn a_host_that_vanishes_is_given_up_and_nothing_is_missed_when_it_is_back() {
    let Some(host) = Host::new() else {
        eprintln!("skipped: only root can make a network namespace");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let _server = serve(&host, dir.path());
    let kubeconfig = ["--kubeconfig", "kubeconfig"];
    let mut watch = skopos(dir.path());
    watch
        .args(["watch", "configmaps", "-n", "default", "-o", "json"])
        .args(kubeconfig);
    let watcher = Running::start(&mut watch);
    watcher.errors.find("watching");

    let apply = |name: &str, there: bool| {
        std::fs::write(dir.path().join("map.yaml"), map(name)).unwrap();
        let mut command = if there {
            host.skopos(dir.path())
        } else {
            skopos(dir.path())
        };
        let done = command
            .args(["apply", "-f", "map.yaml"])
            .args(kubeconfig)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    apply("before", false);
    watcher.lines.find("before");

    host.cable("down");
    let begun = std::time::Instant::now();
    apply("meanwhile", true);
    let told = watcher.errors.next_within(NOTICED);
    assert!(told.contains("trying again"), "{told}");
    eprintln!("noticed after {:?}: {told}", begun.elapsed());

    host.cable("up");
    watcher.lines.find("meanwhile");
}
