//! Over which connections a client's watches travel.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use futures_util::future::join_all;
use skopos_client::{Api, Client, ListParams, Resource, Sources, WatchParams, connect};
use skopos_object::{GroupVersionKind, WatchEvent};
use skopos_testkit::TestServer;

async fn client(server: &mut TestServer) -> Client {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, server.serve().await).unwrap();
    let explicit = Some(path);
    connect(&Sources {
        explicit,
        ..Sources::default()
    })
    .await
    .unwrap()
}

/// How many connections this process has to the server of `client`.
fn connections(client: &Client) -> usize {
    let port: u16 = client.server().rsplit_once(':').unwrap().1.parse().unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    let open = table.lines().skip(1).filter(|line| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(&remote) && fields.next() == Some("01")
    });
    open.count()
}

#[tokio::test]
async fn few_watches_have_a_connection_each_and_many_share_some() {
    let mut server = TestServer::start().await;
    let client = client(&mut server).await;
    let kind = GroupVersionKind::new("", "v1", "ConfigMap");
    let maps = Api::all(&client, &Resource::known(&kind, "configmaps", true));
    let mut list = maps.list(&ListParams::default());
    while list.next().await.unwrap().is_some() {}
    let params = WatchParams {
        resource_version: list.meta().resource_version.clone(),
        ..WatchParams::default()
    };
    let mut watches = Vec::new();
    for (n_watches, n_connections) in [(16, 16), (17, 17), (116, 17), (117, 18), (250, 19)] {
        let more = (watches.len()..n_watches).map(|_| maps.watch(&params));
        watches.extend(join_all(more).await.into_iter().map(Result::unwrap));
        // One more, over which the list came.
        assert_eq!(connections(&client), n_connections + 1, "{n_watches} watches");
    }
    server
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}")
        .await;
    for watch in &mut watches {
        let event = watch.next().await.unwrap();
        assert!(matches!(event, Some(WatchEvent::Added(map)) if map.name() == "a"));
    }
}
