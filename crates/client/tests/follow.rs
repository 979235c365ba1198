//! The dynamic client against a scripted server: each test says which requests must come and what is answered.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use futures_util::StreamExt as _;
use skopos_client::{Api, Error, Follow, Follower, ListParams, Selection, discover};
use skopos_object::{ListItem, ListRequest, ListWatch, WatchEvent, WatchRequest};
use support::{Exchange, GONE, event, exchange, list, refused, resource, scripted, thing};

fn namespace(uid: &str) -> String {
    format!(r#"{{"kind":"Namespace","metadata":{{"name":"kube-system","uid":"{uid}"}}}}"#)
}

const KUBE_SYSTEM: &[&str] = &["GET /api/v1/namespaces/kube-system"];

/// Follows until so many things were reported.
async fn follow(script: Vec<Exchange>, n: usize) -> Vec<String> {
    let (client, left) = scripted(script);
    let mut follower = Follower::new(Api::all(&client, &resource()), Selection::default());
    let mut seen = Vec::new();
    for _ in 0..n {
        seen.push(match follower.next().await {
            Follow::Listing(why) => format!("listing {why:?}"),
            Follow::Item(object) => format!("item {}", object.key()),
            Follow::Listed { resource_version } => format!("listed {resource_version}"),
            Follow::Applied(object) => format!("applied {}@{}", object.key(), object.resource_version()),
            Follow::Deleted(object) => format!("deleted {}", object.key()),
            Follow::Trouble { error, .. } => format!("trouble: {error}"),
            Follow::Resumed => "resumed".to_owned(),
        });
    }
    assert_eq!(left.lock().unwrap().len(), 0, "requests that did not come");
    seen
}

#[tokio::test(start_paused = true)]
async fn resumes_after_the_last_event_or_bookmark() {
    let bookmark = r#"{"kind":"Thing","metadata":{"resourceVersion":"9"}}"#;
    let script = vec![
        exchange(
            &["/apis/x.io/v1/things?limit=500"],
            200,
            list(&[thing("a", 3)], 5, ""),
        ),
        exchange(KUBE_SYSTEM, 200, namespace("one")),
        exchange(
            &["watch=true", "resourceVersion=5"],
            200,
            event("MODIFIED", &thing("a", 7)),
        ),
        exchange(
            &["resourceVersion=7"],
            200,
            &(event("DELETED", &thing("a", 8)) + &event("BOOKMARK", bookmark)),
        ),
        exchange(&["resourceVersion=9"], 200, event("ADDED", &thing("b", 10))),
    ];
    let expect = [
        "listing First",
        "item n/a",
        "listed 5",
        "applied n/a@7",
        "deleted n/a",
        "applied n/b@10",
    ];
    assert_eq!(follow(script, 6).await, expect);
}

#[tokio::test(start_paused = true)]
async fn lists_again_when_the_history_is_gone() {
    let script = vec![
        exchange(&["things?limit"], 200, list(&[thing("a", 3)], 5, "")),
        exchange(KUBE_SYSTEM, 403, "{}"),
        exchange(&["resourceVersion=5"], 200, event("ERROR", GONE)),
        exchange(&["things?limit"], 200, list(&[], 9, "")),
        exchange(KUBE_SYSTEM, 403, "{}"),
        exchange(&["resourceVersion=9"], 410, GONE),
        exchange(&["things?limit"], 200, list(&[], 11, "")),
        exchange(KUBE_SYSTEM, 403, "{}"),
    ];
    let expect = [
        "listing First",
        "item n/a",
        "listed 5",
        "listing Expired",
        "listed 9",
        "listing Expired",
        "listed 11",
    ];
    assert_eq!(follow(script, 7).await, expect);
}

#[tokio::test(start_paused = true)]
async fn goes_on_where_it_was_when_the_same_server_comes_back() {
    let script = vec![
        exchange(&["things?limit"], 200, list(&[], 5, "")),
        exchange(KUBE_SYSTEM, 200, namespace("one")),
        refused(&["resourceVersion=5"]),
        refused(KUBE_SYSTEM),
        refused(&["things?limit=1"]),
        exchange(KUBE_SYSTEM, 200, namespace("one")),
        exchange(&["things?limit=1"], 200, list(&[], 6, "")),
        exchange(
            &["watch=true", "resourceVersion=5"],
            200,
            event("ADDED", &thing("a", 6)),
        ),
    ];
    let trouble = "trouble: cannot reach the API server at scripted";
    let expect = [
        "listing First",
        "listed 5",
        trouble,
        trouble,
        "resumed",
        "applied n/a@6",
    ];
    assert_eq!(follow(script, 6).await, expect);
}

#[tokio::test(start_paused = true)]
async fn compares_anew_when_another_server_comes_back() {
    for (uid, newest) in [("two", 9), ("one", 2)] {
        let script = vec![
            exchange(&["things?limit"], 200, list(&[], 5, "")),
            exchange(KUBE_SYSTEM, 200, namespace("one")),
            refused(&["resourceVersion=5"]),
            exchange(KUBE_SYSTEM, 200, namespace(uid)),
            exchange(&["things?limit=1"], 200, list(&[], newest, "")),
            exchange(&["things?limit=500"], 200, list(&[], newest, "")),
            exchange(KUBE_SYSTEM, 200, namespace(uid)),
        ];
        let seen = follow(script, 5).await;
        assert_eq!(
            seen[3..],
            ["listing OtherHistory".to_owned(), format!("listed {newest}")],
            "{uid}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_breaks_off_is_begun_anew() {
    let script = vec![
        exchange(&["things?limit"], 200, r#"{"items":[{"metadata":{"name":"a"}}"#),
        exchange(&["things?limit"], 200, list(&[thing("b", 1)], 5, "")),
        exchange(KUBE_SYSTEM, 200, namespace("one")),
    ];
    let seen = follow(script, 6).await;
    assert!(
        seen[2].starts_with("trouble: unexpected answer to GET /apis/x.io/v1/things"),
        "{seen:?}"
    );
    assert_eq!(seen[3..], ["listing First", "item n/b", "listed 5"]);
}

#[tokio::test]
async fn list_goes_through_all_pages() {
    let script = vec![
        exchange(
            &["limit=2", "labelSelector=a%3Db"],
            200,
            list(&[thing("a", 1), thing("b", 2)], 5, "next/page"),
        ),
        exchange(
            &["limit=2", "continue=next%2Fpage", "labelSelector=a%3Db"],
            200,
            list(&[thing("c", 3)], 5, ""),
        ),
    ];
    let (client, _) = scripted(script);
    let params = ListParams {
        limit: 2,
        label_selector: "a=b".into(),
        ..ListParams::default()
    };
    let mut list = Api::namespaced(&client, &resource(), "n").list(&params);
    let mut names = Vec::new();
    while let Some(object) = list.next().await.unwrap() {
        names.push(object.name().to_owned());
    }
    assert_eq!(
        (names, list.meta().resource_version.as_str()),
        (vec!["a".into(), "b".into(), "c".into()], "5")
    );
}

#[tokio::test]
async fn serves_informers_as_a_list_watch() {
    let script = vec![
        exchange(
            &["limit=1", "resourceVersionMatch=NotOlderThan"],
            200,
            list(&[thing("a", 1)], 5, "more"),
        ),
        exchange(
            &["watch=true", "resourceVersion=5"],
            200,
            &(event("ADDED", &thing("b", 6)) + &event("ERROR", GONE)),
        ),
    ];
    let (client, _) = scripted(script);
    let api = Api::all(&client, &resource());
    let request = ListRequest {
        limit: Some(1),
        resource_version: "3".into(),
        ..ListRequest::default()
    };
    let page = ListWatch::list(&api, request).await.unwrap();
    let items: Vec<ListItem> = page.map(Result::unwrap).collect().await;
    let [ListItem::Object(_), ListItem::End(end)] = items.as_slice() else {
        panic!("{items:?}")
    };
    assert_eq!(end.continue_token.as_deref(), Some("more"));
    let request = WatchRequest {
        from: end.resource_version.clone(),
        ..WatchRequest::default()
    };
    let mut events = ListWatch::watch(&api, request).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(object) if object.name() == "b"));
    assert!(events.next().await.unwrap().unwrap_err().is_expired());
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn refusals_keep_the_words_of_the_server() {
    let (client, _) = scripted(vec![
        exchange(&[], 410, GONE),
        exchange(&[], 502, "<html>bad gateway</html>"),
    ]);
    let api = Api::all(&client, &resource());
    let gone = api.get("a").await.unwrap_err();
    assert_eq!(
        (gone.to_string().as_str(), gone.is_expired()),
        ("too old resource version: 7 (9)", true)
    );
    let proxy = api.get("a").await.unwrap_err();
    assert!(
        matches!(&proxy, Error::Refused(status) if status.code == 502),
        "{proxy:?}"
    );
    assert_eq!(proxy.to_string(), "<html>bad gateway</html>");
}

#[tokio::test]
async fn discovery_falls_back_to_one_request_per_group() {
    let script = vec![
        exchange(&["GET /api"], 200, r#"{"kind":"APIVersions","versions":["v1"]}"#),
        exchange(
            &["GET /apis"],
            200,
            r#"{"kind":"APIGroupList","groups":[{"name":"x.io","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}"#,
        ),
        exchange(
            &["GET /api/v1"],
            200,
            r#"{"resources":[{"name":"pods","singularName":"pod","kind":"Pod","namespaced":true,"verbs":["list"]}]}"#,
        ),
        exchange(&["GET /apis/x.io/v1"], 503, "down"),
    ];
    let (client, _) = scripted(script);
    let catalog = discover(&client).await.unwrap();
    assert_eq!(catalog.resolve("pod").unwrap().resource.plural, "pods");
    assert_eq!(catalog.failures[0].to_string(), "x.io/v1: down");
}
