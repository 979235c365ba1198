//! A peer that accepts and never answers, and connections that are silently gone: nobody closes them.

use std::{fs, net::SocketAddr, time::Duration};

use skopos_sink::{Destination, Event};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::support::{deliver, events};

/// Stands before a server and falls silent on demand.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// How often it fell silent; odd while it is.
    turn: watch::Sender<u64>,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// Forwards to a server, from the beginning or once it is woken.
    pub(crate) async fn start(server: String, is_silent: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let turn = watch::Sender::new(u64::from(is_silent));
        let follow = turn.subscribe();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(forward(stream, server.clone(), follow.clone()));
            }
        });
        Self {
            address,
            turn,
            _serving: serving,
        }
    }

    /// From now on nothing passes, and nobody is told.
    pub(crate) fn fall_silent(&self) {
        self.turn.send_modify(|turn| *turn += 1);
    }

    /// New connections are served again; those of before stay as they are.
    pub(crate) fn wake(&self) {
        self.turn.send_modify(|turn| *turn += 1);
    }
}

async fn forward(mut stream: TcpStream, server: String, mut turn: watch::Receiver<u64>) {
    let began = *turn.borrow_and_update();
    if began.is_multiple_of(2)
        && let Ok(mut other) = TcpStream::connect(server).await
    {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut stream, &mut other) => return,
            _ = turn.wait_for(|now| *now != began) => {}
        }
        stay(&stream, &other).await;
    }
    stay(&stream, &stream).await;
}

/// Both ends stay open and hear nothing any more.
async fn stay(_one: &TcpStream, _other: &TcpStream) {
    std::future::pending::<()>().await;
}

/// Delivers, falls silent, and goes on: whoever waits gives up as the engine does, and what comes later arrives.
pub(crate) async fn check_silence(proxy: &Proxy, destination: &dyn Destination) -> Vec<Event> {
    let all = events(0..12, 3);
    if proxy.turn.borrow().is_multiple_of(2) {
        deliver(destination, &all[..4]).await;
        proxy.fall_silent();
    } else {
        check_unanswered(destination, &all[..1]).await;
        proxy.wake();
        deliver(destination, &all[..4]).await;
        return all[..4].to_vec();
    }
    // The connection of before, then a new one.
    for _ in 0..2 {
        check_unanswered(destination, &all[4..5]).await;
    }
    proxy.wake();
    deliver(destination, &all[4..]).await;
    all
}

/// Many attempts that nobody answers leave no threads of this name behind. Other tests may have a few.
pub(crate) async fn check_threads_end(destination: &dyn Destination, name: &str) {
    for n in 0..30 {
        check_unanswered_for(Duration::from_millis(30), destination, &events(n..n + 1, 1)).await;
    }
    until_few(name).await;
}

/// Nor do many connections that fell silent.
pub(crate) async fn check_silent_threads_end(proxy: &Proxy, destination: &dyn Destination, name: &str) {
    for n in 0..20 {
        deliver(destination, &events(n..n + 1, 1)).await;
        proxy.fall_silent();
        check_unanswered_for(Duration::from_millis(30), destination, &events(n..n + 1, 1)).await;
        proxy.wake();
    }
    until_few(name).await;
}

async fn until_few(name: &str) {
    let mut n_threads = usize::MAX;
    for _ in 0..100 {
        n_threads = threads().iter().filter(|thread| *thread == name).count();
        if n_threads < 10 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{n_threads} threads {name} are left");
}

/// The names of all threads of this process.
pub(crate) fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // One may end while it is looked at.
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks
        .filter_map(|task| name(task.unwrap()))
        .map(|name| name.trim_end().to_owned())
        .collect()
}

/// Nobody ever answers, so this ends by the timeout of the caller, or because the destination gives up by itself.
async fn check_unanswered(destination: &dyn Destination, events: &[Event]) {
    check_unanswered_for(Duration::from_millis(500), destination, events).await;
}

async fn check_unanswered_for(timeout: Duration, destination: &dyn Destination, events: &[Event]) {
    let sending = destination.send(events);
    if let Ok(sent) = tokio::time::timeout(timeout, sending).await {
        assert_eq!(sent.n_delivered, 0);
        assert!(sent.failure.is_some());
    }
}
