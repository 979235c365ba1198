//! The dynamic client against a scripted server: each test says which requests must come and what is answered.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use futures_util::StreamExt as _;
use skopos_client::{Api, Error, ListParams, discover};
use skopos_object::{ListItem, ListRequest, ListWatch, WatchEvent, WatchRequest};
use support::{GONE, event, exchange, list, resource, scripted, thing};

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
