//! What ends although nobody asked it to, or stands still: `/healthz` tells, and the manager does not go on without it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{error, fmt};

use http::Request;
use kube::client::Body;
use skopos_client::Client;
use skopos_controller::{
    Action, Context, Controller, ControllerConfig, Failure, LeaderConfig, Manager, ManagerConfig,
};
use skopos_object::{GroupResource, Object, Status};
use skopos_queue::Leftovers;
use skopos_testkit::{Fault, Rule, eventually};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::leading::until_leading;
use crate::stage::{Notes, Stage, free_address, get, noting};

/// An error whose text cannot be had: it takes the worker with it.
#[derive(Debug)]
struct Untold;

impl fmt::Display for Untold {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no text")
    }
}

impl error::Error for Untold {}

async fn until_unhealthy(endpoint: SocketAddr, path: &str, why: &str) {
    eventually(async || {
        let answer = get(endpoint, path).await;
        match answer.starts_with("HTTP/1.1 500 ") && answer.contains(why) {
            true => Ok(()),
            false => Err(answer),
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_queue_is_shut_down_by_somebody_ends_the_manager() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(noting(&notes));
    stage.create("a").await;
    notes.until(&["a 1"]).await;
    running.queue.shut_down(Leftovers::LetGo);
    let error = running.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a worker of apps.x.io ended unasked; everything else was stopped"
    );
}

/// Also the controllers beside it: they are given their time to finish, and it is the first end that is told.
#[tokio::test(start_paused = true)]
async fn an_election_that_panics_ends_the_manager() {
    let stage = Stage::new().await;
    let server = stage.server.kube();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            assert!(!request.uri().path().contains("/leases/"), "no leases here");
            server.send(request).await
        }
    });
    let client = Client::new(kube::Client::new(service, "default"), "in process");
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new("default", "apps", "one")),
        ..ManagerConfig::new("x.io/apps")
    };
    let running = stage.run_on(&client, config, noting(&Notes::default()));
    let error = running.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the task of election panicked: no leases here; everything else was stopped"
    );
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_asked_to_stop_ends_without_an_error() {
    let stage = Stage::new().await;
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new("default", "apps", "one")),
        ..ManagerConfig::new("x.io/apps")
    };
    let manager = Manager::new(&stage.server.client(), config).unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// On a clock that runs: it speaks over sockets.
#[tokio::test]
async fn healthz_names_the_task_that_died_while_the_others_finish() {
    let mut stage = Stage::new().await;
    let endpoint = free_address();
    stage.config.endpoint = Some(endpoint);
    let (notes, go_on) = (Notes::default(), Arc::new(Notify::new()));
    let (seen, waits) = (notes.clone(), go_on.clone());
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
        let (seen, waits) = (seen.clone(), waits.clone());
        async move {
            if app.name() == "bad" {
                return Err(Failure::from(Untold));
            }
            seen.add("begins");
            waits.notified().await;
            seen.add("ends");
            Ok(Action::Done)
        }
    });
    let running = stage.run(controller);
    stage.create("good").await;
    notes.until(&["begins"]).await;
    let answer = get(endpoint, "/healthz?verbose").await;
    let checks = "[+]ping ok\n[+]caches ok\n[+]events ok\n[+]controller-apps.x.io ok\nhealthz check passed\n";
    assert!(answer.ends_with(checks), "{answer}");

    stage.create("bad").await;
    let why = "[-]controller-apps.x.io failed: a worker of apps.x.io panicked: no text\n";
    until_unhealthy(endpoint, "/healthz", why).await;
    until_unhealthy(endpoint, "/livez/controller-apps.x.io", why).await;
    go_on.notify_one();
    let error = running.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a worker of apps.x.io panicked: no text; everything else was stopped"
    );
    assert_eq!(notes.all(), ["begins", "ends"]);
}

