//! Kafka: one node that is broker and controller.

use std::path::PathBuf;

use rustix::process::Signal;
use tokio::process::Command;

use super::{
    Issued, USER,
    service::{Service, find, free_port},
};

/// The release that `cargo xtask parts` brings.
const VERSION: &str = "4.1.0";
/// Any id will do for a cluster of one.
const CLUSTER: &str = "c2tvcG9zLXRlc3QtcGFydA";

/// A Kafka server. Its plain port asks for nothing; its TLS port wants the [`USER`].
#[derive(Debug)]
pub struct Kafka {
    service: Service,
    jars: PathBuf,
    port: u16,
    tls_port: u16,
}

impl Kafka {
    /// Starts a server, with TLS and SASL on a second port if it gets a certificate.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub async fn start(tls: Option<&Issued>) -> Self {
        let jars = jars();
        find("Kafka", &[jars.join(format!("kafka_2.13-{VERSION}.jar"))]);
        let mut kafka = Self {
            service: Service::new("kafka", "Kafka Server started"),
            jars,
            port: free_port(),
            tls_port: free_port(),
        };
        kafka.configure(tls);
        kafka.format().await;
        kafka.start_again().await;
        kafka
    }

    fn configure(&self, tls: Option<&Issued>) {
        let (port, controller) = (self.port, free_port());
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{port}");
        let mut secured = String::new();
        if let Some(issued) = tls {
            let store = self
                .service
                .write("keystore.pem", &format!("{}{}", issued.key, issued.cert));
            listeners.push_str(&format!(",SASL_SSL://127.0.0.1:{}", self.tls_port));
            secured = format!(
                "ssl.keystore.type=PEM\n\
                 ssl.keystore.location={}\n\
                 sasl.enabled.mechanisms=PLAIN\n\
                 listener.name.sasl_ssl.plain.sasl.jaas.config=\
                 org.apache.kafka.common.security.plain.PlainLoginModule required user_{}=\"{}\";\n",
                store.display(),
                USER.0,
                USER.1
            );
        }
        let config = format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\n\
             listeners={listeners},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={listeners}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\n\
             offsets.topic.replication.factor=1\n\
             auto.create.topics.enable=false\n\
             controlled.shutdown.enable=false\n\
             {secured}",
            self.service.dir().join("data").display()
        );
        self.service.write("server.properties", &config);
        self.service.write(
            "log4j2.properties",
            "rootLogger.level = INFO\n\
             rootLogger.appenderRefs = out\n\
             rootLogger.appenderRef.out.ref = Out\n\
             appender.out.type = Console\n\
             appender.out.name = Out\n\
             appender.out.layout.type = PatternLayout\n\
             appender.out.layout.pattern = %p %m (%c)%n\n",
        );
    }

    async fn format(&self) {
        let mut command = self.java("kafka.tools.StorageTool");
        command
            .args(["format", "-t", CLUSTER, "-c"])
            .arg(self.service.dir().join("server.properties"));
        let output = command.output().await.expect("java can be started");
        assert!(
            output.status.success(),
            "format: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it listens for TLS, as `127.0.0.1:port`.
    pub fn tls_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port)
    }

    /// Kills the server: a single node takes long to say goodbye to itself.
    pub async fn stop(&mut self) {
        self.service.stop(Signal::KILL).await;
    }

    /// Starts it again with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_again(&mut self) {
        let mut command = self.java("kafka.Kafka");
        command.arg(self.service.dir().join("server.properties"));
        self.service.start(command).await;
    }

    fn java(&self, class: &str) -> Command {
        let program = find("Java", &["/usr/bin/java".into(), "/usr/local/bin/java".into()]);
        let mut command = Command::new(program);
        command
            .args([
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Xshare:auto",
            ])
            .arg(format!(
                "-Dlog4j2.configurationFile={}",
                self.service.dir().join("log4j2.properties").display()
            ))
            .arg("-cp")
            .arg(self.jars.join("*"))
            .arg(class);
        command
    }
}

/// Where `cargo xtask parts` keeps the release.
fn jars() -> PathBuf {
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or_default()).join(".cache"),
    };
    cache.join("skopos/kafka").join(VERSION)
}
