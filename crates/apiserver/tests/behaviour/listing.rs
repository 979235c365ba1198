//! Lists: at which version, in which order and pages, of which objects.

use base64::Engine as _;
use serde_json::{Value, json};
use skopos_apiserver::Config;

use crate::harness::{Answer, MAPS, Server, WIDGETS, config_map, names, version, widget, widgets, with_meta};

const TOO_OLD: &str = "The resourceVersion for the provided list is too old.";
const TOKEN_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

async fn with_four_widgets() -> Server {
    let server = Server::with_widgets().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "red")] {
        let object = with_meta(
            widget(name, json!({"color": color})),
            json!({"labels": {"name": name, "color": color}}),
        );
        server.post(WIDGETS, object).await.ok();
    }
    server
}

/// Keeps so little history that a dozen writes make it old.
fn forgetful(config: &mut Config) {
    config.store.history.max_events = 8;
}

#[tokio::test]
async fn a_list_has_kind_version_and_items_even_when_empty() {
    let server = Server::with_widgets().await;
    let list = server.get(WIDGETS).await.ok();
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("example.com/v1"), &json!("WidgetList"))
    );
    assert_eq!(list["items"], json!([]));
    assert_eq!(list["metadata"]["continue"], "");
    assert!(version(&list) > 0);
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let list = server.get(WIDGETS).await.ok();
    assert_eq!(
        list["items"],
        json!([created]),
        "items carry their own apiVersion and kind"
    );
    assert!(version(&list) >= version(&created));
}

#[tokio::test]
async fn any_known_version_is_answered_with_the_newest_state() {
    let server = with_four_widgets().await;
    let first = version(&server.get(&format!("{WIDGETS}/a")).await.ok());
    let queries = [
        "",
        "?resourceVersion=",
        "?resourceVersion=0",
        "?resourceVersionMatch=NotOlderThan&resourceVersion=0",
    ];
    let from_first = [
        format!("?resourceVersion={first}"),
        format!("?resourceVersion={first}&resourceVersionMatch=NotOlderThan"),
    ];
    for query in queries.iter().map(|q| (*q).to_owned()).chain(from_first) {
        assert_eq!(
            server.names(&format!("{WIDGETS}{query}")).await,
            ["a", "b", "c", "d"],
            "{query}"
        );
    }
    for query in ["", "?resourceVersion=0", &format!("?resourceVersion={first}")] {
        server.get(&format!("{WIDGETS}/b{query}")).await.ok();
    }
}

#[tokio::test]
async fn an_exact_version_is_answered_with_the_state_of_then() {
    let server = with_four_widgets().await;
    let then = version(&server.get(WIDGETS).await.ok());
    server.delete(&format!("{WIDGETS}/a")).await.ok();
    server
        .merge(&format!("{WIDGETS}/b"), json!({"spec": {"size": 7}}))
        .await
        .ok();
    server.post(WIDGETS, widget("e", json!({}))).await.ok();
    let exact = format!("{WIDGETS}?resourceVersion={then}&resourceVersionMatch=Exact");
    let list = server.get(&exact).await.ok();
    assert_eq!(
        (names(&list), version(&list)),
        (["a", "b", "c", "d"].map(str::to_owned).to_vec(), then)
    );
    assert_eq!(list["items"][1]["spec"]["size"], 1);
    let page = server
        .get(&format!("{WIDGETS}?resourceVersion={then}&limit=2"))
        .await
        .ok();
    assert_eq!(
        (names(&page), version(&page)),
        (vec!["a".into(), "b".into()], then),
        "a limit makes a version exact"
    );
}

