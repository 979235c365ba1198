//! The real servers that tests of destinations start: PostgreSQL, NATS, RabbitMQ, Kafka.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::kube::user_dir;
use crate::run::run;
use crate::tools::on_path;

/// The release of Kafka; `skopos-testkit` looks for the same.
const KAFKA: &str = "4.1.0";

/// A package of Debian, and a program or a directory that shows that it is installed.
const PACKAGES: [(&str, &str); 4] = [
    ("postgresql", "/usr/lib/postgresql"),
    ("nats-server", "/usr/sbin/nats-server"),
    ("rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server"),
    ("default-jre-headless", "/usr/bin/java"),
];

/// Installs whatever is missing.
pub(crate) fn install() -> anyhow::Result<()> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(_, sign)| !Path::new(sign).exists())
        .map(|(package, _)| *package)
        .collect();
    packages(&missing)?;
    kafka()
}

fn packages(names: &[&str]) -> anyhow::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let list = names.join(" ");
    let advice = || format!("install these packages by hand: {list}");
    println!("installing {list}");
    run(Command::new("apt-get").args(["update", "-qq"])).with_context(advice)?;
    // In run level 1 the packages do not start servers of their own, which nobody needs.
    let mut install = Command::new("apt-get");
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("RUNLEVEL", "1")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(names);
    run(&mut install).with_context(advice)
}

/// Brings the jars of Kafka and all they need from Maven Central, once, beside the programs of Kubernetes.
fn kafka() -> anyhow::Result<()> {
    let home = user_dir("XDG_CACHE_HOME", ".cache")?.join("skopos/kafka");
    let jars = home.join(KAFKA);
    if jars.join(format!("kafka_2.13-{KAFKA}.jar")).is_file() && jars.join("complete").is_file() {
        return Ok(());
    }
    if on_path("mvn").is_none() {
        packages(&["maven"])?;
    }
    println!("bringing Kafka {KAFKA} to {}", jars.display());
    std::fs::create_dir_all(&jars)?;
    let project: PathBuf = home.join("pom.xml");
    std::fs::write(&project, pom())?;
    run(Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(&project)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jars.display())))
    .context("bring Kafka from Maven Central")?;
    std::fs::write(jars.join("complete"), "")?;
    Ok(())
}

/// Kafka, and what its log is written with.
fn pom() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>dev.skopos</groupId><artifactId>parts</artifactId><version>1</version>\
         <dependencies>{}{}</dependencies></project>\n",
        dependency("org.apache.kafka", "kafka_2.13", KAFKA),
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    )
}
