//! Makes scenarios from a seed: a definition with a random schema that changes now and then, and random requests for
//! its objects and for those of built-in kinds.
//!
//! The same seed makes the same scenario. Most of what is sent is right; some of it is not.

mod built_in;
mod dice;
mod schema;
mod value;

use serde_json::{Value, json};

use super::{Scenario, Step, Until, Watch};
use dice::Dice;
use schema::Shape;

const NAMES: [&str; 2] = ["a", "b"];
const MANAGERS: [&str; 3] = ["one", "two", "three"];
const REQUESTS: usize = 30;

/// The object that is made last.
const LAST: &str = "last";

/// Each new one takes kube-apiserver a while.
const MAX_SCHEMAS: usize = 3;

impl Scenario {
    /// The scenario of a seed.
    pub fn generated(seed: u64) -> Scenario {
        let mut dice = Dice::new(seed);
        let shape = Shape::random(&mut dice);
        let definition = shape.definition();
        let mut writer = Writer {
            dice,
            shape,
            requests: Vec::new(),
            n_schemas: 1,
        };
        writer.write();
        Scenario {
            name: format!("generated/seed{seed}"),
            about: format!("Made by the generator from the seed {seed}."),
            definitions: vec![definition],
            requests: writer.requests,
        }
    }
}

struct Writer {
    dice: Dice,
    shape: Shape,
    requests: Vec<Step>,
    n_schemas: usize,
}

impl Writer {
    fn write(&mut self) {
        for name in NAMES {
            self.create(name);
        }
        self.begin();
        for _ in 0..REQUESTS {
            self.request();
        }
        self.push("all there is", "GET $api/things".into(), |_| {});
        self.end();
    }

    /// Reads what happened up to an object that is made for this: a time would be over before a busy server has told
    /// everything.
    fn end(&mut self) {
        self.push("the last", "POST $api/things".into(), |step| {
            step.body = Some(json!({
                "apiVersion": "$group/v1", "kind": "Thing", "metadata": {"name": LAST},
            }));
        });
        let watch = "GET $api/things?watch=true&resourceVersion=$start";
        self.push("what happened", watch.into(), |step| {
            step.watch = Some(Watch::Object(LAST.to_owned()));
        });
    }

    /// Where the watch at the end begins; it is there even if nothing could be made.
    fn begin(&mut self) {
        self.push("where to begin", "GET $api/things".into(), |step| {
            step.capture = [("start".to_owned(), "metadata.resourceVersion".to_owned())].into();
            step.until = Some(Until {
                code: Some(200),
                ..Until::default()
            });
        });
    }

    fn request(&mut self) {
        let name = NAMES[self.dice.below(NAMES.len())];
        match self.dice.below(29) {
            0 => self.create(name),
            1..=3 => self.update(name),
            4..=6 => self.merge(name),
            7..=8 => self.json_patch(name),
            9..=13 => self.apply(name),
            14..=15 => self.status(name),
            16 => self.scale(name),
            17 => self.finalizers(name),
            18 => self.delete(name),
            19 => self.list(),
            20 => self.get(name),
            21 => self.delete_all(),
            22..=25 => self.built_in(),
            26 if self.n_schemas < MAX_SCHEMAS => self.change_schema(),
            27 => self.price_schema(),
            _ => self.apply_status(name),
        }
    }

    fn push(&mut self, what: &str, send: String, finish: impl FnOnce(&mut Step)) {
        let mut step = Step {
            name: format!("{} {what}", self.requests.len() + 1),
            send,
            ..Step::default()
        };
        finish(&mut step);
        self.requests.push(step);
    }

    /// A write to an object; what comes back is what the next update begins with.
    fn write_to(&mut self, what: &str, name: &str, send: String, finish: impl FnOnce(&mut Step)) {
        let capture = [
            (name.to_owned(), ".".to_owned()),
            (format!("{name}_uid"), "metadata.uid".to_owned()),
        ];
        self.push(&format!("{what} {name}"), send, |step| {
            step.capture = capture.into();
            step.order = true;
            finish(step);
        });
    }

