//! Requests for built-in kinds: a config map, and a deployment whose lists have keys to merge by.

use serde_json::{Value, json};

use super::{MANAGERS, Writer};

/// A kind, its collection, and the variable that its object is kept in.
#[derive(Clone, Copy)]
struct BuiltIn {
    api_version: &'static str,
    kind: &'static str,
    path: &'static str,
    variable: &'static str,
}

const MAP: BuiltIn = BuiltIn {
    api_version: "v1",
    kind: "ConfigMap",
    path: "$maps",
    variable: "map",
};

const DEPLOYMENT: BuiltIn = BuiltIn {
    api_version: "apps/v1",
    kind: "Deployment",
    path: "/apis/apps/v1/namespaces/$ns/deployments",
    variable: "deployment",
};

impl Writer {
    /// One request for an object of a built-in kind.
    pub(super) fn built_in(&mut self) {
        let of = *self.dice.pick(&[MAP, DEPLOYMENT]);
        let options = self.options();
        let one = format!("{}/one?{options}", of.path);
        match self.dice.below(8) {
            0 | 1 => self.write_built_in(of, "create", format!("POST {}?{options}", of.path), None),
            2 => self.write_built_in(of, "update", format!("PUT {one}"), None),
            3 => self.write_built_in(of, "merge", format!("PATCH {one}"), Some("merge")),
            4 | 5 => self.write_built_in(of, "strategic", format!("PATCH {one}"), Some("strategic")),
            6 => self.apply_built_in(of),
            _ => {
                let send = format!("DELETE {}/one", of.path);
                self.push(&format!("delete {}", of.kind), send, |_| {});
            }
        }
    }

    fn write_built_in(&mut self, of: BuiltIn, what: &str, send: String, content_type: Option<&str>) {
        let body = match what {
            "create" | "update" => self.built_in_object(of),
            _ => self.built_in_patch(of),
        };
        self.push(&format!("{what} {}", of.kind), send, |step| {
            step.body = Some(body);
            step.content_type = content_type.map(str::to_owned);
            step.capture = [(of.variable.to_owned(), ".".to_owned())].into();
            step.order = true;
        });
    }

    fn apply_built_in(&mut self, of: BuiltIn) {
        let (body, manager) = (self.built_in_object(of), *self.dice.pick(&MANAGERS));
        let force = if self.dice.one_in(2) { "&force=true" } else { "" };
        let send = format!("PATCH {}/one?fieldManager={manager}{force}", of.path);
        self.push(&format!("apply {}", of.kind), send, |step| {
            step.body = Some(body);
            step.content_type = Some("apply".to_owned());
            step.order = true;
        });
    }

    fn built_in_object(&mut self, of: BuiltIn) -> Value {
        let mut object = match of.kind {
            "ConfigMap" => json!({"data": self.entries()}),
            _ => {
                let containers: Vec<Value> = (0..=self.dice.below(2)).map(|at| self.container(at)).collect();
                let template =
                    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}});
                json!({"spec": {
                    "replicas": self.dice.below(3),
                    "selector": {"matchLabels": {"app": "x"}},
                    "template": template,
                }})
            }
        };
        object["apiVersion"] = of.api_version.into();
        object["kind"] = of.kind.into();
        object["metadata"] = json!({"name": "one"});
        object
    }

    fn built_in_patch(&mut self, of: BuiltIn) -> Value {
        if of.kind == "ConfigMap" {
            return match self.dice.below(4) {
                0 => json!({"data": null}),
                1 => json!({"data": {"k0": null, "k1": "new"}}),
                2 => json!({"binaryData": {"b": "AAEC"}}),
                _ => json!({"data": self.entries()}),
            };
        }
        let at = self.dice.below(3);
        let mut container = self.container(at);
        if self.dice.one_in(4) {
            container = json!({"name": container["name"], "$patch": "delete"});
        }
        match self.dice.below(4) {
            0 => json!({"spec": {"replicas": self.dice.below(4)}}),
            1 => {
                json!({"spec": {"template": {"metadata": {"annotations": {"at": self.requests.len().to_string()}}}}})
            }
            2 => json!({"spec": {"paused": true, "strategy": {"type": "Recreate", "rollingUpdate": null}}}),
            _ => json!({"spec": {"template": {"spec": {"containers": [container]}}}}),
        }
    }

    fn container(&mut self, at: usize) -> Value {
        let mut container = json!({"name": format!("c{at}"), "image": self.dice.pick(&["nginx", "httpd"])});
        if self.dice.one_in(2) {
            let value = *self.dice.pick(&["1", "2"]);
            container["env"] = json!([{"name": "A", "value": value}, {"name": "B", "value": "b"}]);
        }
        if self.dice.one_in(2) {
            container["ports"] = json!([{"containerPort": 80 + self.dice.below(2)}]);
        }
        container
    }

    fn entries(&mut self) -> Value {
        let mut entries = json!({});
        for at in 0..self.dice.below(4) {
            entries[format!("k{at}")] = (*self.dice.pick(&["a", "b", ""])).into();
        }
        entries
    }
}
