//! A server that is gone without a word is noticed: by HTTP/2 pings where watches share a connection, by TCP where
//! nothing else asks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use kube::config::Kubeconfig;
use skopos_client::{Api, Client, ListParams, Resource, Sources, WatchParams, WatchStream, connect};
use skopos_object::GroupVersionKind;
use skopos_testkit::{TestServer, eventually};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// So many watches have a connection each; the next one shares one.
const OWN_CONNECTIONS: usize = 16;

/// Passes bytes on until it falls silent. Then it keeps its connections and says nothing any more.
struct Relay {
    address: SocketAddr,
    silent: CancellationToken,
}

impl Relay {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = CancellationToken::new();
        let heard = silent.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(stream, server.clone(), heard.clone()));
            }
        });
        Self { address, silent }
    }
}

async fn relay(mut client: TcpStream, server: String, silent: CancellationToken) {
    let mut server = TcpStream::connect(server).await.unwrap();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        () = silent.cancelled() => std::future::pending().await,
    }
}

/// A client of the server that goes through the relay.
async fn through_relay(server: &mut TestServer) -> (Relay, Client) {
    let mut config = Kubeconfig::from_yaml(&server.serve().await).unwrap();
    let cluster = config.clusters[0].cluster.as_mut().unwrap();
    let direct = cluster.server.take().unwrap();
    let relay = Relay::to(direct.strip_prefix("https://").unwrap().to_owned()).await;
    cluster.server = Some(format!("https://{}", relay.address));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, serde_json::to_string(&config).unwrap()).unwrap();
    let sources = Sources {
        explicit: Some(path),
        ..Sources::default()
    };
    (relay, connect(&sources).await.unwrap())
}

fn maps(client: &Client) -> Api {
    let kind = GroupVersionKind::new("", "v1", "ConfigMap");
    Api::all(client, &Resource::known(&kind, "configmaps", true))
}

/// Watches from now on.
async fn watches(maps: &Api, n: usize) -> Vec<WatchStream> {
    let mut list = maps.list(&ListParams::default());
    while list.next().await.unwrap().is_some() {}
    let params = WatchParams {
        resource_version: list.meta().resource_version.clone(),
        ..WatchParams::default()
    };
    let opened = join_all((0..n).map(|_| maps.watch(&params))).await;
    opened.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_shared_connection_that_answers_no_ping_is_given_up_within_a_minute() {
    let mut server = TestServer::start().await;
    let (relay, client) = through_relay(&mut server).await;
    let maps = maps(&client);
    let _own = watches(&maps, OWN_CONNECTIONS).await;
    let mut shared = watches(&maps, 1).await;
    relay.silent.cancel();
    // From here on nothing travels: only timers are left, and they need not be waited for.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let told = shared[0].next().await;
    assert!(told.is_err(), "{told:?}");
    let noticed = begun.elapsed();
    assert!(
        noticed > Duration::from_secs(20) && noticed < Duration::from_secs(60),
        "{noticed:?}"
    );
}

/// The timers of this process' connections to a port, as the kernel shows them: which one, and in how many
/// hundredths of a second.
fn timers(port: u16) -> Vec<(String, u64)> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let open = rows.filter(|fields| fields[2] == remote && fields[3] == "01");
    let timer = |fields: Vec<&str>| {
        let (which, when) = fields[5].split_once(':').unwrap();
        (which.to_owned(), u64::from_str_radix(when, 16).unwrap())
    };
    open.map(timer).collect()
}

#[tokio::test]
async fn every_connection_asks_after_half_a_minute_of_silence_whether_the_peer_is_there() {
    const KEEPALIVE: &str = "02";
    let mut server = TestServer::start().await;
    let (relay, client) = through_relay(&mut server).await;
    let maps = maps(&client);
    let _own = watches(&maps, OWN_CONNECTIONS).await;
    let _shared = watches(&maps, 1).await;
    let is_set = |(which, when): &(String, u64)| which == KEEPALIVE && *when <= 30 * 100;
    eventually(async || {
        let timers = timers(relay.address.port());
        // One more, over which the lists came.
        let all_set = timers.len() == OWN_CONNECTIONS + 2 && timers.iter().all(is_set);
        all_set.then_some(()).ok_or(format!("{timers:?}"))
    })
    .await;
}
