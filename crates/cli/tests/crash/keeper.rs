//! Where the journal is kept.

use skopos_testkit::parts::{Nats, Postgres, USER};

/// A directory, or a server that is stopped and started.
pub(crate) struct Keeper {
    server: Option<(String, Server)>,
    is_up: bool,
}

enum Server {
    Postgres(Postgres),
    Nats(Nats),
}

impl Keeper {
    pub(crate) fn directory() -> Self {
        Self {
            server: None,
            is_up: true,
        }
    }

    pub(crate) async fn postgres() -> Self {
        let server = Postgres::start(None).await;
        let (user, password) = USER;
        let url = format!("postgres://{user}:{password}@{}/postgres", server.address());
        Self {
            server: Some((url, Server::Postgres(server))),
            is_up: true,
        }
    }

    pub(crate) async fn nats() -> Self {
        let server = Nats::start(None).await;
        let (user, password) = USER;
        let url = format!("nats://{user}:{password}@{}", server.address());
        Self {
            server: Some((url, Server::Nats(server))),
            is_up: true,
        }
    }

    /// What it is, in one word.
    pub(crate) fn name(&self) -> &'static str {
        match &self.server {
            None => "directory",
            Some((_, Server::Postgres(_))) => "postgres",
            Some((_, Server::Nats(_))) => "nats",
        }
    }

    /// The address of the server.
    pub(crate) fn url(&self) -> Option<&str> {
        self.server.as_ref().map(|(url, _)| url.as_str())
    }

    /// Stops the server, or starts it again. Returns whether it was stopped.
    pub(crate) async fn toggle(&mut self) -> bool {
        let Some((_, server)) = &mut self.server else {
            return false;
        };
        match (server, self.is_up) {
            (Server::Postgres(server), true) => server.stop().await,
            (Server::Postgres(server), false) => server.start_again().await,
            (Server::Nats(server), true) => server.stop().await,
            (Server::Nats(server), false) => server.start_again().await,
        }
        self.is_up = !self.is_up;
        !self.is_up
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(crate) async fn up(&mut self) {
        if !self.is_up {
            self.toggle().await;
        }
    }
}
