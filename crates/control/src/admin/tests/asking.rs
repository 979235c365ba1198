//! What happened, and what was?

use serde_json::json;
use skopos_api::Event;

use super::{Stage, at};
use crate::{
    ChangePage, Changes, Collections, Holes, ObjectAt, Observation, Part, Presence, Reason, Refusal, Resolve,
    ShowChange,
};

fn of(resource: &str) -> Changes {
    Changes {
        resource: Some(resource.into()),
        ..Changes::default()
    }
}

fn short(page: &ChangePage) -> Vec<String> {
    let changes = page.changes.iter();
    changes
        .map(|one| {
            format!(
                "{} {:?} {}/{} {}",
                one.seq,
                one.op,
                one.namespace,
                one.name,
                one.time.as_second()
            )
        })
        .collect()
}

fn object_at(name: &str, second: i64) -> ObjectAt {
    ObjectAt {
        resource: "widgets".into(),
        namespace: None,
        name: name.into(),
        at: at(second),
    }
}

async fn story() -> Stage {
    let stage = Stage::start().await;
    stage.put(10, "home/a", 1).await;
    stage.put(20, "home/a", 2).await;
    stage.put(30, "away/b", 1).await;
    stage.delete(40, "home/a").await;
    stage
}

#[tokio::test]
async fn changes_are_told_in_order_and_filtered() {
    let mut stage = story().await;
    let admin = stage.admin();
    let all = [
        "1 Created home/a 10",
        "2 Updated home/a 20",
        "3 Created away/b 30",
        "4 Deleted home/a 40",
    ];
    for word in [
        "widgets",
        "Widget",
        "widget",
        "widgets.example.com",
        "Widget.v1.example.com",
    ] {
        let page = admin.ask(&of(word)).await.unwrap();
        assert_eq!(
            (short(&page).as_slice(), page.next),
            (all.map(str::to_owned).as_slice(), None),
            "{word}"
        );
    }
    let check = async |changes: Changes, expect: &[usize]| {
        let page = admin.ask(&changes).await.unwrap();
        let expect: Vec<&str> = expect.iter().map(|n| all[*n - 1]).collect();
        assert_eq!(short(&page), expect, "{changes:?}");
    };
    check(Changes::default(), &[1, 2, 3, 4]).await;
    check(
        Changes {
            namespace: Some("away".into()),
            ..of("widgets")
        },
        &[3],
    )
    .await;
    check(
        Changes {
            name: Some("a".into()),
            ..of("widgets")
        },
        &[1, 2, 4],
    )
    .await;
    check(
        Changes {
            ops: vec![Event::Deleted, Event::Updated],
            ..of("widgets")
        },
        &[2, 4],
    )
    .await;
    check(
        Changes {
            since: Some(at(20)),
            until: Some(at(40)),
            ..of("widgets")
        },
        &[2, 3],
    )
    .await;
    check(
        Changes {
            after: 3,
            ..of("widgets")
        },
        &[4],
    )
    .await;
    check(
        Changes {
            since: Some(at(99)),
            ..of("widgets")
        },
        &[],
    )
    .await;
    stage.stop().await;
}

#[tokio::test]
async fn pages_go_on_where_they_ended() {
    let mut stage = story().await;
    let admin = stage.admin();
    let mut changes = Changes {
        limit: Some(3),
        ..of("widgets")
    };
    let first = admin.ask(&changes).await.unwrap();
    assert_eq!((first.changes.len(), first.next), (3, Some(3)));
    changes.after = 3;
    let last = admin.ask(&changes).await.unwrap();
    assert_eq!((last.changes.len(), last.next), (1, None));
    stage.stop().await;
}

#[tokio::test]
async fn states_and_fields_are_told_if_they_are_asked_for() {
    let mut stage = story().await;
    let admin = stage.admin();
    let bare = ShowChange {
        change: "2".into(),
        parts: vec![],
    };
    let bare = admin.ask(&bare).await.unwrap();
    assert_eq!((&bare.before, &bare.after, &bare.diff), (&None, &None, &None));
    let parts = vec![Part::Before, Part::After, Part::Diff];
    let whole = ShowChange {
        change: bare.id.clone(),
        parts,
    };
    let whole = admin.ask(&whole).await.unwrap();
    assert_eq!(whole.seq, 2);
    assert_eq!(whole.before.unwrap()["spec"]["size"], 1);
    assert_eq!(whole.after.unwrap()["spec"]["size"], 2);
    assert_eq!(
        json!(whole.diff),
        json!([{"path": "spec.size", "old": 1, "new": 2}])
    );
    stage.stop().await;
}

