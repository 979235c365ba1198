//! The servers of an address, one of which can be written.

use std::{error::Error as _, fmt, time::Duration};

use tokio::{io, task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, Config, Connection, NoTls,
    config::{Host, TargetSessionAttrs},
};

use crate::MakeTls;

/// How long a server may take until it answers the first statement.
const LONGEST: Duration = Duration::from_secs(10);
/// How long all of them may take together.
const ALTOGETHER: Duration = Duration::from_secs(20);

/// The servers that an address names: a primary and its standbys, in any order. Only one of them can be written.
#[derive(Clone, Debug)]
pub struct Servers {
    each: Vec<Server>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    name: String,
    timeout: Duration,
}

/// A connection, and the task that moves its bytes, which ends with it.
#[derive(Debug)]
pub struct Link {
    /// Through which it is used.
    pub client: Client,
    driver: JoinHandle<()>,
}

/// No server can be used. Trying again later may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

impl Servers {
    /// Takes apart an address. `connect_timeout`, if there is one, is the limit for all of connecting to one server, as
    /// in libpq, but several share 20 s whatever it says; `target_session_attrs` is always `read-write`.
    pub fn new(config: &Config) -> Self {
        let n = config.get_hosts().len().max(config.get_hostaddrs().len());
        let (n_ports, n_addresses) = (config.get_ports().len(), config.get_hostaddrs().len());
        let is_sound = (n_ports <= 1 || n_ports == n) && (n_addresses == 0 || n_addresses == n);
        let each = match is_sound {
            true => (0..n).map(|at| Server::new(config, at, n)).collect(),
            // Connecting says what is wrong.
            false => vec![Server {
                config: config.clone(),
                name: "an address that does not fit together".to_owned(),
                timeout: LONGEST,
            }],
        };
        Self { each }
    }

    /// Each of them, in the order of the address.
    pub fn iter(&self) -> impl Iterator<Item = &Server> {
        self.each.iter()
    }

    /// Connects to the first one that answers and can be written.
    ///
    /// # Errors
    /// If there is none, with the reason of each.
    pub async fn connect(&self, tls: Option<&MakeTls>) -> Result<Link, ConnectError> {
        let mut reasons = Vec::new();
        for server in &self.each {
            match server.connect(tls).await {
                Ok(link) => return Ok(link),
                Err(ConnectError(reason)) => reasons.push((server, reason)),
            }
        }
        Err(ConnectError(match &reasons[..] {
            [(_, reason)] => reason.clone(),
            _ => {
                let each = reasons
                    .iter()
                    .map(|(server, reason)| format!("{server}: {reason}"));
                each.collect::<Vec<_>>().join("; ")
            }
        }))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.each.iter().map(|server| server.name.as_str()).collect();
        f.write_str(&names.join(", "))
    }
}

impl Server {
    fn new(config: &Config, at: usize, n_servers: usize) -> Self {
        let mut one = without_places(config);
        let ports = config.get_ports();
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        one.port(port);
        let mut name = format!("port {port}");
        if let Some(address) = config.get_hostaddrs().get(at) {
            one.hostaddr(*address);
            name = format!("{address}:{port}");
        }
        match config.get_hosts().get(at) {
            Some(Host::Tcp(host)) => {
                one.host(host);
                name = format!("{host}:{port}");
            }
            Some(Host::Unix(path)) => {
                one.host_path(path);
                name = path.display().to_string();
            }
            None => {}
        }
        let limit = limit(config.get_connect_timeout().copied(), n_servers);
        one.connect_timeout(limit);
        Self {
            config: one,
            name,
            timeout: limit,
        }
    }

    /// Connects to this one.
    ///
    /// # Errors
    /// If it does not answer in time, refuses, or is a standby, which cannot be written.
    pub async fn connect(&self, tls: Option<&MakeTls>) -> Result<Link, ConnectError> {
        let connecting = async {
            match tls {
                Some(tls) => Ok(Link::new(self.config.connect(tls.clone()).await?)),
                None => Ok(Link::new(self.config.connect(NoTls).await?)),
            }
        };
        match timeout(self.timeout, connecting).await {
            Ok(connected) => connected.map_err(|error| ConnectError(told(&error))),
            Err(_) => Err(ConnectError(format!("no answer within {:?}", self.timeout))),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Link {
    fn new<S, T>((client, connection): (Client, Connection<S, T>)) -> Self
    where
        S: io::AsyncRead + io::AsyncWrite + Unpin + Send + 'static,
        T: io::AsyncRead + io::AsyncWrite + Unpin + Send + 'static,
    {
        let driver = tokio::spawn(async move {
            // What goes wrong here is told to whoever waits for an answer.
            let _ = connection.await;
        });
        Self { client, driver }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// How long one of several may take. Whoever waits for all of them must not give up before the last was asked: the next
/// attempt begins with the first again.
fn limit(given: Option<Duration>, n_servers: usize) -> Duration {
    match (given, u32::try_from(n_servers).unwrap_or(u32::MAX)) {
        (Some(given), ..=1) => given,
        (None, ..=1) => LONGEST,
        (given, n) => given.unwrap_or(LONGEST).min(ALTOGETHER / n),
    }
}

/// All that an address says but where.
fn without_places(config: &Config) -> Config {
    let mut one = Config::new();
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one
}

/// An error with its causes, in one line. Without the details of a server, which show the row that it refused.
pub fn told(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        let hint = said.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        return format!("{}: {}{hint}", said.severity(), said.message());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(url: &str) -> Servers {
        Servers::new(&url.parse().unwrap())
    }

    #[test]
    fn an_address_is_taken_apart_into_servers_that_differ_only_in_their_place() {
        let check = |url: &str, expect: &[&str]| {
            let names: Vec<String> = servers(url).iter().map(Server::to_string).collect();
            assert_eq!(names, expect, "{url}");
        };
        check("postgres://me@db/audit", &["db:5432"]);
        check("postgres://me@a:1,b:2,c/audit", &["a:1", "b:2", "c:5432"]);
        let rest = "connect_timeout=4&keepalives_retries=3&options=-cwork_mem=1MB&tcp_user_timeout=9";
        let several = servers(&format!("postgres://me:secret@a:1,b:2/audit?{rest}"));
        let alone: Config = format!("postgres://me:secret@b:2/audit?{rest}&target_session_attrs=read-write")
            .parse()
            .unwrap();
        assert_eq!(several.each[1].config, alone);
    }

    #[tokio::test]
    async fn an_address_that_does_not_fit_together_says_so() {
        let servers = servers("postgres://me@a,b/audit?hostaddr=127.0.0.1");
        let error = servers.connect(None).await.unwrap_err().to_string();
        assert!(error.contains("number of hosts (2) is different"), "{error}");
    }

    #[test]
    fn several_servers_share_the_time_that_is_waited() {
        let limits = |url: &str| -> Vec<u64> {
            let found = servers(url);
            found.iter().map(|server| server.timeout.as_secs()).collect()
        };
        assert_eq!(limits("postgres://me@a/audit"), [10]);
        assert_eq!(limits("postgres://me@a,b,c,d/audit"), [5, 5, 5, 5]);
        assert_eq!(limits("postgres://me@a,b/audit?connect_timeout=3"), [3, 3]);
        assert_eq!(limits("postgres://me@a,b/audit?connect_timeout=30"), [10, 10]);
        assert_eq!(limits("postgres://me@a/audit?connect_timeout=25"), [25]);
    }
}
