//! RabbitMQ.

use std::path::Path;

use rustix::process::Signal;
use tokio::process::Command;

use super::{
    Issued, USER,
    service::{Service, find, free_port},
};

/// A RabbitMQ server whose only user is [`USER`].
#[derive(Debug)]
pub struct Rabbitmq {
    service: Service,
    /// Erlang's directory of nodes. Ours, or the first node of the machine would start one that stays.
    names: Service,
    port: u16,
    tls_port: u16,
    names_port: u16,
    node_port: u16,
}

impl Rabbitmq {
    /// Starts a server, with TLS on a second port if it gets a certificate.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start(tls: Option<&Issued>) -> Self {
        let mut rabbitmq = Self {
            service: Service::new("rabbitmq", "Server startup complete"),
            names: Service::new("epmd", "epmd running"),
            port: free_port(),
            tls_port: free_port(),
            names_port: free_port(),
            node_port: free_port(),
        };
        rabbitmq.configure(tls);
        rabbitmq.start_names().await;
        rabbitmq.start_again().await;
        rabbitmq
    }

    fn configure(&self, tls: Option<&Issued>) {
        let (user, password) = USER;
        let mut config = format!(
            "listeners.tcp.1 = 127.0.0.1:{}\n\
             default_user = {user}\n\
             default_pass = {password}\n\
             loopback_users = none\n\
             log.console = true\n\
             log.console.level = info\n",
            self.port
        );
        if let Some(issued) = tls {
            let (cert, key) = (
                self.service.write("cert.pem", &issued.cert),
                self.service.write("key.pem", &issued.key),
            );
            config.push_str(&format!(
                "listeners.ssl.1 = 127.0.0.1:{}\n\
                 ssl_options.certfile = {}\n\
                 ssl_options.keyfile = {}\n\
                 ssl_options.verify = verify_none\n",
                self.tls_port,
                cert.display(),
                key.display()
            ));
        }
        self.service.write("rabbitmq.conf", &config);
        self.service.write("plugins", "[].\n");
        self.service.write("env.conf", "");
    }

    async fn start_names(&mut self) {
        let program = find("Erlang", &["/usr/bin/epmd".into()]);
        let mut command = Command::new(program);
        command
            .args(["-debug", "-address", "127.0.0.1", "-port"])
            .arg(self.names_port.to_string());
        self.names.start(command).await;
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it listens for TLS, as `127.0.0.1:port`.
    pub fn tls_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port)
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
        let program = find("RabbitMQ", &["/usr/lib/rabbitmq/bin/rabbitmq-server".into()]);
        let dir: &Path = self.service.dir();
        let mut command = Command::new(program);
        command
            .env("HOME", dir)
            .env("ERL_EPMD_PORT", self.names_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // The Erlang machine takes the place of the script, and hears our signals.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env("RABBITMQ_NODENAME", format!("skopos{}@localhost", self.port))
            .env("RABBITMQ_DIST_PORT", self.node_port.to_string())
            .env("RABBITMQ_MNESIA_BASE", dir.join("data"))
            .env("RABBITMQ_LOG_BASE", dir)
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", dir.join("env.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir.join("plugins"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none +S 1:1");
        self.service.start(command).await;
    }
}
