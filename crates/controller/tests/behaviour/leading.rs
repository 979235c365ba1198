//! Several replicas, of which one works.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skopos_controller::{Action, Context, Controller, EventKind, Failure, LeaderConfig, ManagerConfig};
use skopos_informer::Wanted;
use skopos_object::{GroupVersionKind, Object};
use skopos_testkit::{Fault, Faults, Rule, eventually};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::applying::{adding_a_field, until_data};
use crate::stage::{Notes, Running, Stage, n_of};

fn config(name: &str) -> ManagerConfig {
    ManagerConfig {
        leader: Some(LeaderConfig::new("default", "apps", name)),
        ..ManagerConfig::new("x.io/apps")
    }
}

fn replica(stage: &Stage, name: &str, controller: Controller) -> Running {
    stage.run_with(config(name), controller)
}

/// Notes who reconciles what.
fn noting(notes: &Notes, replica: &'static str) -> Controller {
    let notes = notes.clone();
    Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
        notes.add(format!("{replica}: {} {}", app.name(), n_of(&app)));
        async { Ok::<_, Failure>(Action::Done) }
    })
}

#[tokio::test(start_paused = true)]
async fn one_replica_works_and_the_next_takes_over_at_once_when_it_stops() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    stage.create("a").await;
    let first = replica(&stage, "first", noting(&notes, "first"));
    notes.until(&["first: a 1"]).await;
    let second = replica(&stage, "second", noting(&notes, "second"));
    stage.set("a", 2).await;
    notes.until(&["first: a 1", "first: a 2"]).await;
    first.stop().await;
    let stopped = Instant::now();
    notes.until_count("second: a 2", 1).await;
    assert!(
        stopped.elapsed() < Duration::from_secs(3),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(notes.count("first: a 2"), 1);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_until_what_runs_is_finished_and_given_back_last() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let slow = |replica: &'static str| {
        let notes = notes.clone();
        Controller::for_("apps.x.io").reconcile(move |_: Object, _: Context| {
            let notes = notes.clone();
            async move {
                notes.add(format!("{replica} begins"));
                // Longer than a lease, shorter than the grace.
                tokio::time::sleep(Duration::from_secs(18)).await;
                notes.add(format!("{replica} ends"));
                Ok::<_, Failure>(Action::Done)
            }
        })
    };
    let first = replica(&stage, "first", slow("first"));
    stage.create("a").await;
    notes.until(&["first begins"]).await;
    let second = replica(&stage, "second", slow("second"));
    eventually(async || {
        let n = second.queue.len();
        if n == 1 { Ok(()) } else { Err("no cache yet") }
    })
    .await;
    first.begin_to_stop();
    notes.until_count("first ends", 1).await;
    let ended = Instant::now();
    notes.until_count("second begins", 1).await;
    assert_eq!(notes.all(), ["first begins", "first ends", "second begins"]);
    // Given back, not run out: that would have taken the whole lease.
    assert!(ended.elapsed() < Duration::from_secs(3), "{:?}", ended.elapsed());
    first.stopped().await;
    second.stop().await;
}

