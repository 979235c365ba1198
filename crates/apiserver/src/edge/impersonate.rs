//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! Until there is RBAC only `system:masters` may impersonate; this is the place where the authorizer is asked
//! later. Ignoring the headers would be worse than refusing them: a proxy that impersonates its users would
//! give every one of them its own rights.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;

use super::answer::Refusal;
use super::authenticate::authenticated;
use super::seam::{ANONYMOUS, MASTERS, UNAUTHENTICATED, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user that the request acts as.
pub(super) fn impersonate(user: Arc<User>, headers: &mut HeaderMap) -> Result<Arc<User>, Refusal> {
    if !headers
        .keys()
        .any(|name| name.as_str().starts_with("impersonate-"))
    {
        return Ok(user);
    }
    let wanted = wanted_user(headers)?;
    if !user.is_in(MASTERS) {
        let (wanted, name) = (&wanted.name, &user.name);
        return Err(Refusal::Impersonation {
            user: wanted.clone(),
            why: format!(
                "User {name:?} cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
            ),
        });
    }
    let names: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("impersonate-"))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
    Ok(authenticated(wanted))
}

fn wanted_user(headers: &HeaderMap) -> Result<User, Refusal> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let name = text(USER);
    if name.is_empty() {
        return Err(Refusal::BadRequest(
            "impersonation headers without impersonating a user".to_owned(),
        ));
    }
    let groups = headers
        .get_all(GROUP)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut groups: Vec<String> = groups.map(str::to_owned).collect();
    if groups.is_empty() {
        groups = service_account_groups(&name);
    }
    if name == ANONYMOUS && groups.is_empty() {
        groups.push(UNAUTHENTICATED.to_owned());
    }
    Ok(User {
        name,
        uid: text(UID),
        groups,
        extra: extra(headers),
    })
}

/// A service account is in its two groups without being told so.
fn service_account_groups(name: &str) -> Vec<String> {
    let account = name
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, _)) => {
            vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ]
        }
        None => Vec::new(),
    }
}

fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else {
            continue;
        };
        if let Ok(value) = value.to_str() {
            extra.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_administrator_acts_as_others() {
        let mut asked = headers(&[
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-extra-scope", "x"),
            ("accept", "*/*"),
        ]);
        let user = impersonate(Arc::new(User::admin()), &mut asked).unwrap();
        assert_eq!(user.name, "bob");
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["scope"], ["x"]);
        assert_eq!(asked.len(), 1, "the headers are gone");
    }

    #[test]
    fn service_accounts_have_their_groups() {
        let mut asked = headers(&[("impersonate-user", "system:serviceaccount:ns:me")]);
        let user = impersonate(Arc::new(User::admin()), &mut asked).unwrap();
        assert_eq!(
            user.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated"
            ]
        );
    }

    #[test]
    fn others_may_not_act_as_others() {
        let eve = Arc::new(User {
            name: "eve".into(),
            ..User::default()
        });
        let refused = impersonate(eve, &mut headers(&[("impersonate-user", "bob")])).unwrap_err();
        assert!(matches!(refused, Refusal::Impersonation { .. }));
        assert!(
            impersonate(
                Arc::new(User::admin()),
                &mut headers(&[("impersonate-group", "b")])
            )
            .is_err()
        );
    }
}
