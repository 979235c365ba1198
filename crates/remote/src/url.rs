//! Where things are kept, as an address that people know from those servers.

use std::{fmt, path::PathBuf, str::FromStr};

/// The address of a server that keeps the journal, such as `postgres://skopos:secret@db:5432/audit?sslmode=require` or
/// `nats://skopos:secret@nats:4222?replicas=3`. It is shown without user, password and options. There may be several
/// servers with commas between: those of a NATS cluster, or a PostgreSQL primary and its standbys.
///
/// Of its own are the options `prefix`, of the tables or of the stream (default `skopos`), `sslrootcert`, a file with
/// the authorities to trust, and for NATS `replicas`, how many servers have each message (default 1).
#[derive(Clone, PartialEq, Eq)]
pub enum JournalUrl {
    /// Tables in a database.
    Postgres(Box<PostgresServer>),
    /// A stream.
    Nats(NatsServer),
}

/// A PostgreSQL server, or a primary and its standbys.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresServer {
    pub(crate) config: tokio_postgres::Config,
    /// Perhaps a schema, and what the names of the tables begin with.
    pub(crate) schema: Option<String>,
    pub(crate) prefix: String,
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) place: String,
}

/// NATS servers of one cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsServer {
    pub(crate) servers: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) is_tls: bool,
    pub(crate) n_replicas: usize,
    pub(crate) prefix: String,
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) place: String,
}

/// An address cannot be used. The message does not show it: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It is of no server that is known.
    #[error("is no address of a journal: it begins with postgres://, nats:// or tls:// (NATS)")]
    Scheme,
    /// It is not an address of such a server.
    #[error("is not an address such as {0}")]
    Form(&'static str),
    /// An option has a value that it cannot have.
    #[error("has an option {name} that cannot be used: {problem}")]
    Option {
        /// Which.
        name: &'static str,
        /// Why.
        problem: &'static str,
    },
}

const POSTGRES: &str = "postgres://user:password@host:5432/database?sslmode=require";
const NATS: &str = "nats://user:password@host:4222";

/// An address in its parts.
#[derive(Default)]
struct Parts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    /// Servers and database.
    rest: &'a str,
    prefix: Option<String>,
    root_cert: Option<PathBuf>,
    replicas: Option<String>,
    ssl_mode: Option<String>,
    /// Options that are not ours.
    others: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn new(url: &'a str) -> Result<Self, BadUrl> {
        let (scheme, rest) = url.split_once("://").ok_or(BadUrl::Scheme)?;
        // The last one: a password may have some.
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = Self {
            scheme,
            user,
            rest,
            ..Self::default()
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("prefix", value)) => parts.prefix = Some(decode(value)),
                Some(("sslrootcert", value)) => parts.root_cert = Some(decode(value).into()),
                Some(("replicas", value)) => parts.replicas = Some(decode(value)),
                Some(("sslmode", value)) => parts.ssl_mode = Some(decode(value)),
                _ => parts.others.push(option),
            }
        }
        Ok(parts)
    }

    fn place(&self) -> String {
        format!("{}://{}", self.scheme, self.rest)
    }

    fn postgres(self) -> Result<PostgresServer, BadUrl> {
        let place = self.place();
        let (schema, prefix) = self.schema_and_prefix()?;
        let user = self.user.map(|user| format!("{user}@")).unwrap_or_default();
        let mut options = self.others;
        match self.ssl_mode.as_deref() {
            None => {}
            Some("disable") => options.push("sslmode=disable"),
            Some("prefer") => options.push("sslmode=prefer"),
            // Certificates are always checked, as with verify-full.
            Some("require" | "verify-ca" | "verify-full") => options.push("sslmode=require"),
            Some(_) => {
                return Err(BadUrl::Option {
                    name: "sslmode",
                    problem: "it is disable, prefer, require, verify-ca or verify-full",
                });
            }
        }
        if self.ssl_mode.is_none() && self.root_cert.is_some() {
            // Whoever says whom to trust does not want to go without when the server does.
            options.push("sslmode=require");
        }
        let url = format!("postgres://{user}{}?{}", self.rest, options.join("&"));
        let mut config: tokio_postgres::Config = url.parse().map_err(|_| BadUrl::Form(POSTGRES))?;
        if config.get_hosts().is_empty() || config.get_user().is_none() {
            return Err(BadUrl::Form(POSTGRES));
        }
        config.application_name("skopos");
        Ok(PostgresServer {
            config,
            schema,
            prefix,
            root_cert: self.root_cert,
            place,
        })
    }

    fn nats(self) -> Result<NatsServer, BadUrl> {
        let (schema, prefix) = self.schema_and_prefix()?;
        if schema.is_some() {
            return Err(BadUrl::Option {
                name: "prefix",
                problem: "a stream has no schema",
            });
        }
        if let Some(other) = self.others.first() {
            tracing::warn!(
                option = other.split('=').next(),
                "an option of the journal's address is not known, and ignored"
            );
        }
        let hosts = self.rest.trim_end_matches('/');
        if hosts.is_empty() || hosts.contains('/') {
            return Err(BadUrl::Form(NATS));
        }
        let n_replicas = match self.replicas.as_deref().map(str::parse) {
            None => 1,
            Some(Ok(n @ 1..=5)) => n,
            Some(_) => {
                return Err(BadUrl::Option {
                    name: "replicas",
                    problem: "it is a number from 1 to 5",
                });
            }
        };
        let (user, password) = match self.user.map(|user| user.split_once(':').ok_or(user)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(decode(user)), Some(decode(password))),
            Some(Err(token)) => (Some(decode(token)), None),
        };
        Ok(NatsServer {
            servers: hosts
                .split(',')
                .map(|host| format!("{}://{host}", self.scheme))
                .collect(),
            user,
            password,
            is_tls: self.scheme == "tls" || self.root_cert.is_some(),
            n_replicas,
            prefix,
            place: self.place(),
            root_cert: self.root_cert,
        })
    }

    /// Names that need no quotes anywhere.
    fn schema_and_prefix(&self) -> Result<(Option<String>, String), BadUrl> {
        let Some(given) = &self.prefix else {
            return Ok((None, "skopos".to_owned()));
        };
        let is_name = |name: &str| {
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            !name.is_empty() && name.len() <= 40 && name.chars().all(is_word)
        };
        let (schema, prefix) = match given.split_once('.') {
            Some((schema, prefix)) => (Some(schema), prefix),
            None => (None, given.as_str()),
        };
        if !is_name(prefix) || schema.is_some_and(|schema| !is_name(schema)) {
            return Err(BadUrl::Option {
                name: "prefix",
                problem: "it is a word of small letters, digits and _, of at most 40, for PostgreSQL with a schema and a dot before it",
            });
        }
        Ok((schema.map(str::to_owned), prefix.to_owned()))
    }
}