/// A write that is under way when the grace is over may happen later, beside the next leader.
#[tokio::test(start_paused = true)]
async fn the_lease_is_not_given_back_while_a_write_is_unanswered() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            seen.add("writes");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
            context.apply(&map).await?;
            Ok(Action::Done)
        }
    });
    let slow = Rule::write().resource("configmaps");
    let slow = slow.then(Fault::Slow(Duration::from_secs(3600)));
    stage.server.faults().add(slow);
    let quick = ManagerConfig {
        grace: Duration::from_secs(1),
        ..config("first")
    };
    let first = stage.run_with(quick, controller);
    stage.create("a").await;
    notes.until(&["writes"]).await;
    let second = replica(&stage, "second", noting(&notes, "second"));
    eventually(async || match second.queue.len() {
        1 => Ok(()),
        _ => Err("no cache yet"),
    })
    .await;
    first.stop().await;
    let stopped = Instant::now();
    notes.until_count("second: a 1", 1).await;
    let after = stopped.elapsed();
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(20)).contains(&after),
        "{after:?}"
    );
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_after_its_lease() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let first = replica(&stage, "first", noting(&notes, "first"));
    stage.create("a").await;
    notes.until(&["first: a 1"]).await;
    let second = replica(&stage, "second", noting(&notes, "second"));
    first.kill().await;
    let killed = Instant::now();
    notes.until_count("second: a 1", 1).await;
    assert!(
        killed.elapsed() < Duration::from_secs(20),
        "{:?}",
        killed.elapsed()
    );
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_its_reconciles_and_sends_no_more_writes() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let seen = seen.clone();
        async move {
            // Outlives the cancellation of the reconcile, as a spawned task of a user may.
            let (late, done) = (context.clone(), seen.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}});
                let error = late.apply(&map).await.unwrap_err();
                done.add(Failure::from(error).to_string());
            });
            seen.add(format!("begin {}", app.name()));
            tokio::time::sleep(Duration::from_secs(3600)).await;
            seen.add("end");
            Ok(Action::Done)
        }
    });
    let running = replica(&stage, "only", controller);
    stage.create("a").await;
    notes.until(&["begin a"]).await;
    stage
        .server
        .faults()
        .add(Rule::write().resource("leases").then(Fault::unavailable(1)));
    eventually(async || {
        let n = running.metric("skopos_controller_reconciles_cancelled_total");
        if n >= 1.0 { Ok(()) } else { Err("still runs") }
    })
    .await;
    let text = "PATCH /api/v1/namespaces/default/configmaps/late was not sent: this replica does not lead";
    notes.until_count(text, 1).await;
    assert_eq!(notes.count("end"), 0);
    stage.server.faults().clear();
    notes.until_count("begin a", 2).await;
    running.kill().await;
}

