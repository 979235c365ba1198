//! Who asks: client certificates, bearer tokens, nobody.
//!
//! The order and the outcomes are kube-apiserver's: a valid certificate wins over a token; a token that is
//! present but unknown is refused even where no credentials are needed.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use rustls::pki_types::CertificateDer;

use super::answer::Refusal;
use super::certificate::{CertificateIdentity, ClientAuthority};
use super::local;
use super::seam::{AUTHENTICATED, User};
use super::tokens::TokenTable;

/// Turns credentials into a [`User`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticator {
    tokens: TokenTable,
    authority: Option<ClientAuthority>,
}

impl Authenticator {
    /// Knows `tokens` only.
    #[must_use]
    pub(crate) fn new(tokens: TokenTable) -> Self {
        Self {
            tokens,
            authority: None,
        }
    }

    /// Accepts client certificates that `authority` vouches for.
    #[must_use]
    pub(crate) fn with_client_certificates(mut self, authority: ClientAuthority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Judges the certificates that a peer showed in the handshake.
    pub(super) fn peer(&self, shown: Option<&[CertificateDer<'static>]>) -> Peer {
        let certificate = match (&self.authority, shown) {
            (Some(authority), Some(chain)) if !chain.is_empty() => Some(authority.identify(chain)),
            _ => None,
        };
        Peer::Network { certificate }
    }

    /// Who sends this request. Takes the token out of the headers.
    pub(super) fn authenticate(&self, peer: &Peer, headers: &mut HeaderMap) -> Login {
        let token = bearer_token(headers);
        headers.remove(AUTHORIZATION);
        let certificate = match peer {
            Peer::InProcess(user) => return Login::User(Arc::clone(user)),
            Peer::Network { certificate } => certificate,
        };
        let by_certificate = certificate.as_ref().map(CertificateIdentity::user);
        if let Some(Ok(user)) = by_certificate {
            return Login::User(user);
        }
        let by_token = token.map(|token| self.tokens.find(&token));
        match (by_certificate, by_token) {
            (_, Some(Some(user))) => Login::User(user),
            (None, None) => Login::Nobody,
            (Some(Err(reason)), _) => Login::Wrong(reason),
            _ => Login::Wrong("unknown bearer token"),
        }
    }
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// Over a socket, perhaps with a client certificate.
    Network {
        certificate: Option<CertificateIdentity>,
    },
    /// From this process: trusted to be this user.
    InProcess(Arc<User>),
}

/// The outcome of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Login {
    User(Arc<User>),
    /// No credentials at all.
    Nobody,
    /// Credentials that do not hold, and why (for the log).
    Wrong(&'static str),
}

/// Lets nobody in except to read the public paths.
pub(super) fn admit_login(login: Login, method: &Method, path: &str) -> Result<Arc<User>, Refusal> {
    match login {
        Login::User(user) => Ok(user),
        Login::Nobody if !local::is_public(path) => Err(Refusal::Unauthorized),
        Login::Nobody if method == Method::GET => Ok(Arc::new(User::anonymous())),
        Login::Nobody => {
            let method = method.as_str().to_ascii_lowercase();
            let name = super::seam::ANONYMOUS;
            Err(Refusal::Forbidden(format!(
                "User {name:?} cannot {method} path {path:?}"
            )))
        }
        Login::Wrong(reason) => {
            tracing::debug!(reason, "refused a login");
            Err(Refusal::Unauthorized)
        }
    }
}

/// Every authenticated user is in `system:authenticated`.
pub(super) fn authenticated(mut user: User) -> Arc<User> {
    if !user.is_in(AUTHENTICATED) && !user.is_in(super::seam::UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    Arc::new(user)
}

/// The token of `Authorization: Bearer …`; other schemes and empty tokens count as no credentials.
fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(header: Option<&'static str>) -> Login {
        let tokens = TokenTable::single(
            "secret",
            User {
                name: "alice".into(),
                ..User::default()
            },
        );
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(AUTHORIZATION, http::HeaderValue::from_static(value));
        }
        let login =
            Authenticator::new(tokens).authenticate(&Peer::Network { certificate: None }, &mut headers);
        assert!(!headers.contains_key(AUTHORIZATION));
        login
    }

    #[test]
    fn reads_bearer_tokens_as_upstream_does() {
        let alice = authenticated(User {
            name: "alice".into(),
            ..User::default()
        });
        assert_eq!(login(Some("Bearer secret")), Login::User(Arc::clone(&alice)));
        assert_eq!(login(Some("bearer secret trailing")), Login::User(alice));
        assert_eq!(login(Some("Bearer wrong")), Login::Wrong("unknown bearer token"));
        assert_eq!(login(Some("Bearer ")), Login::Nobody);
        assert_eq!(login(Some("Basic c2VjcmV0")), Login::Nobody);
        assert_eq!(login(None), Login::Nobody);
    }

    #[test]
    fn lets_nobody_read_only_what_is_public() {
        let check = |method: Method, path: &str| {
            admit_login(Login::Nobody, &method, path).map(|user| user.name.clone())
        };
        assert_eq!(check(Method::GET, "/healthz"), Ok("system:anonymous".to_owned()));
        assert_eq!(check(Method::GET, "/readyz/ping"), Err(Refusal::Unauthorized));
        assert_eq!(check(Method::GET, "/api"), Err(Refusal::Unauthorized));
        let forbidden = "User \"system:anonymous\" cannot post path \"/healthz\"".to_owned();
        assert_eq!(
            check(Method::POST, "/healthz"),
            Err(Refusal::Forbidden(forbidden))
        );
        assert_eq!(
            admit_login(Login::Wrong(""), &Method::GET, "/healthz"),
            Err(Refusal::Unauthorized),
            "a wrong token is refused even on a public path",
        );
    }
}