impl FromStr for JournalUrl {
    type Err = BadUrl;

    fn from_str(url: &str) -> Result<Self, BadUrl> {
        let parts = Parts::new(url)?;
        match parts.scheme {
            "postgres" | "postgresql" => parts.postgres().map(Box::new).map(Self::Postgres),
            "nats" | "tls" => parts.nats().map(Self::Nats),
            _ => Err(BadUrl::Scheme),
        }
    }
}

impl fmt::Display for JournalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(server) => f.write_str(&server.place),
            Self::Nats(server) => f.write_str(&server.place),
        }
    }
}

impl fmt::Debug for JournalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JournalUrl({self})")
    }
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresServer({})", self.place)
    }
}

impl fmt::Debug for NatsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NatsServer({})", self.place)
    }
}

/// Text with `%xx` in it.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_wherever_they_stand() {
        let urls = [
            (
                "postgres://me:hush@db:5432/audit?sslmode=require",
                "postgres://db:5432/audit",
            ),
            ("postgres://me:hu@sh@db/audit", "postgres://db/audit"),
            ("postgres://me@db/audit?password=hush", "postgres://db/audit"),
            ("postgres://me:hush@a:1,b:2/audit", "postgres://a:1,b:2/audit"),
            ("nats://me:hush@a:4222,b:4222?replicas=3", "nats://a:4222,b:4222"),
            ("tls://hush@a", "tls://a"),
        ];
        for (url, shown) in urls {
            let parsed: JournalUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), shown);
            let JournalUrl::Postgres(server) = &parsed else {
                continue;
            };
            assert!(!format!("{parsed:?} {server:?}").contains("hu"), "{parsed:?}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_say_what_is_wrong() {
        let check = |url: &str, expect: &str| {
            let error = url.parse::<JournalUrl>().unwrap_err().to_string();
            assert!(
                error.contains(expect) && !error.contains("hush"),
                "{url}: {error}"
            );
        };
        check("hush", "begins with postgres://");
        check("mysql://hush@db", "begins with postgres://");
        check("postgres://hush:x@db:what/audit", "is not an address such as");
        check("postgres://hush@db/audit?sslmode=maybe", "sslmode");
        check("postgres://hush@db/audit?prefix=a-b", "prefix");
        check("nats://hush@a?replicas=9", "replicas");
        check("nats://hush@", "is not an address such as nats://");
    }

    #[test]
    fn options_of_ours_are_taken_and_the_others_are_passed_on() {
        let url = "postgres://me:a%2Fb@db/audit?connect_timeout=7&prefix=ops.sk&sslmode=verify-full&sslrootcert=%2Fca.pem";
        let JournalUrl::Postgres(server) = url.parse().unwrap() else {
            panic!("it is PostgreSQL");
        };
        assert_eq!(
            (server.schema.as_deref(), server.prefix.as_str()),
            (Some("ops"), "sk")
        );
        assert_eq!(server.root_cert, Some("/ca.pem".into()));
        assert_eq!(server.config.get_password(), Some(&b"a/b"[..]));
        assert_eq!(
            server
                .config
                .get_connect_timeout()
                .map(std::time::Duration::as_secs),
            Some(7)
        );
        assert_eq!(
            server.config.get_ssl_mode(),
            tokio_postgres::config::SslMode::Require
        );
    }
}