/// A task that outlives its reconcile writes once this replica leads again. Others may have led in between.
#[tokio::test(start_paused = true)]
async fn a_write_of_an_earlier_term_is_withheld_in_a_later_one() {
    let stage = Stage::new().await;
    let (notes, go_on) = (Notes::default(), Arc::new(Notify::new()));
    let (seen, waits) = (notes.clone(), go_on.clone());
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let (done, waits) = (seen.clone(), waits.clone());
        seen.add(format!("{} {}", app.name(), n_of(&app)));
        tokio::spawn(async move {
            waits.notified().await;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}});
            let late = context.apply(&map).await;
            done.add(late.map_or_else(|error| Failure::from(error).to_string(), |_| "written".to_owned()));
        });
        async { Ok::<_, Failure>(Action::Done) }
    });
    let running = replica(&stage, "only", controller);
    stage.create("a").await;
    notes.until(&["a 1"]).await;
    let lost = Rule::write().resource("leases").then(Fault::unavailable(1));
    let lost = stage.server.faults().add(lost);
    until_leading(&running, false).await;
    lost.remove();
    until_leading(&running, true).await;
    go_on.notify_one();
    let text = "PATCH /api/v1/namespaces/default/configmaps/late was not sent: this replica does not lead";
    notes.until(&["a 1", text]).await;
    // One of this term may.
    stage.set("a", 2).await;
    notes.until_count("a 2", 1).await;
    go_on.notify_one();
    notes.until_count("written", 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_are_written_beside_the_reconciles() {
    let stage = Stage::new().await;
    let controller = Controller::for_("apps.x.io").reconcile(|_: Object, context: Context| async move {
        context.event(EventKind::Warning, "TooSmall", "Wait", "one is not enough");
        Ok::<_, Failure>(Action::Done)
    });
    let running = stage.run(controller);
    stage.create("a").await;
    let kind = GroupVersionKind::new("events.k8s.io", "v1", "Event");
    let events = skopos_client::Resource::known(&kind, "events", true);
    let events = skopos_client::Api::namespaced(&stage.server.direct(), &events, "default");
    eventually(async || {
        let event = events.list(&Default::default()).next().await.unwrap();
        let event = event.map(|event| event.to_value()).unwrap_or_default();
        let found = (event["reason"].as_str(), event["regarding"]["name"].as_str());
        if found == (Some("TooSmall"), Some("a")) {
            Ok(())
        } else {
            Err(event.to_string())
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_takes_over_with_a_cache_behind_waits_for_it() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    for name in ["goes", "changes"] {
        stage.create(name).await;
    }
    let first = replica(&stage, "first", noting(&notes, "first"));
    notes.until_count("first: changes 1", 1).await;
    let faults = Faults::seeded(0);
    let client = stage.server.client_behind(&faults);
    let second = stage.run_on(&client, config("second"), noting(&notes, "second"));
    eventually(async || {
        if second.queue.len() == 2 {
            Ok(())
        } else {
            Err("no cache yet")
        }
    })
    .await;

    // From here on the second replica hears nothing.
    let silence = Rule::watch()
        .resource("apps")
        .then(Fault::Stall { after_bytes: 0 });
    let silence = faults.add(silence);
    faults.cut_open_streams();
    stage.delete("goes").await;
    stage.set("changes", 2).await;
    notes.until_count("first: changes 2", 1).await;
    first.stop().await;
    until_leading(&second, true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(
        notes.all().iter().all(|line| line.starts_with("first")),
        "{:?}",
        notes.all()
    );

    silence.remove();
    faults.cut_open_streams();
    notes.until_count("second: changes 2", 1).await;
    assert_eq!(notes.count("second: changes 1"), 0);
    assert_eq!(notes.count("second: goes 1"), 0);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_leads_again_with_a_cache_behind_that_a_reconcile_opened_waits_for_it() {
    let mut stage = Stage::new().await;
    stage.config = config("only");
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let seen = seen.clone();
        async move {
            let owned = context.owned("configmaps").await?.len();
            seen.add(format!("{} {owned}", n_of(&app)));
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    let app = stage.create("a").await;
    notes.until(&["1 0"]).await;
    let lost = Rule::write().resource("leases").then(Fault::unavailable(1));
    let lost = stage.server.faults().add(lost);
    until_leading(&running, false).await;

    // Another one makes the map in the meantime, and the watch does not tell of it.
    let silence = Rule::watch()
        .resource("configmaps")
        .then(Fault::Stall { after_bytes: 0 });
    let silence = stage.server.faults().add(silence);
    stage.server.faults().cut_open_streams();
    let app = Object::from_value(&app).unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default",
        "ownerReferences": [skopos_controller::controller_reference(&app)]}});
    stage.server.put(&map).await;
    stage.set("a", 2).await;
    lost.remove();
    until_leading(&running, true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(notes.all(), ["1 0"]);

    silence.remove();
    stage.server.faults().cut_open_streams();
    notes.until(&["1 0", "2 1"]).await;
    running.stop().await;
}

/// Two replicas of which the first loses the lead to the second, which then stops.
struct Exchange {
    first: Running,
    second: Running,
    /// Between the first and the server.
    faults: Faults,
}

impl Exchange {
    /// Has the first lead, and the second wait.
    async fn new(stage: &Stage, controllers: [Controller; 2]) -> Self {
        let faults = Faults::seeded(0);
        let [one, other] = controllers;
        let first = stage.run_on(&stage.server.client_behind(&faults), config("first"), one);
        until_leading(&first, true).await;
        let second = replica(stage, "second", other);
        Self {
            first,
            second,
            faults,
        }
    }

    /// Has the second lead.
    async fn there(&self) {
        self.faults
            .add(Rule::write().resource("leases").then(Fault::unavailable(1)));
        until_leading(&self.first, false).await;
        until_leading(&self.second, true).await;
    }

    /// Has the first lead again.
    async fn and_back(self) -> Running {
        self.second.stop().await;
        self.faults.clear();
        until_leading(&self.first, true).await;
        self.first
    }
}

/// What the first applied last is not what the second did, and contained in it.
#[tokio::test(start_paused = true)]
async fn one_that_leads_again_removes_what_another_applied_in_between() {
    let stage = Stage::new().await;
    stage.create("a").await;
    stage.set("a", 2).await;
    let exchange = Exchange::new(&stage, [adding_a_field(), adding_a_field()]).await;
    until_data(&stage, &json!({"always": "yes"})).await;
    exchange.there().await;
    stage.set("a", 3).await;
    until_data(&stage, &json!({"always": "yes", "odd": "yes"})).await;
    let (first, _) = tokio::join!(exchange.and_back(), stage.set("a", 4));
    until_data(&stage, &json!({"always": "yes"})).await;
    first.stop().await;
}

/// When the second meant to look again went with it.
#[tokio::test(start_paused = true)]
async fn one_that_leads_again_after_another_looks_at_every_object() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    stage.create("a").await;
    let both = [noting(&notes, "first"), noting(&notes, "second")];
    let exchange = Exchange::new(&stage, both).await;
    notes.until(&["first: a 1"]).await;
    exchange.there().await;
    notes.until_count("second: a 1", 1).await;
    let first = exchange.and_back().await;
    notes.until_count("first: a 1", 2).await;
    first.stop().await;
}

pub(crate) async fn until_leading(running: &Running, leads: bool) {
    eventually(async || {
        let n = running.metric("leader_election_master_status");
        if (n == 1.0) == leads { Ok(()) } else { Err(n) }
    })
    .await;
}

/// A map comes after the caches were read, in one of two namespaces; nothing happens in the other.
#[tokio::test(start_paused = true)]
async fn taking_over_waits_for_no_namespace_in_which_nothing_happened() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let maps = Wanted {
        namespaces: vec!["default".to_owned(), "kube-public".to_owned()],
        ..Wanted::from("configmaps")
    };
    let controller = Controller::for_("apps.x.io")
        .owns(maps)
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.name());
            async { Ok(Action::Done) }
        });
    stage.create("a").await;
    stage.server.faults().lag("configmaps", Duration::from_secs(4));
    let begun = Instant::now();
    let running = replica(&stage, "one", controller);
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage
        .server
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: default}}")
        .await;
    notes.until(&["a"]).await;
    let took = begun.elapsed();
    assert!(
        (Duration::from_secs(6)..Duration::from_secs(8)).contains(&took),
        "{took:?}"
    );
    running.stop().await;
}

