//! Which history a server has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skopos_object::{HistoryId, ListWatchError};

use crate::{Call, Client, Error, resource::escape};

/// The namespace whose uid is, by convention, the identity of a cluster.
const OF_CLUSTER: &str = "kube-system";

/// Asks a server for its history, once for all who ask at the same time: after an outage those are all informers.
#[derive(Debug)]
pub(crate) struct HistoryOfServer {
    /// The namespace whose uid tells it.
    namespace: String,
    /// Held while the server is asked. Taken before `asked`, which is never held for long.
    asking: tokio::sync::Mutex<()>,
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    /// How many questions were begun.
    begun: u64,
    /// The last one that was answered. Who asks may go away before that.
    answered: Option<Answered>,
}

#[derive(Clone, Debug)]
struct Answered {
    number: u64,
    answer: Result<Option<HistoryId>, Arc<Error>>,
}

impl Default for HistoryOfServer {
    fn default() -> Self {
        Self::of(OF_CLUSTER)
    }
}

impl HistoryOfServer {
    pub(crate) fn of(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            asking: tokio::sync::Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// Returns an answer to a question that was begun after this call.
    pub(crate) async fn ask(&self, client: &Client) -> Result<Option<HistoryId>, ListWatchError> {
        let before = self.asked().begun;
        let _turn = self.asking.lock().await;
        let shared = self.asked().answered.clone();
        if let Some(answered) = shared.filter(|answered| answered.number > before) {
            return answered.answer.map_err(failure);
        }
        let number = {
            let mut asked = self.asked();
            asked.begun += 1;
            asked.begun
        };
        let answer = uid(client, &self.namespace).await.map_err(Arc::new);
        self.asked().answered = Some(Answered {
            number,
            answer: answer.clone(),
        });
        answer.map_err(failure)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The uid of a namespace. Nothing where we may not read it.
async fn uid(client: &Client, namespace: &str) -> Result<Option<HistoryId>, Error> {
    let path = format!("/api/v1/namespaces/{}", escape(namespace));
    let answer = client.call(&Call::get(path)).await;
    match answer {
        Ok(answer) => {
            let uid = answer.value["metadata"]["uid"].as_str();
            Ok(uid.map(|uid| HistoryId(uid.to_owned())))
        }
        Err(error)
            if error
                .status()
                .is_some_and(|status| matches!(status.code, 401 | 403 | 404)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn failure(error: Arc<Error>) -> ListWatchError {
    match error.status() {
        Some(status) => ListWatchError::Refused(status.clone()),
        None => ListWatchError::Unavailable(error.into()),
    }
}
