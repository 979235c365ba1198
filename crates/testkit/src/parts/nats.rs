//! NATS with JetStream.

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
    port: u16,
}

impl Nats {
    /// Starts a server, with TLS if it gets a certificate.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start(tls: Option<&Issued>) -> Self {
        let service = Service::new("nats", "Server is ready");
        let port = free_port();
        let (user, password) = USER;
        let mut config = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: {:?}, max_mem: 64MB, max_file: 256MB }}\n\
             authorization {{ user: {user:?}, password: {password:?} }}\n",
            service.dir().join("data")
        );
        if let Some(issued) = tls {
            let (cert, key) = (
                service.write("cert.pem", &issued.cert),
                service.write("key.pem", &issued.key),
            );
            config.push_str(&format!("tls {{ cert_file: {cert:?}, key_file: {key:?} }}\n"));
        }
        service.write("nats.conf", &config);
        let mut nats = Self { service, port };
        nats.start_again().await;
        nats
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Makes the server hang: connections stay, nothing is answered.
    pub fn pause(&self) {
        self.service.signal(Signal::STOP);
    }

    /// Ends the pause.
    pub fn resume(&self) {
        self.service.signal(Signal::CONT);
    }

    /// Stops the server.
    pub async fn stop(&mut self) {
        self.service.stop(Signal::TERM).await;
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
