//! NATS with JetStream.

use std::path::PathBuf;

use rustix::process::Signal;
use tokio::process::Command;

use super::{
    Issued, USER,
    service::{Service, find, free_port},
};

/// A NATS server with JetStream, which wants the [`USER`].
#[derive(Debug)]
pub struct Nats {
    service: Service,
    name: String,
    port: u16,
}

impl Nats {
    /// Starts a server, with TLS if it gets a certificate.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start(tls: Option<&Issued>) -> Self {
        let nats = Self::new("alone".to_owned());
        let mut config = String::new();
        if let Some(issued) = tls {
            let (cert, key) = (
                nats.service.write("cert.pem", &issued.cert),
                nats.service.write("key.pem", &issued.key),
            );
            config = format!("tls {{ cert_file: {cert:?}, key_file: {key:?} }}\n");
        }
        nats.start_with(&config).await
    }

    /// Starts servers that form a cluster, and waits until one of them knows its leader. The others may join later.
    ///
    /// # Panics
    /// If they are not installed or do not start.
    pub async fn start_cluster(n: usize) -> Vec<Self> {
        let ports: Vec<u16> = (0..n).map(|_| free_port()).collect();
        let routes: Vec<_> = ports
            .iter()
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        let routes = routes.join(", ");
        let starting = ports.iter().enumerate().map(|(n, port)| {
            let config =
                format!("cluster {{ name: skopos, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n");
            async move {
                let nats = Self::new(format!("server-{n}"));
                nats.start_with(&config).await
            }
        });
        let servers = futures_util::future::join_all(starting).await;
        let says = servers
            .iter()
            .map(|nats| Box::pin(nats.service.says("metadata leader")));
        futures_util::future::select_all(says).await;
        servers
    }

    fn new(name: String) -> Self {
        Self {
            service: Service::new("nats", "Server is ready"),
            name,
            port: free_port(),
        }
    }

    async fn start_with(mut self, more: &str) -> Self {
        let (user, password) = USER;
        let config = format!(
            "server_name: {:?}\n\
             listen: \"127.0.0.1:{}\"\n\
             jetstream {{ store_dir: {:?}, max_mem: 64MB, max_file: 256MB }}\n\
             authorization {{ user: {user:?}, password: {password:?} }}\n\
             {more}",
            self.name,
            self.port,
            self.data_dir()
        );
        self.service.write("nats.conf", &config);
        self.start_again().await;
        self
    }

    /// What it is called in its cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it keeps its data.
    pub fn data_dir(&self) -> PathBuf {
        self.service.dir().join("data")
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Makes the server hang: connections stay, nothing is answered.
    pub async fn pause(&self) {
        self.service.pause().await;
    }

    /// Ends the pause.
    pub fn resume(&self) {
        self.service.signal(Signal::CONT);
    }

    /// Stops the server.
    pub async fn stop(&mut self) {
        self.service.stop(Signal::TERM).await;
    }

    /// Kills the server: nothing is finished.
    pub async fn kill(&mut self) {
        self.service.stop(Signal::KILL).await;
    }

    /// Starts it again with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_again(&mut self) {
        let program = find(
            "nats-server",
            &["/usr/sbin/nats-server".into(), "/usr/bin/nats-server".into()],
        );
        let mut command = Command::new(program);
        command.arg("-c").arg(self.service.dir().join("nats.conf"));
        self.service.start(command).await;
    }
}
