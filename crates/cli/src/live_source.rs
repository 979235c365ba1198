//! A collection that outlives its server: one that was started anew may have new certificates in its kubeconfig.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skopos_client::{Api, Client};
use skopos_object::{
    HistoryId, ListRequest, ListStream, ListWatch, ListWatchError, WatchRequest, WatchStream,
};

use crate::connection::Connection;

/// An [`Api`] that connects anew after it was in [`doubt`](Self::doubt).
#[derive(Debug)]
pub(crate) struct LiveSource {
    connection: Connection,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    api: Api,
    doubted: bool,
}

impl LiveSource {
    /// Reads through `api` first.
    pub(crate) fn new(connection: Connection, api: Api) -> Self {
        let doubted = false;
        let state = Mutex::new(State { api, doubted });
        Self { connection, state }
    }

    /// The server was away: connects anew before the next request.
    pub(crate) fn doubt(&self) {
        self.state().doubted = true;
    }

    /// Reads through another api from now on.
    pub(crate) fn replace(&self, api: Api) {
        let doubted = false;
        *self.state() = State { api, doubted };
    }

    pub(crate) fn client(&self) -> Client {
        self.state().api.client().clone()
    }

    async fn api(&self) -> Api {
        let (api, doubted) = {
            let state = self.state();
            (state.api.clone(), state.doubted)
        };
        if !doubted {
            return api;
        }
        // Where the kubeconfig is gone, the server may come back under the old one.
        let api = match self.connection.client().await {
            Ok(client) => api.with_client(&client),
            Err(_) => api,
        };
        self.replace(api.clone());
        api
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListWatch for LiveSource {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>> {
        async { ListWatch::list(&self.api().await, request).await }.boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        async { ListWatch::watch(&self.api().await, request).await }.boxed()
    }

    fn history(&self) -> BoxFuture<'_, Result<Option<HistoryId>, ListWatchError>> {
        async { ListWatch::history(&self.api().await).await }.boxed()
    }
}
