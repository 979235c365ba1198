//! Whom a client acts as.

use std::fmt;

use crate::Client;

/// A service account of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// The user that the account is to an API server.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups that an API server puts the account in.
    pub fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl fmt::Display for ServiceAccount {
    /// Writes `namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Client {
    /// The same connection and limits, where each request is made as a service account. Whoever is connected needs the
    /// verb `impersonate` on it.
    ///
    /// Only the user is named: the server adds the groups of an account by itself, and asks for more rights from who
    /// names them. What is sent through [`kube`](Self::kube) is not impersonated.
    #[must_use]
    pub fn acting_as(&self, account: &ServiceAccount) -> Self {
        let mut client = self.clone();
        client.acting_as = Some(account.user().into());
        client
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use crate::Call;

    /// A client that notes as whom it asks, and is answered with nothing.
    fn noting(asked: &Arc<Mutex<Vec<Option<String>>>>) -> Client {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let user = request.headers().get("impersonate-user");
            asked
                .lock()
                .unwrap()
                .push(user.map(|user| user.to_str().unwrap().to_owned()));
            async { Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        Client::new(kube::Client::new(service, "default"), "in process")
    }

    #[tokio::test]
    async fn only_who_acts_as_an_account_says_so() {
        let asked = Arc::default();
        let client = noting(&asked);
        let account = ServiceAccount {
            namespace: "ops".into(),
            name: "writer".into(),
        };
        for client in [&client.acting_as(&account), &client] {
            client.call(&Call::get("/api")).await.unwrap();
        }
        let expected = [Some("system:serviceaccount:ops:writer".to_owned()), None];
        assert_eq!(*asked.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_said_is_not_left_out() {
        let asked = Arc::default();
        let account = ServiceAccount {
            namespace: "ops".into(),
            name: "a\nb".into(),
        };
        let answer = noting(&asked).acting_as(&account).call(&Call::get("/api")).await;
        assert!(
            matches!(answer, Err(crate::Error::Unsendable { .. })),
            "{answer:?}"
        );
        assert!(asked.lock().unwrap().is_empty());
    }
}