#[tokio::test]
async fn a_version_from_the_future_is_waited_for_and_then_refused() {
    let server = Server::with(|_| {}).await;
    server.install(widgets()).await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let future = 999_999_999_999u64;
    let cases = [
        format!("{WIDGETS}/a?resourceVersion={future}"),
        format!("{WIDGETS}?resourceVersion={future}"),
        format!("{WIDGETS}?resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
        format!("{WIDGETS}?resourceVersion={future}&resourceVersionMatch=Exact"),
    ];
    for path in cases {
        let answer = server.get(&path).await;
        let message = answer.body["message"].as_str().unwrap_or("");
        let expected = format!("Timeout: Too large resource version: {future}, current: ");
        assert!(
            answer.code == 504 && message.starts_with(&expected),
            "{path}: {}",
            answer.text()
        );
        assert_eq!(
            answer.body["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
    }
}

#[tokio::test]
async fn a_version_about_to_come_is_worth_the_wait() {
    let server = Server::with(|config| config.future_version_wait = std::time::Duration::from_secs(50)).await;
    let now = version(&server.get(MAPS).await.ok());
    let path = format!("{MAPS}?resourceVersion={}", now + 1);
    let (list, _) = tokio::join!(server.names(&path), server.post(MAPS, config_map("a", json!({}))));
    assert_eq!(list, ["a", "kube-root-ca.crt"]);
}

#[tokio::test]
async fn pages_together_are_the_list_as_it_was_at_the_first() {
    let server = with_four_widgets().await;
    let whole = server.get(WIDGETS).await.ok();
    let first = server.get(&format!("{WIDGETS}?limit=2")).await.ok();
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    server.delete(&format!("{WIDGETS}/d")).await.ok();
    server.post(WIDGETS, widget("bb", json!({}))).await.ok();
    server
        .merge(&format!("{WIDGETS}/c"), json!({"spec": {"size": 9}}))
        .await
        .ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = server
        .get(&format!("{WIDGETS}?limit=1&continue={token}"))
        .await
        .ok();
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = server
        .get(&format!("{WIDGETS}?limit=5&continue={token}"))
        .await
        .ok();
    assert_eq!(last["metadata"].get("remainingItemCount"), None);
    assert_eq!(last["metadata"]["continue"], "");
    let pages = [&first, &second, &last];
    assert_eq!(
        pages.map(version),
        [version(&first); 3],
        "all pages are of one version"
    );
    let items: Vec<Value> = pages
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap().clone())
        .collect();
    assert_eq!(Value::from(items), whole["items"]);
}

#[tokio::test]
async fn a_list_of_any_version_is_sent_whole() {
    let server = with_four_widgets().await;
    // After the newest list no version is older than that of the four.
    assert_eq!(server.names(WIDGETS).await.len(), 4);
    let whole = server
        .get(&format!("{WIDGETS}?resourceVersion=0&limit=2"))
        .await
        .ok();
    assert_eq!(
        (names(&whole).len(), &whole["metadata"]["continue"]),
        (4, &json!(""))
    );
}

#[tokio::test]
async fn a_selected_list_is_paged_without_a_count() {
    let server = with_four_widgets().await;
    for selector in ["labelSelector=color%3Dred", "fieldSelector=spec.color%3Dred"] {
        let mut path = format!("{WIDGETS}?{selector}&limit=1");
        let mut found = Vec::new();
        loop {
            let page = server.get(&path).await.ok();
            assert_eq!(page["metadata"].get("remainingItemCount"), None);
            found.extend(names(&page));
            match page["metadata"]["continue"].as_str().unwrap() {
                "" => break,
                token => path = format!("{WIDGETS}?{selector}&limit=1&continue={token}"),
            }
        }
        assert_eq!(found, ["a", "c", "d"], "{selector}");
    }
}

#[tokio::test]
async fn a_token_is_readable_and_stands_alone() {
    let server = with_four_widgets().await;
    let first = server.get(&format!("{WIDGETS}?limit=2")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(token)
        .unwrap();
    let decoded: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (&decoded["v"], &decoded["rv"]),
        (&json!("meta.k8s.io/v1"), &json!(version(&first)))
    );
    assert_eq!(decoded["start"].as_str().unwrap().trim_start_matches('/'), "b\0");
    let both = server
        .get(&format!(
            "{WIDGETS}?continue={token}&resourceVersion={}",
            version(&first)
        ))
        .await;
    both.refused(
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
    );
    let matched = server
        .get(&format!(
            "{WIDGETS}?continue={token}&resourceVersion=1&resourceVersionMatch=Exact"
        ))
        .await;
    assert_eq!(matched.code, 422);
}

#[tokio::test]
async fn a_list_whose_version_is_forgotten_can_go_on_at_the_present() {
    let server = Server::with(forgetful).await;
    for name in ["a", "b", "c"] {
        server.post(MAPS, config_map(name, json!({}))).await.ok();
    }
    let first = server.get(&format!("{MAPS}?limit=1")).await.ok();
    for i in 0..20 {
        server
            .merge(&format!("{MAPS}/c"), json!({"data": {"i": i.to_string()}}))
            .await
            .ok();
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let expired: Answer = server.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    expired.refused(410, "Expired", TOKEN_TOO_OLD);
    let fresh = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{MAPS}?limit=2&continue={fresh}")).await.ok();
    assert_eq!(names(&rest), ["b", "c"]);
    assert_eq!(rest["items"][1]["data"]["i"], "19");
    let token = rest["metadata"]["continue"].as_str().unwrap();
    assert_eq!(
        names(&server.get(&format!("{MAPS}?continue={token}")).await.ok()),
        ["kube-root-ca.crt"]
    );
}

#[tokio::test]
async fn an_exact_version_that_is_forgotten_is_refused() {
    let server = Server::with(forgetful).await;
    let then = version(&server.post(MAPS, config_map("a", json!({}))).await.ok());
    for i in 0..20 {
        server
            .merge(&format!("{MAPS}/a"), json!({"data": {"i": i.to_string()}}))
            .await
            .ok();
    }
    let exact = server
        .get(&format!(
            "{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact"
        ))
        .await;
    exact.refused(410, "Expired", TOO_OLD);
    server.get(&format!("{MAPS}?resourceVersion={then}")).await.ok();
}

#[tokio::test]
async fn items_are_ordered_by_namespace_and_name_as_bytes() {
    let server = Server::with_widgets().await;
    server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    for (namespace, name) in [
        ("home", "b"),
        ("home", "a.b"),
        ("home-b", "c"),
        ("home", "a"),
        ("home", "a-b"),
        ("home", "a0"),
    ] {
        let path = WIDGETS.replace("home", namespace);
        server.post(&path, widget(name, json!({}))).await.ok();
    }
    let all = server.names("/apis/example.com/v1/widgets").await;
    assert_eq!(
        all,
        ["c", "a", "a-b", "a.b", "a0", "b"],
        "a dash comes before the slash between namespace and name"
    );
    let paged = server.get("/apis/example.com/v1/widgets?limit=2").await.ok();
    let token = paged["metadata"]["continue"].as_str().unwrap();
    let rest = server
        .names(&format!("/apis/example.com/v1/widgets?continue={token}"))
        .await;
    assert_eq!(rest, ["a-b", "a.b", "a0", "b"]);
}

#[tokio::test]
async fn label_selectors_speak_the_whole_grammar() {
    let server = Server::start().await;
    let labels = [
        ("a", json!({"n": "1", "t": "x"})),
        ("b", json!({"n": "5"})),
        ("c", json!({"t": "y"})),
        ("d", json!({})),
    ];
    for (name, labels) in labels {
        server
            .post(
                MAPS,
                with_meta(config_map(name, json!({})), json!({"labels": labels})),
            )
            .await
            .ok();
    }
    let cases = [
        ("t=x", "a"),
        ("t%3D%3Dy", "c"),
        ("t!=x", "b c d kube-root-ca.crt"),
        ("t", "a c"),
        ("!t", "b d kube-root-ca.crt"),
        ("t in (x,y)", "a c"),
        ("t notin (x)", "b c d kube-root-ca.crt"),
        ("n>1", "b"),
        ("n<5", "a"),
        ("n,t", "a"),
        ("t=x,n=2", ""),
    ];
    for (selector, expected) in cases {
        let path = format!(
            "{MAPS}?labelSelector={}",
            selector
                .replace(' ', "%20")
                .replace('>', "%3E")
                .replace('<', "%3C")
        );
        assert_eq!(server.names(&path).await.join(" "), expected, "{selector}");
    }
    let answer = server.get(&format!("{MAPS}?labelSelector=a%3D%3D%3Db")).await;
    answer.refused(
        400,
        "BadRequest",
        "unable to parse requirement: found '=', expected: identifier",
    );
}

#[tokio::test]
async fn field_selectors_know_names_namespaces_and_declared_fields() {
    let server = with_four_widgets().await;
    let cases = [
        ("metadata.name%3Da", "a"),
        ("metadata.name!%3Da", "b c d"),
        ("metadata.namespace%3Dhome", "a b c d"),
        ("metadata.namespace%3Dnone", ""),
        ("spec.color%3Dred", "a c d"),
        ("spec.color!%3Dred", "b"),
        ("spec.color%3Dred,metadata.name%3Dc", "c"),
    ];
    for (selector, expected) in cases {
        assert_eq!(
            server
                .names(&format!("{WIDGETS}?fieldSelector={selector}"))
                .await
                .join(" "),
            expected,
            "{selector}"
        );
    }
    let answer = server
        .get(&format!("{WIDGETS}?fieldSelector=spec.size%3D1"))
        .await;
    answer.refused(400, "BadRequest", "field label not supported: spec.size");
}

#[tokio::test]
async fn field_selectors_of_built_in_kinds_know_their_fields() {
    let server = Server::start().await;
    let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/home/pods";
    server.post(pods, pod("a", "n1")).await.ok();
    server.post(pods, pod("b", "n2")).await.ok();
    let secrets = "/api/v1/namespaces/home/secrets";
    server
        .post(secrets, json!({"metadata": {"name": "a"}, "type": "x/y"}))
        .await
        .ok();
    server
        .post(secrets, json!({"metadata": {"name": "b"}}))
        .await
        .ok();
    let cases = [
        (pods, "spec.nodeName%3Dn2", "b"),
        (pods, "status.phase%3DPending", "a b"),
        (secrets, "type%3Dx/y", "a"),
        (secrets, "type%3DOpaque", "b"),
    ];
    for (path, selector, expected) in cases {
        assert_eq!(
            server
                .names(&format!("{path}?fieldSelector={selector}"))
                .await
                .join(" "),
            expected,
            "{selector}"
        );
    }
    let answer = server.get(&format!("{secrets}?fieldSelector=data.x%3D1")).await;
    assert_eq!(
        (answer.code, answer.body["reason"].as_str()),
        (400, Some("BadRequest"))
    );
}
