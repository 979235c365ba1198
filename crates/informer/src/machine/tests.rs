//! The reflector's decisions, one behaviour at a time. The numbers of the checklist it follows stand
//! beside them (watch semantics, section 4).

mod bench;
mod identity;
mod random;

use std::time::Duration;

use serde_json::json;
use skopos_object::{
    Details, ListEnd, ListItem, ListWatchError, Object, Op, Reason, ResourceVersion, Status, VersionMatch,
    WatchEvent,
};

use self::bench::{Bench, added, away, bookmark, deleted, end, item, malformed, modified, too_large};
use super::{Action, Input, Machine};
use crate::{FirstList, ReflectorConfig};

#[test]
fn p1_first_list_is_consistent_unless_any_will_do() {
    assert_eq!(Bench::listing().list().resource_version, "".into());
    let any = ReflectorConfig {
        first_list: FirstList::Any,
        initial_events: false,
        ..ReflectorConfig::default()
    };
    let bench = Bench::new(any);
    assert_eq!(
        (bench.list().resource_version.as_str(), bench.list().limit),
        ("0", None)
    );
}

#[test]
fn p1_relists_at_the_last_version_then_at_the_latest() {
    let mut bench = Bench::watching(50);
    bench.give(modified("a", 60)).fail(Status::expired("old"));
    assert_eq!(bench.list().resource_version, 60.into());
    bench.fail(Status::expired("old"));
    assert_eq!(bench.list().resource_version, "".into());
    assert_eq!(bench.told(), ["applied a"]);
}

#[test]
fn p2_p3_continued_pages_name_no_version_and_the_same_limit() {
    let mut bench = Bench::listing();
    let first = bench.list().clone();
    bench
        .give(Input::Opened)
        .give(item("a", 3))
        .give(end(10, Some("next")));
    let second = bench.list();
    assert_eq!(second.resource_version, ResourceVersion::default());
    assert_eq!((second.limit, &second.labels), (first.limit, &first.labels));
    assert_eq!(second.continue_token.as_deref(), Some("next"));
}

#[test]
fn p4_relist_at_a_version_is_not_in_pages() {
    let mut bench = Bench::watching(50);
    bench.fail(Status::expired("old"));
    let request = bench.list();
    assert_eq!(
        (request.limit, request.version_match),
        (None, VersionMatch::NotOlderThan)
    );
}

#[test]
fn p5_expired_page_token_leads_to_a_list_without_pages_from_the_start() {
    let mut bench = Bench::listing();
    bench
        .give(Input::Opened)
        .give(item("a", 3))
        .give(end(10, Some("next")));
    let mut status = Status::expired("token is too old");
    status.continue_token = Some("inconsistent".to_owned());
    bench.fail(status);
    assert_eq!(
        (bench.list().limit, bench.list().continue_token.as_deref()),
        (None, None)
    );
    bench
        .give(Input::Opened)
        .give(item("a", 3))
        .give(item("b", 4))
        .give(end(11, None));
    assert_eq!(
        bench.told(),
        [
            "replace first",
            "listed a",
            "replace first",
            "listed a",
            "listed b",
            "replaced 11"
        ]
    );
}

#[test]
fn p6_version_is_that_of_the_list_and_pages_may_be_empty() {
    let mut bench = Bench::listing();
    bench
        .give(Input::Opened)
        .give(item("a", 99))
        .give(end(50, Some("t")));
    bench.give(Input::Opened).give(end(50, Some("u")));
    bench.give(Input::Opened).give(end(50, None));
    assert_eq!(bench.watch().from, 50.into());
}

#[test]
fn p7_too_large_version_is_tried_again_then_the_latest_is_taken() {
    let mut bench = Bench::watching(90);
    bench.fail(Status::expired("old"));
    for _ in 0..2 {
        bench.fail(too_large());
        assert!(bench.wake() >= Duration::from_secs(1), "as the server asked");
        assert_eq!(bench.list().resource_version, 90.into());
    }
    bench.fail(too_large());
    bench.wake();
    assert_eq!(bench.list().resource_version, "".into());
}

#[test]
fn p8_versions_that_are_no_numbers_do_not_look_like_another_history() {
    let mut bench = Bench::watching(50);
    let odd = json!({"kind": "Thing", "metadata": {"name": "a", "resourceVersion": "0abc"}});
    bench.give(Input::Event(WatchEvent::Modified(
        Object::from_value(&odd).unwrap(),
    )));
    assert_eq!(bench.told(), ["applied a"]);
}

