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

/// An object as kube-apiserver writes it, managed fields included, with room for number and version.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    parts: Vec<Part>,
    size: usize,
}

#[derive(Debug, Clone)]
enum Part {
    Text(Vec<u8>),
    Number,
    Version,
}

/// All numbers and versions have the same length, so that all objects have the same size.
const NUMBER: &str = "@@@@@@";
const VERSION: &str = "##########";

impl Template {
    /// Makes the object once; copies of it differ only in number and version.
    pub(crate) fn new() -> Self {
        let size = stored(&Shape::default()).to_string().len();
        let text = stored(&Shape::filled(size)).to_string();
        let mut parts = Vec::new();
        for (index, around_version) in text.split(VERSION).enumerate() {
            if index > 0 {
                parts.push(Part::Version);
            }
            for (index, around_number) in around_version.split(NUMBER).enumerate() {
                if index > 0 {
                    parts.push(Part::Number);
                }
                parts.push(Part::Text(around_number.as_bytes().to_vec()));
            }
        }
        let size = text.len();
        Self { parts, size }
    }

    /// Bytes of one object.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// A version as these objects have it.
    pub(crate) fn version(number: usize) -> String {
        format!("{:010}", 1_000_000_000 + number)
    }

    /// Appends an object.
    pub(crate) fn write(&self, number: usize, version: usize, out: &mut Vec<u8>) {
        let (number, version) = (format!("{number:06}"), Self::version(version));
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Number => out.extend_from_slice(number.as_bytes()),
                Part::Version => out.extend_from_slice(version.as_bytes()),
            }
        }
    }
}

/// The object with what the server and a controller's status add to it.
fn stored(shape: &Shape) -> Value {
    let mut object = shape.object(&format!("app-{NUMBER}"));
    let metadata = &mut object["metadata"];
    metadata["creationTimestamp"] = json!("2026-01-05T09:30:00Z");
    metadata["generation"] = json!(1);
    metadata["namespace"] = json!("default");
    metadata["resourceVersion"] = json!(VERSION);
    metadata["uid"] = json!(format!("5f0c7c3a-3a52-4f0e-9b0c-1d7e8a{NUMBER}"));
    metadata["managedFields"] = json!([
        {
            "apiVersion": "myapps.example.com/v1", "fieldsType": "FieldsV1", "manager": "kubectl-create",
            "operation": "Update", "time": "2026-01-05T09:30:00Z",
            "fieldsV1": {
                "f:metadata": {
                    "f:annotations": {".": {}, "f:example.com/note": {}, "f:example.com/owner": {}},
                    "f:labels": {".": {}, "f:app": {}, "f:team": {}, "f:tier": {}},
                },
                "f:spec": {".": {}, "f:env": {}, "f:image": {}, "f:replicas": {}},
            },
        },
        {
            "apiVersion": "myapps.example.com/v1", "fieldsType": "FieldsV1", "manager": "application-controller",
            "operation": "Update", "subresource": "status", "time": "2026-01-05T09:30:01Z",
            "fieldsV1": {"f:status": {".": {}, "f:phase": {}}},
        },
    ]);
    object["status"] = json!({"phase": "Ready"});
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_size_of_the_specification() {
        let template = Template::new();
        let mut text = Vec::new();
        template.write(7, 3, &mut text);
        assert_eq!((text.len(), template.size()), (WIRE_BYTES, WIRE_BYTES));
        let mut object: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(object["metadata"]["labels"]["app"], "app-000007");
        assert_eq!(object["metadata"]["resourceVersion"], "1000000003");
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        let left = object.to_string().len();
        assert!(
            (1_000..1_130).contains(&left),
            "{left} bytes without managed fields"
        );
    }
}
