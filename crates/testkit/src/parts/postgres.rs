//! PostgreSQL.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use rustix::process::{Signal, geteuid};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{
    Issued, USER,
    service::{EVERY, PATIENCE, Service, find, free_port},
};

/// A PostgreSQL server whose only user is [`USER`], with a database of the same name `postgres`.
#[derive(Debug)]
pub struct Postgres {
    service: Service,
    bin: PathBuf,
    port: u16,
    /// Beside those that every server has.
    settings: Vec<String>,
}

impl Postgres {
    /// Makes a database and starts a server, with TLS if it gets a certificate.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start(tls: Option<&Issued>) -> Self {
        Self::start_with(tls, &[]).await
    }

    /// The same with settings, such as `synchronous_standby_names=*`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(tls: Option<&Issued>, settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        let mut postgres = Self::new(settings.collect());
        postgres.initialize(tls).await;
        postgres.start_again().await;
        postgres
    }

    /// Copies this server and starts the copy as a standby that follows it.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_standby(&self) -> Self {
        let mut standby = Self::new(Vec::new());
        let dir = standby.service.dir();
        own(dir);
        let mut command = standby.command("pg_basebackup");
        command
            .env("PGPASSWORD", USER.1)
            .args(["--host=127.0.0.1", "--username", USER.0])
            .arg(format!("--port={}", self.port))
            .args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf"])
            .arg("--pgdata")
            .arg(dir.join("data"));
        succeed("pg_basebackup", command).await;
        standby.start_again().await;
        standby
    }

    fn new(settings: Vec<String>) -> Self {
        let bin = find("PostgreSQL", &programs())
            .parent()
            .expect("a file in a directory")
            .to_owned();
        Self {
            // Of a standby it says “read-only connections”.
            service: Service::new("postgres", "database system is ready to accept"),
            bin,
            port: free_port(),
            settings,
        }
    }

    async fn initialize(&self, tls: Option<&Issued>) {
        let dir = self.service.dir();
        let mut files = vec![dir.to_owned(), self.service.write("password", USER.1)];
        if let Some(issued) = tls {
            files.push(self.service.write("cert.pem", &issued.cert));
            files.push(self.service.write("key.pem", &issued.key));
        }
        for file in &files[1..] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("our own file");
        }
        for file in &files {
            own(file);
        }
        let mut command = self.command("initdb");
        command
            .args([
                "--auth=scram-sha-256",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
                "--username",
                USER.0,
            ])
            .arg("--pwfile")
            .arg(dir.join("password"))
            .arg(dir.join("data"));
        succeed("initdb", command).await;
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops the server.
    pub async fn stop(&mut self) {
        self.service.stop(Signal::INT).await;
    }

    /// Kills the server: nothing is finished.
    pub async fn kill(&mut self) {
        self.service.stop(Signal::KILL).await;
    }

    /// Waits until a standby has all that its primary wrote so far.
    ///
    /// # Panics
    /// If one of them does not answer, or it never has all.
    pub async fn catch_up_with(&self, primary: &Self) {
        let written = primary.ask("select pg_current_wal_lsn()").await;
        let question = format!("select pg_last_wal_replay_lsn() >= '{written}'");
        let deadline = Instant::now() + PATIENCE;
        while self.ask(&question).await != "t" {
            assert!(Instant::now() < deadline, "the standby never came to {written}");
            sleep(EVERY).await;
        }
    }

    async fn ask(&self, question: &str) -> String {
        let mut command = self.command("psql");
        command
            .env("PGPASSWORD", USER.1)
            .args(["--host=127.0.0.1", "--dbname=postgres", "--username", USER.0])
            .arg(format!("--port={}", self.port))
            .args([
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--command",
                question,
            ]);
        succeed("psql", command).await
    }

    /// Makes a standby a primary, and waits until it is.
    ///
    /// # Panics
    /// If it is none.
    pub async fn promote(&self) {
        let mut command = self.command("pg_ctl");
        command
            .args(["promote", "--wait", "--pgdata"])
            .arg(self.service.dir().join("data"));
        succeed("pg_ctl promote", command).await;
    }

    /// Starts it again with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_again(&mut self) {
        let dir = self.service.dir();
        let mut command = self.command("postgres");
        command.arg("-D").arg(dir.join("data")).arg("-k").arg(dir);
        let mut settings = vec![
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            "fsync=off".to_owned(),
        ];
        if dir.join("cert.pem").is_file() {
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", dir.join("cert.pem").display()));
            settings.push(format!("ssl_key_file={}", dir.join("key.pem").display()));
        }
        for setting in settings.iter().chain(&self.settings) {
            command.args(["-c", setting]);
        }
        self.service.start(command).await;
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(self.service.dir());
        if let Some((uid, gid)) = owner() {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// Runs a program to its end, and returns what it said.
async fn succeed(name: &str, mut command: Command) -> String {
    let output = command.output().await.expect("a program of the package");
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Gives a file to whom the server runs as.
fn own(file: &Path) {
    if let Some((uid, gid)) = owner() {
        chown(file, Some(uid), Some(gid)).expect("root may give files away");
    }
}

/// Whom the server runs as, if not as we do: it refuses to be root.
fn owner() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let home = fs::metadata("/var/lib/postgresql").expect("the home of the user that the package makes");
    Some((home.uid(), home.gid()))
}

/// Where each version has its programs, the newest first.
fn programs() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut homes: Vec<_> = versions.map(|entry| entry.path()).collect();
    homes.sort_by_key(|home| std::cmp::Reverse(version(home)));
    homes.into_iter().map(|home| home.join("bin/initdb")).collect()
}

fn version(home: &Path) -> u32 {
    let name = home.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}