/// What the leader has long worked off waits in the queue of the standby: that must not hold up what users do next.
#[tokio::test(start_paused = true)]
async fn what_was_heard_in_standby_comes_after_what_happens_later() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let first = replica(&stage, "first", noting(&notes, "first"));
    stage.create("a").await;
    notes.until(&["first: a 1"]).await;
    let second = replica(&stage, "second", noting(&notes, "second"));
    let waits = async |n: usize| {
        eventually(async || match second.queue.len() {
            len if len == n => Ok(()),
            len => Err(format!("{len} wait")),
        })
        .await;
    };
    waits(1).await;
    stage.create("b").await;
    waits(2).await;
    let waiting = |priority: &str| {
        let labels = format!(r#"{{name="apps.x.io",priority="{priority}"}}"#);
        second.sample(&format!("workqueue_depth{labels}"))
    };
    assert_eq!([waiting("high"), waiting("low")], [Some(0.0), Some(2.0)]);
    first.stop().await;
    notes.until_count("second: b 1", 1).await;
    // How long a reconcile took to come is told of those that this replica was there for.
    assert_eq!(
        second.metric("skopos_controller_reconcile_lag_seconds_count"),
        0.0
    );
    stage.set("b", 2).await;
    notes.until_count("second: b 2", 1).await;
    assert_eq!(
        second.metric("skopos_controller_reconcile_lag_seconds_count"),
        1.0
    );
    second.stop().await;
}
