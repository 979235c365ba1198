//! Collections found by name, against a scripted server.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::Duration;

use skopos_client::Discovery;
use skopos_object::{CollectionName, Collections as _, OpenError};
use support::{Exchange, exchange, refused, scripted};

const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","items":[]}"#;

/// An overview of one group, whose versions are given as `("v1", "Current")` with the resource `things`.
fn overview(versions: &[(&str, &str)]) -> Vec<Exchange> {
    let things = r#"{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","singularResource":"thing","shortNames":["th"],"verbs":["list","watch"]}"#;
    let versions: Vec<String> = versions
        .iter()
        .map(|(version, freshness)| {
            let resources = if *freshness == "Current" { things } else { "" };
            format!(r#"{{"version":"{version}","freshness":"{freshness}","resources":[{resources}]}}"#)
        })
        .collect();
    let items = if versions.is_empty() {
        String::new()
    } else {
        format!(
            r#"{{"metadata":{{"name":"x.io"}},"versions":[{}]}}"#,
            versions.join(",")
        )
    };
    let groups = format!(r#"{{"kind":"APIGroupDiscoveryList","items":[{items}]}}"#);
    vec![
        exchange(&["GET /api "], 200, CORE),
        exchange(&["GET /apis "], 200, groups),
    ]
}

fn things() -> CollectionName {
    CollectionName::new("x.io", "things")
}

#[tokio::test(start_paused = true)]
async fn a_name_is_found_by_kind_plural_singular_and_short_name() {
    let (client, left) = scripted(overview(&[("v2", "Current"), ("v1", "Current")]));
    let discovery = Discovery::new(&client);
    for word in ["things", "thing", "Thing", "th"] {
        let found = discovery.open(&CollectionName::new("x.io", word)).await.unwrap();
        assert_eq!(found.kind.to_string(), "x.io/v2, Kind=Thing", "{word}");
    }
    let pinned = CollectionName {
        version: Some("v1".into()),
        ..things()
    };
    assert_eq!(discovery.open(&pinned).await.unwrap().kind.version, "v1");
    assert_eq!(discovery.resolve("th.v1.x.io").await.unwrap().version, "v1");
    assert_eq!(left.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_has_come_is_found_at_once() {
    let mut script = overview(&[("v1", "Stale")]);
    script.extend(overview(&[("v1", "Current")]));
    let (client, _) = scripted(script);
    let discovery = Discovery::new(&client);
    let _ = discovery.catalog().await.unwrap();
    assert_eq!(discovery.open(&things()).await.unwrap().plural, "things");
}

#[tokio::test(start_paused = true)]
async fn reopening_asks_the_server_and_not_the_memory() {
    let mut script = overview(&[("v1", "Current")]);
    script.extend(overview(&[("v2", "Current")]));
    script.extend(overview(&[]));
    script.push(exchange(&["GET /apis/x.io "], 404, "not found"));
    let (client, left) = scripted(script);
    let discovery = Discovery::new(&client);
    for _ in 0..2 {
        assert_eq!(discovery.open(&things()).await.unwrap().kind.version, "v1");
    }
    assert_eq!(discovery.reopen(&things()).await.unwrap().kind.version, "v2");
    let gone = discovery.reopen(&things()).await;
    assert!(matches!(gone, Err(OpenError::Missing(_))));
    assert_eq!(left.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_share_one_question() {
    let mut script = overview(&[("v1", "Current")]);
    script.extend(overview(&[("v1", "Current")]));
    let (client, left) = scripted(script);
    let discovery = Discovery::with_interval(&client, Duration::from_secs(5));
    let begin = tokio::time::Instant::now();
    let missing = CollectionName::new("x.io", "others");
    let answers = futures_util::future::join_all((0..50).map(|_| discovery.open(&missing))).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(OpenError::Missing(_))))
    );
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    assert_eq!(left.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_stale_or_not_listed_is_not_a_deleted_kind() {
    let open = async |group: Exchange, versions: &[(&str, &str)]| {
        let mut script = overview(versions);
        script.extend(overview(versions));
        script.push(group);
        let (client, _) = scripted(script);
        Discovery::new(&client).open(&things()).await.unwrap_err()
    };
    let unused = || exchange(&["unused"], 200, "{}");
    let stale = open(unused(), &[("v1", "Stale")]).await;
    assert!(matches!(stale, OpenError::Unavailable(_)), "{stale:?}");
    let unlisted = open(exchange(&["GET /apis/x.io "], 200, "{}"), &[]).await;
    assert!(matches!(unlisted, OpenError::Unavailable(_)), "{unlisted:?}");
    let away = open(exchange(&["GET /apis/x.io "], 503, "{}"), &[]).await;
    assert!(matches!(away, OpenError::Unavailable(_)), "{away:?}");
    let gone = open(exchange(&["GET /apis/x.io "], 404, "{}"), &[]).await;
    assert!(matches!(gone, OpenError::Missing(_)), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_not_asked_by_everyone() {
    let (client, left) = scripted(vec![
        refused(&["GET /api "]),
        refused(&["GET /apis "]),
        refused(&["unused"]),
    ]);
    let discovery = Discovery::new(&client);
    let name = things();
    let answers = futures_util::future::join_all((0..50).map(|_| discovery.open(&name))).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(OpenError::Unavailable(_))))
    );
    assert_eq!(left.lock().unwrap().len(), 1);
}
