//! Keys and certificates of a control plane: made at first start, kept in a directory, renewed before they expire.
//!
//! Start at [`Pki::load_or_create`].

mod files;
mod issue;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustls::RootCertStore;

pub(super) use files::{read, write_private};
pub(super) use issue::random_hex;
use issue::{Facts, Issuer, Pair};

use super::certificate::ClientAuthority;
use super::tls::{self, ServingCertificate};

/// The names every serving certificate carries.
const OWN_NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// Certificates with less time left are renewed at start.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Keys or certificates that cannot be read, made or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read.
    #[error("read {}: check that it exists and that this user may read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("write {}: check that this user may write there and that the disk has room", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what its name says.
    #[error("{} is not {expected} ({reason}): restore it, or delete it to have a new one made", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A certificate authority without its key cannot sign.
    #[error("{} is missing but its certificate is there: restore the key, or delete {} to start with a new authority", path.display(), certificate.display())]
    KeyMissing {
        /// The key file.
        path: PathBuf,
        /// The certificate file.
        certificate: PathBuf,
    },
    /// A name cannot stand in a certificate.
    #[error("{name:?} cannot be a name in a certificate: use a DNS name or an IP address")]
    Name {
        /// The name.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// Making a key or certificate failed.
    #[error("make {what}")]
    Make {
        /// What was made.
        what: &'static str,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// Certificate and key cannot serve TLS.
    #[error("serve TLS with {what}: check that certificate and key belong together")]
    Tls {
        /// Which files.
        what: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// No usable certificate authority for clients.
    #[error("client certificate authorities")]
    Authority(#[source] rustls::server::VerifierBuilderError),
}

/// The keys and certificates of one control plane. Secret parts do not show in `Debug`.
pub(crate) struct Pki {
    authority: Pair,
    serving: Pair,
    admin: Pair,
    service_account: String,
    token: String,
}

impl Pki {
    /// Reads what is in `dir`, and makes and writes what is missing, expires within 30 days, or does not
    /// carry `extra_names` (DNS names or IP addresses). Without a directory everything stays in memory.
    ///
    /// Files: `ca`, `apiserver`, `admin` (`.crt`, `.key`), `sa.key`, `token`; readable by this user only.
    ///
    /// # Errors
    /// When a file cannot be read, written or understood; the message names it and says what to do.
    pub(crate) fn load_or_create(dir: Option<&Path>, extra_names: &[String]) -> Result<Self, PkiError> {
        Self::load_or_create_at(dir, extra_names, Timestamp::now())
    }

    fn load_or_create_at(
        dir: Option<&Path>,
        extra_names: &[String],
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        let shelf = Shelf { dir, now };
        if let Some(dir) = dir {
            files::create_dir(dir)?;
        }
        let authority = shelf.authority()?;
        let issuer = Issuer::new(&authority, now)?;
        let mut names: BTreeSet<String> = OWN_NAMES.iter().map(|name| (*name).to_owned()).collect();
        names.extend(extra_names.iter().map(|name| issue::canonical_name(name)));
        let serving = shelf.leaf(
            "apiserver",
            &issuer,
            |facts| facts.names == names,
            || issuer.serving(&names),
        )?;
        let admin = shelf.leaf("admin", &issuer, |_| true, || issuer.admin())?;
        let service_account = shelf.text("sa.key", "a private key", issue::check_key, issue::new_key)?;
        let token = shelf.text("token", "a token", issue::check_token, || random_hex(32))?;
        Ok(Self {
            authority,
            serving,
            admin,
            service_account,
            token: token.trim().to_owned(),
        })
    }

    /// The certificate of our authority, in PEM.
    #[must_use]
    pub(crate) fn ca_pem(&self) -> &str {
        &self.authority.certificate
    }

    /// The administrator's client certificate and key, in PEM.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "lies in its files for those who prefer it to the token of the kubeconfig"
        )
    )]
    #[must_use]
    pub(crate) fn admin(&self) -> (&str, &str) {
        (&self.admin.certificate, &self.admin.key)
    }

    /// The administrator's bearer token.
    #[must_use]
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The key that signs service account tokens (ES256), in PEM.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "TokenRequest comes with RBAC; the key must not change then"
        )
    )]
    #[must_use]
    pub(crate) fn service_account_key_pem(&self) -> &str {
        &self.service_account
    }

    /// What the server shows to its clients.
    ///
    /// # Errors
    /// When the certificate cannot be read, which a fresh [`Pki`] rules out.
    pub(crate) fn serving(&self) -> Result<ServingCertificate, PkiError> {
        ServingCertificate::from_pem(
            &self.serving.certificate,
            &self.serving.key,
            "the generated certificate",
        )
    }

    /// Who vouches for clients: our own authority, and those in `extra_ca_file`.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub(crate) fn client_authority(&self, extra_ca_file: Option<&Path>) -> Result<ClientAuthority, PkiError> {
        let mut roots = RootCertStore::empty();
        tls::add_roots(&mut roots, self.ca_pem().as_bytes(), Path::new("ca.crt"))?;
        if let Some(path) = extra_ca_file {
            tls::add_roots(&mut roots, read(path)?.as_bytes(), path)?;
        }
        ClientAuthority::new(roots).map_err(PkiError::Authority)
    }
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pki").finish_non_exhaustive()
    }
}

