//! What informers rely on when they list and watch through [`Api`], against a scripted server.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::Write as _;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use futures_util::StreamExt as _;
use skopos_client::Api;
use skopos_object::{
    Content, ListItem, ListRequest, ListWatch, ListWatchError, ManagedFields, WatchEvent, WatchRequest,
};
use support::{Exchange, GONE, event, exchange, list, refused, resource, scripted, thing};

fn api(script: Vec<Exchange>) -> Api {
    Api::all(&scripted(script).0, &resource())
}

/// Lists one page and says what came.
async fn page(api: &Api) -> Vec<String> {
    let stream = ListWatch::list(api, ListRequest::default()).await.unwrap();
    stream
        .map(|item| match item {
            Ok(ListItem::Object(object)) => format!("{} {}", object.kind(), object.key()),
            Ok(ListItem::Malformed(malformed)) => format!(
                "malformed {} @{} {} bytes: {}",
                malformed.key.map(|key| key.to_string()).unwrap_or_default(),
                malformed.resource_version,
                malformed.text.len(),
                malformed.reason
            ),
            Ok(ListItem::End(end)) => format!("end @{}", end.resource_version),
            Err(error) => format!("error {error}"),
        })
        .collect()
        .await
}

/// Watches until the stream ends and says what came.
async fn watch(api: &Api) -> Vec<String> {
    let stream = ListWatch::watch(api, WatchRequest::default()).await.unwrap();
    stream
        .map(|event| match event {
            Ok(WatchEvent::Added(object)) => format!("added {}", object.key()),
            Ok(WatchEvent::Modified(object)) => format!("modified {}", object.key()),
            Ok(WatchEvent::Deleted(object)) => format!("deleted {}", object.key()),
            Ok(WatchEvent::Malformed { op, object }) => format!(
                "malformed {op:?} {} @{} {} bytes: {}",
                object.key.map(|key| key.to_string()).unwrap_or_default(),
                object.resource_version,
                object.text.len(),
                object.reason
            ),
            Ok(WatchEvent::Bookmark {
                resource_version,
                initial_events_end,
            }) => format!("bookmark @{resource_version} {initial_events_end}"),
            Err(error) => format!("error {error}: {}", std::error::Error::source(&error).unwrap()),
        })
        .collect()
        .await
}

#[tokio::test]
async fn one_unreadable_object_does_not_spoil_the_list() {
    let odd = r#"{"metadata":{"namespace":"n","name":"odd","resourceVersion":"4"},"spec":{"a":tru}}"#;
    let nameless = r#"{"kind":"Thing","metadata":{"resourceVersion":"5"}}"#;
    let items = [
        thing("a", 1),
        odd.into(),
        nameless.into(),
        "7".into(),
        thing("b", 2),
    ];
    for size in [7, 10_000] {
        let body = list(&items, 9, "");
        let seen = page(&api(vec![exchange(&[], 200, body).chunked(size)])).await;
        assert_eq!(seen.len(), 6, "{seen:?}");
        assert_eq!((seen[0].as_str(), seen[4].as_str()), ("Thing n/a", "Thing n/b"));
        assert!(
            seen[1].starts_with("malformed n/odd @4 82 bytes: object is not JSON"),
            "{}",
            seen[1]
        );
        assert!(
            seen[2].contains("@5") && seen[2].ends_with("it has no name"),
            "{}",
            seen[2]
        );
        assert!(
            seen[3].ends_with("1 bytes: expected a JSON object"),
            "{}",
            seen[3]
        );
        assert_eq!(seen[5], "end @9");
    }
}

