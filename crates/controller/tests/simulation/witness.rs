//! Stands beside the server, and sees whose writes land while who may write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use skopos_controller::Fence;

/// Knows who leads by true time, whatever the replicas' clocks show, and what was made for whom. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    fences: Arc<Mutex<BTreeMap<String, Fence>>>,
    /// How many maps may still be made for an app, by its UID.
    due: Arc<Mutex<BTreeMap<String, i64>>>,
    wrongs: Arc<Mutex<Vec<String>>>,
}

impl Witness {
    pub(crate) fn knows(&self, replica: &str, fence: &Fence) {
        self.fences
            .lock()
            .unwrap()
            .insert(replica.to_owned(), fence.clone());
    }

    /// What was seen that must not happen.
    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.wrongs.lock().unwrap().clone()
    }

    /// The server, as a replica's requests reach it.
    pub(crate) fn of(
        &self,
        server: &kube::Client,
        replica: &str,
    ) -> impl tower::Service<Request<Body>, Response = Response<Body>, Error = kube::Error, Future: Send>
    + Clone
    + Send
    + 'static {
        let (witness, replica, server) = (self.clone(), Arc::<str>::from(replica), server.clone());
        tower::service_fn(move |request: Request<Body>| {
            witness.look(&replica, &request);
            let (witness, replica, server) = (witness.clone(), Arc::clone(&replica), server.clone());
            async move {
                let makes = request.method() == Method::POST && request.uri().path().ends_with("/configmaps");
                if !makes {
                    return server.send(request).await;
                }
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let map: Value = serde_json::from_slice(&body).unwrap();
                let answer = server.send(Request::from_parts(head, Body::from(body))).await?;
                if answer.status().is_success() {
                    witness.made(&replica, owner(&map));
                }
                Ok(answer)
            }
        })
    }

    /// Somebody deletes a map that was made for an app: another may be made.
    pub(crate) fn deletes(&self, map: &Value) {
        self.count(owner(map), 1);
    }

    /// A map was made for an app.
    fn made(&self, replica: &str, owner: &str) {
        if self.count(owner, -1) < 0 {
            let wrong = format!("{replica} made a map for {owner}, which has one");
            self.wrongs.lock().unwrap().push(wrong);
        }
    }

    /// How many maps may still be made for an app: one at first.
    fn count(&self, owner: &str, by: i64) -> i64 {
        let mut due = self.due.lock().unwrap();
        let due = due.entry(owner.to_owned()).or_insert(1);
        *due += by;
        *due
    }

    fn look(&self, replica: &str, request: &Request<Body>) {
        let path = request.uri().path();
        if request.method() == Method::GET || path.contains("/leases") {
            return;
        }
        let leads = |(other, fence): (&String, &Fence)| fence.is_open().then(|| other.clone());
        let leaders: Vec<String> = self.fences.lock().unwrap().iter().filter_map(leads).collect();
        if leaders != [replica] {
            let wrong = format!("{replica} sent {} {path} while {leaders:?} led", request.method());
            self.wrongs.lock().unwrap().push(wrong);
        }
    }
}

/// The UID of the app that a map was made for.
fn owner(map: &Value) -> &str {
    map["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap()
}