    fn object(&mut self, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": "$group/v1",
            "kind": "Thing",
            "metadata": {"name": name},
            "spec": self.shape.value(&mut self.dice),
        });
        if self.dice.one_in(2) {
            // One that stays: see `last-label` in docs/compatibility.md.
            object["metadata"]["labels"] = json!({"app": self.dice.pick(&["x", "z"]), "base": "y"});
        }
        object
    }

    /// Options that most writes may have.
    fn options(&mut self) -> String {
        let manager = *self.dice.pick(&MANAGERS);
        let mut query = format!("fieldManager={manager}");
        if self.dice.one_in(8) {
            query.push_str("&dryRun=All");
        }
        match self.dice.below(8) {
            0 => query.push_str("&fieldValidation=Strict"),
            1 => query.push_str("&fieldValidation=Ignore"),
            _ => {}
        }
        query
    }

    fn create(&mut self, name: &str) {
        let (body, options) = (self.object(name), self.options());
        self.write_to("create", name, format!("POST $api/things?{options}"), |step| {
            step.body = Some(body);
        });
    }

    fn update(&mut self, name: &str) {
        let mut body = json!({"spec": self.shape.value(&mut self.dice)});
        match self.dice.below(8) {
            0 => body["metadata"] = json!({"resourceVersion": "1"}),
            1 => body["metadata"] = json!({"resourceVersion": null}),
            2 => body["metadata"] = json!({"annotations": {"note": self.dice.pick(&["a", "b"])}}),
            _ => {}
        }
        let options = self.options();
        self.write_to(
            "update",
            name,
            format!("PUT $api/things/{name}?{options}"),
            |step| {
                step.base = Some(name.to_owned());
                step.body = Some(body);
            },
        );
    }

    fn merge(&mut self, name: &str) {
        let body = json!({"spec": self.shape.patch(&mut self.dice)});
        self.patch("merge", name, "merge", body);
    }

    fn json_patch(&mut self, name: &str) {
        let count = 1 + self.dice.below(3);
        let body = (0..count).map(|_| self.shape.operation(&mut self.dice)).collect();
        self.patch("json patch", name, "json-patch", body);
    }

    fn patch(&mut self, what: &str, name: &str, content_type: &str, body: Value) {
        let options = self.options();
        self.write_to(
            what,
            name,
            format!("PATCH $api/things/{name}?{options}"),
            |step| {
                step.body = Some(body);
                step.content_type = Some(content_type.to_owned());
            },
        );
    }

    fn apply(&mut self, name: &str) {
        let (body, mut options) = (self.object(name), self.options());
        if self.dice.one_in(3) {
            options.push_str("&force=true");
        }
        self.write_to(
            "apply",
            name,
            format!("PATCH $api/things/{name}?{options}"),
            |step| {
                step.body = Some(body);
                step.content_type = Some("apply".to_owned());
            },
        );
    }

    fn apply_status(&mut self, name: &str) {
        let (status, options) = (self.shape.status(&mut self.dice), self.options());
        let body =
            json!({"apiVersion": "$group/v1", "kind": "Thing", "metadata": {"name": name}, "status": status});
        let send = format!("PATCH $api/things/{name}/status?{options}");
        self.write_to("apply status", name, send, |step| {
            step.body = Some(body);
            step.content_type = Some("apply".to_owned());
        });
    }

    fn status(&mut self, name: &str) {
        let body = json!({"status": self.shape.status(&mut self.dice)});
        let options = self.options();
        let send = format!("PATCH $api/things/{name}/status?{options}");
        self.write_to("status", name, send, |step| {
            step.body = Some(body);
            step.content_type = Some("merge".to_owned());
        });
    }

    fn scale(&mut self, name: &str) {
        if self.dice.one_in(2) {
            return self.push(
                &format!("scale {name}"),
                format!("GET $api/things/{name}/scale"),
                |_| {},
            );
        }
        // Never what is there already: such a write changes the time of an entry if a second has passed.
        let replicas = match self.dice.below(4) {
            0 => json!(-1),
            _ => json!(10 + self.requests.len()),
        };
        let send = format!("PATCH $api/things/{name}/scale?fieldManager=scaler");
        self.push(&format!("scale {name}"), send, |step| {
            step.body = Some(json!({"spec": {"replicas": replicas}}));
            step.content_type = Some("merge".to_owned());
        });
    }

    fn finalizers(&mut self, name: &str) {
        let finalizers = match self.dice.below(3) {
            0 => json!(["example.com/hold"]),
            1 => json!(["example.com/hold", "example.com/more"]),
            _ => Value::Null,
        };
        self.patch(
            "finalizers",
            name,
            "merge",
            json!({"metadata": {"finalizers": finalizers}}),
        );
    }

    fn delete(&mut self, name: &str) {
        let body = match self.dice.below(6) {
            0 => Some(json!({"preconditions": {"uid": format!("${name}_uid")}})),
            1 => Some(json!({"preconditions": {"resourceVersion": "1"}})),
            // Without the dry run it depends on the speed of the garbage collector what comes next.
            2 => {
                let policy = self.dice.pick(&["Foreground", "Background", "Orphan"]);
                Some(json!({"propagationPolicy": policy, "dryRun": ["All"]}))
            }
            3 => Some(json!({"dryRun": ["All"]})),
            _ => None,
        };
        let send = match self.dice.one_in(8) {
            true => "DELETE $api/things?labelSelector=app%3Dx".to_owned(),
            false => format!("DELETE $api/things/{name}"),
        };
        self.push(&format!("delete {name}"), send, |step| step.body = body);
    }

    fn delete_all(&mut self) {
        let queries = [
            "labelSelector=app%3Dx",
            "labelSelector=app%21%3Dx",
            "fieldSelector=metadata.name%3Da",
            "dryRun=All",
            "",
        ];
        let query = *self.dice.pick(&queries);
        self.push("delete all", format!("DELETE $api/things?{query}"), |_| {});
    }

    /// Gives the definition another schema and waits until a default shows that it is in force.
    fn change_schema(&mut self) {
        self.shape.change(&mut self.dice, self.n_schemas);
        let spec = self.shape.definition()["spec"]["versions"].take();
        self.push("schema", "PATCH $crds/things.$group".into(), |step| {
            step.body = Some(json!({"spec": {"versions": spec}}));
            step.content_type = Some("merge".to_owned());
            step.pick = Some("spec".to_owned());
        });
        let mark = format!("marks.m{}", self.n_schemas);
        self.n_schemas += 1;
        self.push("probe", "POST $api/things?dryRun=All".into(), |step| {
            step.body =
                Some(json!({"apiVersion": "$group/v1", "kind": "Thing", "metadata": {"name": "probe"}}));
            step.until = Some(Until {
                path: Some(mark),
                ..Until::default()
            });
        });
        // What happened before cannot be watched through another schema.
        self.begin();
    }

    /// Asks for rules that may cost too much, of which nothing comes.
    fn price_schema(&mut self) {
        let definition = self.shape.with_dear_rules(&mut self.dice);
        self.push("rules", "POST $crds?dryRun=All".into(), |step| {
            step.body = Some(definition);
        });
    }

    fn get(&mut self, name: &str) {
        let query = *self.dice.pick(&["", "?resourceVersion=0", "/status"]);
        self.push(
            &format!("{}get {name}", cached(query)),
            format!("GET $api/things/{name}{query}"),
            |_| {},
        );
    }

    fn list(&mut self) {
        let queries = [
            "labelSelector=app%3Dx",
            "labelSelector=app%20notin%20%28x%29",
            "labelSelector=%21app",
            "fieldSelector=metadata.name%3Da",
            "limit=1",
            "resourceVersion=0",
            "resourceVersion=$start&resourceVersionMatch=Exact",
            "resourceVersion=$start&resourceVersionMatch=NotOlderThan",
        ];
        let query = *self.dice.pick(&queries);
        let what = format!("{}list", cached(query));
        self.push(&what, format!("GET $api/things?{query}"), |_| {});
    }
}

/// Marks what kube-apiserver may answer from a cache that is behind; a busy one is.
fn cached(query: &str) -> &'static str {
    match query.contains("resourceVersion=0") || query.contains("NotOlderThan") {
        true => "cached ",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_the_same_scenario_from_the_same_seed() {
        let text = |seed| Scenario::generated(seed).to_yaml().unwrap();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }
}