#[tokio::test]
async fn one_unreadable_object_does_not_end_the_watch() {
    let odd = r#"{"metadata":{"namespace":"n","name":"a\"b","resourceVersion":"4"}}"#;
    let body = event("ADDED", &thing("a", 1))
        + &event("MODIFIED", odd)
        + &event("DELETED", "7")
        + "{\"type\":\"ADDED\"}\n"
        + &event("ADDED", &thing("b", 5));
    let seen = watch(&api(vec![exchange(&["watch=true"], 200, body)])).await;
    assert_eq!((seen[0].as_str(), seen[4].as_str()), ("added n/a", "added n/b"));
    assert!(seen[1].starts_with("malformed Updated n/a\"b @4"), "{}", seen[1]);
    assert!(seen[2].starts_with("malformed Deleted  @"), "{}", seen[2]);
    assert!(seen[3].starts_with("malformed Created  @ 0 bytes"), "{}", seen[3]);
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn an_object_too_large_is_reported_and_passed_over() {
    let filling = "x".repeat(17 << 20);
    let huge = format!(
        r#"{{"metadata":{{"name":"huge","namespace":"n","resourceVersion":"4"}},"data":"{filling}"}}"#
    );
    let items = [thing("a", 1), huge.clone(), thing("b", 2)];
    let body = list(&items, 9, "");
    let seen = page(&api(vec![exchange(&[], 200, body).chunked(1 << 20)])).await;
    let reason = "16384 bytes: it is larger than 16777216 bytes";
    assert_eq!(seen[1], format!("malformed n/huge @4 {reason}"));
    assert_eq!((seen.len(), seen[2].as_str()), (4, "Thing n/b"));

    let body = event("MODIFIED", &huge) + &event("ADDED", &thing("b", 5));
    let seen = watch(&api(vec![exchange(&[], 200, body).chunked(1 << 20)])).await;
    let reason = "16384 bytes: its event is larger than 16777216 bytes";
    assert_eq!(
        seen,
        [
            format!("malformed Updated n/huge @4 {reason}"),
            "added n/b".into()
        ]
    );
}

#[tokio::test]
async fn a_watch_that_makes_no_sense_is_an_error() {
    for line in ["nonsense\n", "{\"type\":\"SHOUTED\",\"object\":{}}\n", "{}\n"] {
        let seen = watch(&api(vec![exchange(&[], 200, line)])).await;
        assert!(
            seen.len() == 1 && seen[0].starts_with("error malformed answer"),
            "{seen:?}"
        );
    }
}

#[tokio::test]
async fn a_watch_cut_within_an_event_is_an_interruption() {
    let whole = event("ADDED", &thing("a", 1));
    let cut = whole.clone() + &whole[..whole.len() / 2];
    let seen = watch(&api(vec![exchange(&[], 200, cut)])).await;
    assert_eq!(seen[0], "added n/a");
    assert!(seen[1].starts_with("error source is not available"), "{seen:?}");
    let unended = whole.trim_end().to_owned();
    assert_eq!(
        watch(&api(vec![exchange(&[], 200, unended)])).await,
        ["added n/a"]
    );
}

#[tokio::test]
async fn only_a_true_annotation_ends_the_initial_events() {
    let bookmark = |end: &str| {
        event(
            "BOOKMARK",
            &format!(
                r#"{{"metadata":{{"resourceVersion":"9","annotations":{{"k8s.io/initial-events-end":"{end}"}}}}}}"#
            ),
        )
    };
    let body = bookmark("false") + &bookmark("true");
    let seen = watch(&api(vec![exchange(&[], 200, body)])).await;
    assert_eq!(seen, ["bookmark @9 false", "bookmark @9 true"]);
}

#[tokio::test]
async fn managed_fields_are_dropped_unless_asked_for() {
    let item = r#"{"metadata":{"managedFields":[{"manager":"m"}],"name":"a","namespace":"n"}}"#;
    for (content, kept) in [
        (Content::default(), false),
        (Content::Full(ManagedFields::Keep), true),
    ] {
        let api = api(vec![
            exchange(&[], 200, list(&[item.into()], 9, "")),
            exchange(&[], 200, event("ADDED", item)),
        ])
        .with_content(content);
        let mut list = ListWatch::list(&api, ListRequest::default()).await.unwrap();
        let Some(Ok(ListItem::Object(listed))) = list.next().await else {
            panic!()
        };
        let mut watch = ListWatch::watch(&api, WatchRequest::default()).await.unwrap();
        let Some(Ok(WatchEvent::Added(watched))) = watch.next().await else {
            panic!()
        };
        for object in [listed, watched] {
            assert_eq!(object.raw(&["metadata", "managedFields"]).is_some(), kept);
            assert_eq!((object.kind(), object.api_version()), ("Thing", "x.io/v1"));
        }
    }
}

#[tokio::test]
async fn metadata_alone_is_asked_for_and_keeps_its_kind() {
    let partial = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"n"}}"#;
    let api = api(vec![
        exchange(
            &["as=PartialObjectMetadataList;"],
            200,
            list(&[partial.into()], 9, ""),
        ),
        exchange(
            &["as=PartialObjectMetadata;", "watch=true"],
            200,
            event("ADDED", partial),
        ),
    ])
    .with_content(Content::Metadata);
    assert_eq!(page(&api).await, ["Thing n/a", "end @9"]);
    assert_eq!(watch(&api).await, ["added n/a"]);
}