#[test]
fn p9_expired_inside_the_stream_and_as_an_answer_are_the_same() {
    let mut inside = Bench::watching(50);
    inside.fail(Status::expired("old"));
    let mut answer = Bench::watching(50);
    answer.after(2).give(Input::Ended).fail(Status::gone("old"));
    assert_eq!(inside.list(), answer.list());
}

#[test]
fn p10_objects_reported_from_no_version_do_not_advance() {
    let mut bench = Bench::listing();
    bench.give(Input::Opened);
    bench.give(Input::Item(ListItem::End(ListEnd::default())));
    bench
        .give(Input::Opened)
        .give(added("b", 70))
        .give(added("a", 30));
    assert_eq!(bench.machine.position(), &"".into());
    bench.give(modified("b", 80));
    assert_eq!(bench.machine.position(), &80.into());
}

#[test]
fn p11_bookmarks_advance_and_are_no_objects() {
    let mut bench = Bench::watching(50);
    bench.give(bookmark(75, false)).after(2).give(Input::Ended);
    assert_eq!(bench.told(), ["bookmark 75"]);
    assert_eq!(bench.watch().from, 75.into());
}

#[test]
fn p11_bookmarks_that_come_late_or_twice_do_not_go_back() {
    let mut bench = Bench::watching(50);
    bench
        .give(bookmark(75, false))
        .give(bookmark(60, false))
        .give(bookmark(75, false));
    assert_eq!(bench.machine.position(), &75.into());
    assert_eq!(bench.action, Bench::watching(50).action);
}

#[test]
fn p12_initial_events_of_every_type_count_until_the_end_bookmark() {
    let mut bench = Bench::new(ReflectorConfig::default());
    assert!(bench.watch().initial_events && bench.watch().bookmarks);
    bench
        .give(Input::Opened)
        .give(added("a", 5))
        .give(modified("b", 3))
        .give(deleted("a", 6));
    bench
        .give(bookmark(9, false))
        .give(bookmark(10, true))
        .give(modified("b", 11));
    assert_eq!(
        bench.told(),
        [
            "replace first",
            "listed a",
            "listed b",
            "unlisted a",
            "replaced 10",
            "watching",
            "applied b"
        ]
    );
    assert_eq!(bench.machine.position(), &11.into());
}

#[test]
fn p13_resuming_never_asks_for_initial_events() {
    let mut bench = Bench::from(ReflectorConfig::default(), "40");
    assert_eq!(
        bench.list().limit,
        Some(1),
        "first sees whether the history is still the same"
    );
    bench.give(Input::Opened).give(end(45, None));
    let request = bench.watch();
    assert_eq!((request.from.as_str(), request.initial_events), ("40", false));
    bench.give(Input::Opened);
    assert_eq!(bench.told(), ["watching"]);
}

#[test]
fn p14_watch_that_lists_first_without_being_asked_is_read_right() {
    // A server may turn a watch from no version into a streaming list.
    let mut bench = Bench::listing();
    bench.give(Input::Opened);
    bench.give(Input::Item(ListItem::End(ListEnd::default())));
    assert!(!bench.watch().initial_events);
    bench
        .give(Input::Opened)
        .give(added("b", 70))
        .give(added("a", 30))
        .give(bookmark(75, true))
        .give(modified("a", 80));
    assert_eq!(
        bench.told()[2..],
        ["watching", "applied b", "applied a", "bookmark 75", "applied a"]
    );
    assert_eq!(bench.machine.position(), &80.into());
    // At a version that was named, an end that was not asked for is a bookmark like any other.
    let mut bench = Bench::watching(50);
    bench.give(bookmark(60, true)).give(modified("a", 61));
    assert_eq!(bench.told(), ["bookmark 60", "applied a"]);
    // Objects from before that version are no news of it: only a list can tell what they are.
    let mut bench = Bench::watching(50);
    bench.give(added("a", 30));
    assert_eq!(bench.list().resource_version, "".into());
    assert!(bench.told().is_empty());
}

