//! The object that is measured: an Application with ten variables, three labels and two annotations.

use serde_json::{Value, json};

/// What such an object takes on the wire, with the managedFields that kube-apiserver writes.
const WIRE_BYTES: usize = 1_630;

/// How to make the objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    /// Filling for a server that writes less than [`WIRE_BYTES`] of its own.
    filling: usize,
    size: usize,
}

impl Shape {
    /// A shape whose objects have that size, seen from an answer to an object without filling.
    pub(crate) fn filled(answer: usize) -> Shape {
        let filling = WIRE_BYTES.saturating_sub(answer);
        Shape {
            filling,
            size: answer + filling,
        }
    }

    /// Bytes of one object on the wire.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// One object.
    pub(crate) fn object(&self, name: &str) -> Value {
        let env: Vec<_> = (0..10)
            .map(|number| json!({"name": format!("SETTING_{number}"), "value": format!("value of {name} {number}")}))
            .collect();
        json!({
            "apiVersion": "myapps.example.com/v1",
            "kind": "Application",
            "metadata": {
                "name": name,
                "labels": {"app": name, "tier": "front", "team": "blue"},
                "annotations": {"example.com/owner": "the blue team", "example.com/note": format!("-{}", ".".repeat(self.filling))},
            },
            "spec": {"image": "registry.example.com/team/app:1.2.3", "replicas": 3, "env": env},
        })
    }
}