/// On a clock that runs, for threads that are really blocked. One blocked worker of two only makes it slower.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn healthz_fails_once_every_worker_is_blocked() {
    let mut stage = Stage::new().await;
    let endpoint = free_address();
    stage.config.endpoint = Some(endpoint);
    stage.config.grace = Duration::from_millis(20);
    stage.config.cancel_grace = Duration::from_millis(20);
    let (leave, blocked) = mpsc::sync_channel::<()>(0);
    let blocked = Arc::new(Mutex::new(blocked));
    let config = ControllerConfig {
        concurrency: 1,
        timeout: Duration::from_millis(20),
        ..ControllerConfig::default()
    };
    let controller = Controller::for_("apps.x.io")
        .with(config)
        .reconcile(move |_: Object, _: Context| {
            let blocked = blocked.clone();
            async move {
                let _ = blocked.lock().unwrap().recv();
                Ok::<_, Failure>(Action::Done)
            }
        });
    let running = stage.run(controller);
    stage.create("a").await;
    let why = "every worker is blocked by a reconcile that cannot be cancelled: default/a\n";
    until_unhealthy(endpoint, "/healthz", why).await;
    running.begin_to_stop();
    running.ended().await.unwrap_err();
    drop(leave);
}

/// On a clock that runs: it speaks over sockets.
#[tokio::test]
async fn healthz_answers_although_reconciles_may_take_for_ever() {
    let mut stage = Stage::new().await;
    let endpoint = free_address();
    stage.config.endpoint = Some(endpoint);
    let (notes, go_on) = (Notes::default(), Arc::new(Notify::new()));
    let (seen, waits) = (notes.clone(), go_on.clone());
    let config = ControllerConfig {
        timeout: Duration::MAX,
        ..ControllerConfig::default()
    };
    let controller = Controller::for_("apps.x.io")
        .with(config)
        .reconcile(move |_: Object, _: Context| {
            let (seen, waits) = (seen.clone(), waits.clone());
            async move {
                seen.add("begins");
                waits.notified().await;
                Ok::<_, Failure>(Action::Done)
            }
        });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until(&["begins"]).await;
    let answer = get(endpoint, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    go_on.notify_one();
    running.stop().await;
}

/// It does nothing until it knows what the server has, and says so where somebody looks.
#[tokio::test(start_paused = true)]
async fn one_that_leads_and_cannot_compare_a_cache_is_not_ready() {
    let mut stage = Stage::new().await;
    let endpoint = free_address();
    stage.config.leader = Some(LeaderConfig::new("default", "apps", "only"));
    stage.config.endpoint = Some(endpoint);
    let notes = Notes::default();
    let running = stage.run(noting(&notes));
    stage.create("a").await;
    notes.until(&["a 1"]).await;
    let lost = Rule::write().resource("leases").then(Fault::unavailable(1));
    let lost = stage.server.faults().add(lost);
    until_leading(&running, false).await;
    assert!(readyz(endpoint).await.starts_with("HTTP/1.1 200 "));

    let apps = GroupResource::new("x.io", "apps");
    let forbidden = Status::forbidden(&apps, "", r#"User "a" cannot list resource "apps""#);
    let forbidden = Rule::list().resource("apps").then(Fault::Answer(forbidden));
    let forbidden = stage.server.faults().add(forbidden);
    lost.remove();
    until_leading(&running, true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let answer = readyz(endpoint).await;
    let why =
        "leads and does nothing yet: cannot compare the cache of apps.x.io with the server: cannot list: ";
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(
        answer.contains(why) && answer.contains("is forbidden"),
        "{answer}"
    );

    forbidden.remove();
    stage.set("a", 2).await;
    notes.until_count("a 2", 1).await;
    let answer = readyz(endpoint).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    running.stop().await;
}

/// Asked on a clock that runs, because it speaks over sockets.
async fn readyz(endpoint: SocketAddr) -> String {
    tokio::time::resume();
    let answer = get(endpoint, "/readyz").await;
    tokio::time::pause();
    answer
}