#[test]
fn p15_falls_back_to_lists_remembers_it_and_asks_again_later() {
    let refusals = [
        ListWatchError::Unsupported("initial events"),
        ListWatchError::Refused(Status::failure(
            422,
            Reason::Invalid,
            "sendInitialEvents is forbidden",
        )),
        ListWatchError::Refused(Status::bad_request("unknown field")),
        ListWatchError::Refused(Status::internal("etcd cannot tell its progress")),
    ];
    for refusal in refusals {
        let mut bench = Bench::new(ReflectorConfig::default());
        bench.give(Input::Failed(refusal));
        assert_eq!(bench.list().limit, Some(500));
        bench
            .give(Input::Opened)
            .give(end(10, None))
            .give(Input::Opened)
            .after(60);
        bench.fail(Status::expired("old"));
        assert_eq!(bench.list().resource_version, 10.into(), "remembered");
        bench.give(Input::Opened).give(end(20, None)).give(Input::Opened);
        bench.after(31 * 60).fail(Status::expired("old"));
        assert!(bench.watch().initial_events, "asked again");
        assert_eq!(bench.watch().from, 20.into());
    }
}

#[test]
fn p16_initial_events_cut_before_their_end_are_discarded() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.give(Input::Opened).give(added("a", 5)).give(Input::Ended);
    bench.wake();
    assert!(bench.watch().initial_events);
    bench.give(Input::Opened).give(bookmark(10, true));
    assert_eq!(
        bench.told(),
        [
            "replace first",
            "listed a",
            "trouble: list was cut off",
            "replace first",
            "replaced 10",
            "watching"
        ]
    );
}

#[test]
fn p17_watch_timeouts_are_spread_and_the_client_waits_a_little_longer() {
    let mut bench = Bench::watching(50);
    let mut timeouts = Vec::new();
    for _ in 0..20 {
        bench.after(2).give(Input::Ended).give(Input::Opened);
        timeouts.push(bench.watch().timeout.unwrap());
    }
    assert!(timeouts.iter().all(|t| (300..600).contains(&t.as_secs())));
    timeouts.dedup();
    assert!(timeouts.len() > 15);
    let (start, timeout) = (bench.now, bench.watch().timeout.unwrap());
    while bench.now < start + timeout {
        let version = 80 + bench.now.as_secs();
        bench.after(30).give(bookmark(version, false));
    }
    bench.wake();
    assert!(bench.now <= start + timeout + Duration::from_secs(60));
    assert_eq!(
        bench
            .told()
            .iter()
            .filter(|told| told.starts_with("trouble"))
            .count(),
        0
    );
}

#[test]
fn p17_watch_that_ends_at_once_without_events_is_an_error() {
    let mut bench = Bench::watching(50);
    bench.give(Input::Ended);
    assert_eq!(bench.told(), ["trouble: watch ended at once"]);
    assert!(bench.wake() >= Duration::from_millis(800));
    assert_eq!(bench.watch().from, 50.into());
}

#[test]
fn p18_waits_grow_from_800_ms_to_30_s_and_start_over_after_two_good_minutes() {
    let mut bench = Bench::watching(50);
    let mut waits = Vec::new();
    for _ in 0..12 {
        bench.fail(Status::too_many_requests("slow down", 0));
        waits.push(bench.wake().as_millis());
    }
    assert!((800..1600).contains(&waits[0]) && (1600..3200).contains(&waits[1]));
    assert!(
        waits[6..].iter().all(|wait| (15_000..=30_000).contains(wait)),
        "{waits:?}"
    );
    bench.give(Input::Opened).after(121).give(bookmark(60, false));
    bench.fail(Status::too_many_requests("slow down", 0));
    assert!((800..1600).contains(&bench.wake().as_millis()));
}

#[test]
fn p18_refused_connections_and_429_never_relist() {
    let mut bench = Bench::watching(50);
    for round in 0..100 {
        if round % 2 == 0 {
            bench.fail(Status::too_many_requests("slow down", 20));
            assert!(bench.wake() >= Duration::from_secs(20), "Retry-After is honoured");
        } else {
            bench.refuse();
            bench.wake();
        }
        if let Action::List(request) = &bench.action {
            assert_eq!(request.limit, Some(1), "only looks at the history");
            bench.give(Input::Opened).give(end(55, None));
        }
        assert_eq!(bench.watch().from, 50.into());
    }
}

