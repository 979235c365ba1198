//! PostgreSQL.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use rustix::process::{Signal, geteuid};
use tokio::process::Command;

use super::{
    Issued, USER,
    service::{Service, find, free_port},
};

/// A PostgreSQL server whose only user is [`USER`], with a database of the same name `postgres`.
#[derive(Debug)]
pub struct Postgres {
    service: Service,
    bin: PathBuf,
    port: u16,
}

impl Postgres {
    /// Makes a database and starts a server, with TLS if it gets a certificate.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start(tls: Option<&Issued>) -> Self {
        let bin = find("PostgreSQL", &programs())
            .parent()
            .expect("a file in a directory")
            .to_owned();
        let service = Service::new("postgres", "database system is ready to accept connections");
        let mut postgres = Self {
            service,
            bin,
            port: free_port(),
        };
        postgres.initialize(tls).await;
        postgres.start_again().await;
        postgres
    }

    async fn initialize(&self, tls: Option<&Issued>) {
        let dir = self.service.dir();
        let mut files = vec![dir.to_owned(), self.service.write("password", USER.1)];
        if let Some(issued) = tls {
            files.push(self.service.write("cert.pem", &issued.cert));
            files.push(self.service.write("key.pem", &issued.key));
        }
        let owner = owner();
        for file in &files[1..] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("our own file");
        }
        for file in &files {
            if let Some((uid, gid)) = owner {
                chown(file, Some(uid), Some(gid)).expect("root may give files away");
            }
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
        let output = command.output().await.expect("initdb can be started");
        assert!(
            output.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops the server.
    pub async fn stop(&mut self) {
        self.service.stop(Signal::INT).await;
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
        for setting in settings {
            command.args(["-c", &setting]);
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
