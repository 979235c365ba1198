//! What was given up, listed and put back over sockets. On a clock that runs, for that.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use skopos_controller::{Action, Context, Controller, Failure};
use skopos_object::Object;
use skopos_testkit::eventually;

use crate::stage::{Notes, Running, Stage, ask_with, free_address};

/// Gives every app up, until it is told that the cause is gone.
struct Scene {
    stage: Stage,
    endpoint: SocketAddr,
    running: Running,
    notes: Notes,
    is_mended: Arc<AtomicBool>,
}

impl Scene {
    async fn new(shows_dead_letters: bool) -> Self {
        let mut stage = Stage::new().await;
        let endpoint = free_address();
        stage.config.endpoint = Some(endpoint);
        stage.config.dead_letters = shows_dead_letters;
        let (notes, is_mended) = (Notes::default(), Arc::new(AtomicBool::new(false)));
        let (seen, mended) = (notes.clone(), is_mended.clone());
        let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
            let done = mended.load(Ordering::SeqCst);
            if done {
                seen.add(app.name());
            }
            async move {
                match done {
                    true => Ok(Action::Done),
                    false => Err(Failure::terminal("no \"room\"")),
                }
            }
        });
        let running = stage.run(controller);
        Self {
            stage,
            endpoint,
            running,
            notes,
            is_mended,
        }
    }

    async fn give_up(&self, names: &[&str]) {
        for name in names {
            self.stage.create(name).await;
        }
        eventually(async || match self.running.queue.dead_letters().len() {
            n if n == names.len() => Ok(()),
            n => Err(format!("{n} given up")),
        })
        .await;
    }

    /// The code of the answer, and its body.
    async fn says(&self, request: &str) -> (u16, String) {
        self.says_to(request, "").await
    }

    async fn says_to(&self, request: &str, headers: &str) -> (u16, String) {
        let answer = ask_with(self.endpoint, request, headers).await;
        let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (code, body.to_owned())
    }

    async fn check(&self, request: &str, code: u16, text: &str) {
        let says = self.says(request).await;
        assert_eq!(says, (code, format!("{text}\n")), "{request}");
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_was_given_up_is_listed_and_put_back() {
    let scene = Scene::new(true).await;
    scene.give_up(&["a", "b", "c"]).await;
    let (code, body) = scene.says("GET /debug/dead-letters").await;
    let mut list: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &list["total"]), (200, &json!(3)));
    let items = list["items"].as_array_mut().unwrap();
    items.sort_by_key(|item| item["name"].to_string());
    let item = items[0].as_object_mut().unwrap();
    for time in ["firstFailed", "lastFailed"] {
        let time = item.remove(time).unwrap();
        assert!(
            time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(),
            "{time}"
        );
    }
    let rest = json!({"controller": "apps.x.io", "namespace": "default", "name": "a", "attempts": 1,
        "error": "no \"room\""});
    assert_eq!(Value::Object(item.clone()), rest);

    scene.is_mended.store(true, Ordering::SeqCst);
    let one = "POST /debug/dead-letters/redrive?controller=apps.x.io&namespace=default&name=%62";
    assert_eq!(scene.says(one).await, (200, r#"{"redriven":1}"#.to_owned()));
    scene.notes.until(&["b"]).await;
    scene
        .check(one, 404, "no dead letter is of this namespace and name")
        .await;
    let all = "POST /debug/dead-letters/redrive";
    assert_eq!(scene.says(all).await, (200, r#"{"redriven":2}"#.to_owned()));
    scene.notes.until_count("a", 1).await;
    scene.notes.until_count("c", 1).await;
    assert_eq!(scene.says(all).await, (200, r#"{"redriven":0}"#.to_owned()));
    scene.running.stop().await;
}

#[tokio::test]
async fn a_list_is_cut_where_it_is_told_to_and_says_how_many_there_are() {
    let scene = Scene::new(true).await;
    scene.give_up(&["a", "b", "c"]).await;
    let list = async |query: &str| -> Value {
        let (_, body) = scene.says(&format!("GET /debug/dead-letters?{query}")).await;
        serde_json::from_str(&body).unwrap()
    };
    let two = list("limit=2").await;
    assert_eq!((names(&two).len(), &two["total"]), (2, &json!(3)));
    assert_eq!(names(&list("name=b&namespace=default").await), ["b"]);
    assert_eq!(list("namespace=other").await, json!({"total": 0, "items": []}));
    scene.running.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_in_words() {
    let scene = Scene::new(true).await;
    scene.give_up(&["a"]).await;
    let redrive = "POST /debug/dead-letters/redrive";
    for (request, code, text) in [
        (
            "GET /debug/dead-letters?controller=other",
            404,
            "no controller has this name",
        ),
        (
            "GET /debug/dead-letters?limit=0",
            400,
            "limit is a number from 1 to 1000",
        ),
        (
            "GET /debug/dead-letters?limit=1001",
            400,
            "limit is a number from 1 to 1000",
        ),
        (
            "GET /debug/dead-letters?name=%ff",
            400,
            "what is asked for is not UTF-8",
        ),
        (
            "GET /debug/dead-letters?name=a&name=b",
            400,
            "name is given twice",
        ),
        ("POST /debug/dead-letters", 405, "only GET, HEAD"),
        ("GET /debug/dead-letters/redrive", 405, "only POST"),
        ("GET /debug/dead-letters/other", 404, "404 page not found"),
    ] {
        scene.check(request, code, text).await;
    }
    // One that is misspelt must not put back everything.
    let unknown = "only controller, namespace, name and limit can be asked for";
    scene.check(&format!("{redrive}?nmae=a"), 400, unknown).await;
    scene
        .check(&format!("{redrive}?limit=1"), 400, "limit is for lists")
        .await;
    let other = "no dead letter is of this namespace and name";
    scene
        .check(&format!("{redrive}?namespace=other"), 404, other)
        .await;
    assert_eq!(scene.running.queue.dead_letters().len(), 1);
    scene.running.stop().await;
}

#[tokio::test]
async fn neither_browsers_nor_bodies_put_anything_back() {
    let scene = Scene::new(true).await;
    scene.give_up(&["a"]).await;
    let origin = "origin: http://other.example\r\n";
    for (headers, code) in [(origin, 403), ("content-length: 2\r\n", 400)] {
        let (said, why) = scene.says_to("POST /debug/dead-letters/redrive", headers).await;
        assert_eq!(said, code, "{why}");
    }
    assert_eq!(scene.running.queue.dead_letters().len(), 1);
    scene.running.stop().await;
}

#[tokio::test]
async fn dead_letters_are_not_served_unless_somebody_says_so() {
    let scene = Scene::new(false).await;
    scene.give_up(&["a"]).await;
    scene
        .check("GET /debug/dead-letters", 404, "404 page not found")
        .await;
    let (code, _) = scene.says("POST /debug/dead-letters/redrive").await;
    assert_eq!((code, scene.running.queue.dead_letters().len()), (405, 1));
    scene.running.stop().await;
}