#[tokio::test]
async fn gzip_members_are_read_to_the_last() {
    let gzip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let members: Vec<u8> = ["a", "b", "c"]
        .iter()
        .flat_map(|name| gzip(&event("ADDED", &thing(name, 1))))
        .collect();
    for size in [1, 7, 10_000] {
        let script = exchange(&[], 200, &members)
            .header("content-encoding", "gzip")
            .chunked(size);
        assert_eq!(
            watch(&api(vec![script])).await,
            ["added n/a", "added n/b", "added n/c"]
        );
    }
    let cut = exchange(&[], 200, &members[..members.len() - 9]).header("content-encoding", "gzip");
    let seen = watch(&api(vec![cut])).await;
    assert!(
        seen[seen.len() - 1].starts_with("error source is not available"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn refusals_reach_the_informer_with_their_meaning() {
    async fn refusal(exchange: Exchange) -> ListWatchError {
        let request = WatchRequest::default();
        match ListWatch::watch(&api(vec![exchange]), request).await {
            Ok(mut stream) => stream.next().await.unwrap().unwrap_err(),
            Err(error) => error,
        }
    }
    assert!(refusal(exchange(&[], 410, GONE)).await.is_expired());
    assert!(refusal(exchange(&[], 410, "gone")).await.is_expired());
    assert!(
        refusal(exchange(&[], 200, event("ERROR", GONE)))
            .await
            .is_expired()
    );
    assert!(
        refusal(exchange(&[], 404, "404 page not found"))
            .await
            .is_not_found()
    );
    let busy = refusal(exchange(&[], 429, "busy").header("retry-after", "7")).await;
    assert!(busy.is_too_many_requests());
    assert_eq!(busy.retry_after(), Some(Duration::from_secs(7)));
    let body = r#"{"kind":"Status","apiVersion":"v1","code":503,"details":{"retryAfterSeconds":2}}"#;
    let away = refusal(exchange(&[], 503, body).header("retry-after", "7")).await;
    assert_eq!(away.retry_after(), Some(Duration::from_secs(2)));
    let body = r#"{"kind":"Status","apiVersion":"v1","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
    assert!(refusal(exchange(&[], 504, body)).await.is_too_large());
    let body = r#"{"kind":"Status","apiVersion":"v1","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden"}"#;
    assert!(refusal(exchange(&[], 422, body)).await.means_no_initial_events());
    assert!(matches!(
        refusal(refused(&[])).await,
        ListWatchError::Unavailable(_)
    ));
}

#[tokio::test]
async fn history_of_the_server_is_asked_once_by_all_who_ask_together() {
    let system = |uid| exchange(&["GET /api/v1/namespaces/kube-system "], 200, uid);
    let api = api(vec![
        system(r#"{"metadata":{"uid":"one"}}"#),
        system(r#"{"metadata":{"uid":"two"}}"#),
        system(r#"{"metadata":{"uid":"three"}}"#),
        exchange(&[], 403, "forbidden"),
        refused(&[]),
    ]);
    let together = futures_util::future::join_all((0..50).map(|_| api.history())).await;
    let ids: Vec<_> = together.into_iter().map(|id| id.unwrap().unwrap().0).collect();
    // Who came while the first question was under way gets the answer to the second.
    assert_eq!((&*ids[0], &*ids[1], &*ids[49]), ("one", "two", "two"));
    assert_eq!(api.history().await.unwrap().unwrap().0, "three", "each time anew");
    assert_eq!(api.history().await.unwrap(), None, "who may not know does not");
    let failed = api.history().await.unwrap_err();
    assert!(matches!(failed, ListWatchError::Unavailable(_)));
}