/// Where the files are, and when it is.
struct Shelf<'a> {
    dir: Option<&'a Path>,
    now: Timestamp,
}

impl Shelf<'_> {
    fn authority(&self) -> Result<Pair, PkiError> {
        if let Some(pair) = self.read_pair("ca")? {
            let facts = Facts::of(&pair, &self.path("ca.crt"), &self.path("ca.key"))?;
            if self.is_fresh(&facts) && facts.key_fits {
                return Ok(pair);
            }
            tracing::warn!(
                "the certificate authority expires or lost its key: making a new one, kubeconfigs change"
            );
        }
        let pair = issue::authority(self.now)?;
        self.write_pair("ca", &pair)?;
        Ok(pair)
    }

    /// A certificate of ours: the one on file if it is sound, fresh, signed by `issuer` and `suits`; else a new one.
    fn leaf(
        &self,
        name: &str,
        issuer: &Issuer,
        suits: impl Fn(&Facts) -> bool,
        make: impl Fn() -> Result<Pair, PkiError>,
    ) -> Result<Pair, PkiError> {
        if let Some(pair) = self.read_pair(name)? {
            let facts = Facts::of(
                &pair,
                &self.path(&format!("{name}.crt")),
                &self.path(&format!("{name}.key")),
            )?;
            if self.is_fresh(&facts) && facts.key_fits && issuer.has_signed(&facts) && suits(&facts) {
                return Ok(pair);
            }
            tracing::info!(name, "renewing certificate");
        }
        let pair = make()?;
        self.write_pair(name, &pair)?;
        Ok(pair)
    }

    fn is_fresh(&self, facts: &Facts) -> bool {
        facts.not_after.duration_since(self.now) > RENEW_BEFORE
    }

    /// One file of text; made when there is none.
    fn text(
        &self,
        name: &str,
        expected: &'static str,
        check: impl Fn(&str) -> Result<(), String>,
        make: impl Fn() -> Result<String, PkiError>,
    ) -> Result<String, PkiError> {
        let path = self.path(name);
        if self.exists(name) {
            let text = read(&path)?;
            return match check(&text) {
                Ok(()) => Ok(text),
                Err(reason) => Err(PkiError::Content {
                    path,
                    expected,
                    reason,
                }),
            };
        }
        let text = make()?;
        if self.dir.is_some() {
            write_private(&path, text.as_bytes())?;
        }
        Ok(text)
    }

    /// Both halves of a pair. A key alone is left from a start that was cut short, and is made again.
    fn read_pair(&self, name: &str) -> Result<Option<Pair>, PkiError> {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        match (self.exists(&certificate), self.exists(&key)) {
            (false, _) => Ok(None),
            (true, false) => Err(PkiError::KeyMissing {
                path: self.path(&key),
                certificate: self.path(&certificate),
            }),
            (true, true) => {
                let pair = Pair {
                    certificate: read(&self.path(&certificate))?,
                    key: read(&self.path(&key))?,
                };
                Ok(Some(pair))
            }
        }
    }

    fn write_pair(&self, name: &str, pair: &Pair) -> Result<(), PkiError> {
        if self.dir.is_none() {
            return Ok(());
        }
        // The key first: a certificate on file always has one.
        write_private(&self.path(&format!("{name}.key")), pair.key.as_bytes())?;
        write_private(&self.path(&format!("{name}.crt")), pair.certificate.as_bytes())
    }

    fn exists(&self, name: &str) -> bool {
        self.dir.is_some_and(|dir| dir.join(name).exists())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.map_or_else(|| PathBuf::from(name), |dir| dir.join(name))
    }
}

#[cfg(test)]
mod tests;
