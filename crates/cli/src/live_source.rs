//! A collection that outlives its server.
//!
//! A server that was started anew may have new certificates in its kubeconfig, and, if it was in memory, a history
//! that has nothing to do with the one before, whatever its versions say.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skopos_client::{Api, Call, Client, Error};
use skopos_object::{ListRequest, ListStream, ListWatch, ListWatchError, WatchRequest, WatchStream};

use crate::connection::Connection;

/// An [`Api`] that connects anew, and looks whether it meets the same cluster, after it was in [`doubt`](Self::doubt).
#[derive(Debug)]
pub(crate) struct LiveSource {
    connection: Connection,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    api: Api,
    /// Which cluster it is, as far as it can be known.
    cluster: Option<String>,
    doubted: bool,
    /// Another cluster answers than before.
    other: bool,
}

impl LiveSource {
    /// Reads through `api` first.
    pub(crate) async fn new(connection: Connection, api: Api) -> Self {
        let cluster = cluster(api.client()).await.unwrap_or_default();
        let state = Mutex::new(State {
            api,
            cluster,
            doubted: false,
            other: false,
        });
        Self { connection, state }
    }

    /// The server was away: connects anew before the next request.
    pub(crate) fn doubt(&self) {
        self.state().doubted = true;
    }

    /// Reads through another api from now on, in which nothing is known yet.
    pub(crate) async fn replace(&self, api: Api) {
        let cluster = cluster(api.client()).await.unwrap_or_default();
        *self.state() = State {
            api,
            cluster,
            doubted: false,
            other: false,
        };
    }

    /// Says whether another cluster answers than before.
    pub(crate) fn is_other(&self) -> bool {
        self.state().other
    }

    /// Says, once, that another cluster answers than before, so that only a list from the beginning helps.
    pub(crate) fn take_other(&self) -> bool {
        std::mem::take(&mut self.state().other)
    }

    pub(crate) fn client(&self) -> Client {
        self.state().api.client().clone()
    }

    async fn api(&self) -> Result<Api, ListWatchError> {
        let (api, known, doubted) = {
            let state = self.state();
            (state.api.clone(), state.cluster.clone(), state.doubted)
        };
        if !doubted {
            return Ok(api);
        }
        // Where the kubeconfig is gone, the server may come back under the old one.
        let api = match self.connection.client().await {
            Ok(client) => api.with_client(&client),
            Err(_) => api,
        };
        let now = cluster(api.client()).await?;
        let other = matches!((&known, &now), (Some(known), Some(now)) if known != now);
        let mut state = self.state();
        state.api = api.clone();
        state.cluster = now.or(known);
        state.doubted = false;
        state.other |= other;
        if other {
            return Err(ListWatchError::Unavailable(
                "another cluster answers than before".into(),
            ));
        }
        Ok(api)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListWatch for LiveSource {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>> {
        async { ListWatch::list(&self.api().await?, request).await }.boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        async { ListWatch::watch(&self.api().await?, request).await }.boxed()
    }
}

/// The identity of a cluster: by convention the uid of this namespace. Nothing where we may not read it.
async fn cluster(client: &Client) -> Result<Option<String>, Error> {
    match client.call(&Call::get("/api/v1/namespaces/kube-system")).await {
        Ok(answer) => Ok(answer.value["metadata"]["uid"].as_str().map(str::to_owned)),
        Err(error)
            if error
                .status()
                .is_some_and(|status| matches!(status.code, 403 | 404)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