#[test]
fn p18_internal_errors_are_retried_at_the_same_version_for_a_bounded_time() {
    let mut bench = Bench::watching(50);
    let since = bench.now;
    loop {
        bench.fail(Status::internal("conversion failed"));
        bench.wake();
        match &bench.action {
            Action::Watch(request) => assert_eq!(request.from, 50.into()),
            Action::List(request) => break assert_eq!(request.resource_version, 50.into()),
            other => panic!("{other:?}"),
        }
    }
    let took = bench.now - since;
    assert!((60..120).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn p19_silent_watch_is_given_up_after_70_s() {
    let mut bench = Bench::watching(50);
    assert_eq!(bench.wake(), Duration::from_secs(70));
    assert_eq!(bench.told(), ["trouble: watch was silent for 70s"]);
    assert_eq!(bench.list().limit, Some(1), "looks at the history at once");
    bench.give(Input::Opened).give(end(50, None)).give(Input::Opened);
    assert_eq!(bench.told(), ["watching", "resumed"]);
    assert_eq!(bench.watch().from, 50.into());
}

#[test]
fn p19_request_that_is_never_answered_is_given_up() {
    let mut bench = Bench::watching(50);
    bench.after(2).give(Input::Ended);
    assert_eq!(bench.wake(), Duration::from_secs(120));
    assert_eq!(bench.action, Action::Rest);
}

#[test]
fn p21_deletions_count_as_progress() {
    let mut bench = Bench::watching(50);
    bench.give(deleted("a", 61));
    assert_eq!(bench.machine.position(), &61.into());
}

#[test]
fn p22_unreadable_objects_are_reported_and_progress_is_made() {
    let mut bench = Bench::watching(50);
    let (op, object) = (Op::Updated, malformed("62"));
    bench.give(Input::Event(WatchEvent::Malformed { op, object }));
    assert_eq!(
        (bench.told(), bench.machine.position()),
        (vec!["malformed".to_owned()], &62.into())
    );
    let mut bench = Bench::listing();
    bench.give(Input::Opened).give(item("a", 3));
    bench
        .give(Input::Item(ListItem::Malformed(malformed(""))))
        .give(end(10, None));
    assert_eq!(
        bench.told(),
        ["replace first", "listed a", "malformed", "replaced 10"]
    );
}

#[test]
fn server_with_another_history_is_noticed_by_its_version() {
    let mut bench = Bench::watching(50);
    bench.refuse();
    bench.wake();
    bench.give(Input::Opened).give(end(12, None));
    assert_eq!(
        (bench.list().resource_version.as_str(), bench.list().limit),
        ("", Some(500))
    );
    bench.give(Input::Opened).give(end(12, None));
    assert_eq!(bench.told()[1..], ["replace other_history", "replaced 12"]);
}

#[test]
fn server_with_another_history_is_noticed_by_a_bookmark_or_event() {
    for input in [bookmark(20, false), modified("a", 20)] {
        let mut bench = Bench::watching(50);
        bench.give(input);
        assert_eq!(bench.list().resource_version, "".into());
    }
}

#[test]
fn who_may_not_list_goes_on_without_looking_at_the_history() {
    let mut bench = Bench::watching(50);
    bench.refuse();
    bench.wake();
    bench.fail(Status::failure(403, Reason::Forbidden, "no").with_details(Details::default()));
    assert_eq!(bench.watch().from, 50.into());
    bench.refuse();
    bench.wake();
    assert_eq!(bench.watch().from, 50.into());
}

#[test]
fn watch_that_expires_right_after_each_list_makes_no_storm() {
    let mut bench = Bench::listing();
    let mut n_lists = 0;
    while bench.now < Duration::from_secs(600) {
        match &bench.action {
            Action::List(_) => {
                n_lists += 1;
                bench.give(Input::Opened).give(end(10, None));
            }
            Action::Watch(_) => {
                bench.fail(Status::expired("old"));
            }
            Action::Rest | Action::Keep | Action::Identify => {
                bench.wake();
            }
        }
    }
    assert!(n_lists < 60, "{n_lists}");
}

#[test]
fn waits_differ_from_client_to_client() {
    let wait = |seed| {
        let config = ReflectorConfig {
            seed: Some(seed),
            ..ReflectorConfig::default()
        };
        let mut machine = Machine::new(config, 5.into());
        machine.step(Input::Woken, Duration::ZERO, &mut Vec::new());
        machine.step(Input::Failed(away()), Duration::ZERO, &mut Vec::new());
        machine.deadline()
    };
    let mut waits: Vec<_> = (0..50).map(wait).collect();
    waits.dedup();
    assert!(waits.len() > 40);
}