#[tokio::test]
async fn what_an_object_was_is_told_for_every_time() {
    let mut stage = story().await;
    let admin = stage.admin();
    for (second, presence, size) in [
        (5, Presence::Absent, None),
        (10, Presence::Present, Some(1)),
        (19, Presence::Present, Some(1)),
        (25, Presence::Present, Some(2)),
        (40, Presence::Absent, Some(2)),
        (99, Presence::Absent, Some(2)),
    ] {
        let state = admin.ask(&object_at("a", second)).await.unwrap();
        let found = state
            .object
            .as_ref()
            .and_then(|object| object["spec"]["size"].as_i64());
        assert_eq!((state.presence, found), (presence, size), "{second}");
        assert_eq!(state.uncertain, None);
    }
    stage.stop().await;
}

#[tokio::test]
async fn what_was_found_later_is_told_with_its_interval_and_the_hole() {
    let mut stage = story().await;
    stage.stop().await;
    stage.source.put(&skopos_testkit::object(
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b, namespace: away}, spec: {size: 7}}",
    ));
    stage.source.compact();
    stage.clock(100);
    stage.go_on().await;
    stage.advanced(5).await;
    let admin = stage.admin();
    let found = admin
        .ask(&Changes {
            after: 4,
            ..of("widgets")
        })
        .await
        .unwrap();
    assert_eq!(found.changes[0].observed, Observation::Relist);
    assert_eq!(found.changes[0].not_before, Some(at(40)));
    let holes = admin.ask(&Holes::default()).await.unwrap().holes;
    assert_eq!(
        (holes.len(), holes[0].resource.as_str(), holes[0].seq),
        (1, "widgets.example.com", 5)
    );
    assert_eq!(
        (holes[0].from, holes[0].to, holes[0].reason.as_str()),
        (at(40), at(100), "expired")
    );
    let before = Holes {
        until: Some(at(40)),
        ..Holes::default()
    };
    assert!(admin.ask(&before).await.unwrap().holes.is_empty());
    let state = admin.ask(&object_at("b", 50)).await.unwrap();
    assert_eq!(state.object.unwrap()["spec"]["size"], 1);
    assert_eq!(
        state.uncertain.map(|one| (one.after, one.until)),
        Some((at(40), at(100)))
    );
    stage.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_to_do() {
    let mut stage = story().await;
    stage.put(50, "away/a", 1).await;
    let admin = stage.admin();
    let check = |refusal: Refusal, reason, part: &str| {
        let text = format!("{}; {}", refusal.message, refusal.hint);
        assert!(refusal.reason == reason && text.contains(part), "{refusal:?}");
    };
    let unknown = admin.ask(&of("gadgets")).await.unwrap_err();
    check(
        unknown,
        Reason::UnknownResource,
        "captured are widgets.example.com",
    );
    let none = admin
        .ask(&ShowChange {
            change: "77".into(),
            parts: vec![],
        })
        .await
        .unwrap_err();
    check(none, Reason::NotFound, "changes 1 to 5 are kept");
    let nobody = admin.ask(&object_at("nobody", 50)).await.unwrap_err();
    check(nobody, Reason::NotFound, "nobody");
    let both = admin.ask(&object_at("a", 60)).await.unwrap_err();
    check(both, Reason::BadQuestion, "away, home");
    stage.stop().await;
}

#[tokio::test]
async fn a_kind_is_found_by_each_of_its_names() {
    let mut stage = story().await;
    let admin = stage.admin();
    for name in [
        "widgets",
        "Widget",
        "wd",
        "WD",
        "wd.example.com",
        "wd.v1.example.com",
    ] {
        let resolved = admin.ask(&resolve(name)).await.unwrap();
        assert_eq!(resolved.resource, "widgets.example.com", "{name}");
    }
    for name in ["wd.example.org", "w", ""] {
        let refusal = admin.ask(&resolve(name)).await.unwrap_err();
        assert_eq!(refusal.reason, Reason::UnknownResource, "{name}");
    }
    stage.stop().await;
}

fn resolve(name: &str) -> Resolve {
    Resolve {
        resource: name.into(),
    }
}

#[tokio::test]
async fn the_kinds_that_are_captured_are_told() {
    let mut stage = story().await;
    let known = stage.admin().ask(&Collections {}).await.unwrap().collections;
    assert_eq!(known.len(), 1);
    assert_eq!(
        (known[0].resource.as_str(), known[0].objects),
        ("widgets.example.com", 1)
    );
    assert_eq!(
        (known[0].api_version.as_str(), known[0].kind.as_str()),
        ("example.com/v1", "Widget")
    );
    stage.stop().await;
}
