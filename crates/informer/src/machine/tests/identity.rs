//! Sources that lost their data, and say so.

use skopos_object::Status;

use super::bench::{Bench, end, history};
use super::{Action, Input};

/// Has listed at version 50 from the source of that history, and watches.
fn watching(name: &str) -> Bench {
    let mut bench = Bench::listing();
    bench.history = Some(history(name));
    // What it knew before is of no history: begin again.
    bench.machine.relist(crate::ListReason::First);
    bench.give(Input::Woken).give(Input::Opened).give(end(50, None));
    bench.after(60).give(Input::Opened).told();
    bench
}

#[test]
fn source_that_lost_its_data_is_listed_anew_though_its_versions_went_on() {
    let mut bench = watching("first");
    bench.history = Some(history("second"));
    bench.refuse();
    bench.wake();
    assert_eq!(
        (bench.list().resource_version.as_str(), bench.list().limit),
        ("", Some(500))
    );
    bench.give(Input::Opened).give(end(90, None));
    assert_eq!(bench.told()[1..], ["replace other_history", "replaced 90"]);
    // From here on that is the history.
    bench.after(60).give(Input::Opened).refuse();
    bench.wake();
    assert_eq!(bench.list().limit, Some(1));
}

#[test]
fn source_that_was_only_away_is_not_listed() {
    let mut bench = watching("first");
    bench.refuse();
    bench.wake();
    bench.give(Input::Opened).give(end(90, None));
    assert_eq!(bench.watch().from, 50.into());
}

#[test]
fn history_that_cannot_be_known_now_is_no_other_one() {
    let mut bench = watching("first");
    bench.history = Some(None);
    bench.refuse();
    bench.wake();
    bench.give(Input::Opened).give(end(90, None)).give(Input::Opened);
    bench.history = Some(history("second"));
    bench.refuse();
    bench.wake();
    assert_eq!(
        bench.list().limit,
        Some(500),
        "what was known before still counts"
    );
}

#[test]
fn source_that_fails_to_say_its_history_is_followed_and_asked_again() {
    let mut bench = watching("first");
    bench.history = None;
    bench.refuse();
    let mut n_asked = 0;
    loop {
        bench.wake();
        match &bench.action {
            Action::Identify => n_asked += 1,
            Action::List(request) => break assert_eq!(request.limit, Some(1)),
            other => panic!("{other:?}"),
        }
        bench.fail(Status::internal("etcd is away"));
        if bench.action != Action::Rest {
            break;
        }
    }
    assert_eq!(n_asked, 5);
    bench.give(Input::Opened).give(end(90, None)).give(Input::Opened);
    assert_eq!(bench.watch().from, 50.into());
    bench.after(300).give(Input::Ended);
    assert_eq!(bench.action, Action::Identify, "the doubt remains");
    bench.give(Input::Identified(history("second")));
    assert_eq!(bench.list().limit, Some(500));
}
