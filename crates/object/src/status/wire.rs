//! The JSON form of a status.

use serde_json::{Map, Value, json};

use super::{Cause, Details, Reason, Status};

impl Status {
    /// The object as it goes over the wire.
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            put_text(&mut metadata, "continue", token);
        }
        let mut object = Map::new();
        put_text(&mut object, "kind", "Status");
        put_text(&mut object, "apiVersion", "v1");
        object.insert("metadata".to_owned(), Value::Object(metadata));
        put_text(
            &mut object,
            "status",
            if self.is_success() { "Success" } else { "Failure" },
        );
        put_text(&mut object, "message", &self.message);
        put_text(&mut object, "reason", self.reason.as_str());
        if let Some(details) = &self.details {
            object.insert("details".to_owned(), details.to_json());
        }
        if !self.is_success() {
            object.insert("code".to_owned(), self.code.into());
        }
        Value::Object(object)
    }

    /// Reads a status object. Gives nothing if `value` is an object of another kind.
    pub fn parse(value: &Value) -> Option<Self> {
        let known =
            text(value, "kind") == "Status" && matches!(text(value, "apiVersion"), "v1" | "meta.k8s.io/v1");
        if !known {
            return None;
        }
        let default_code = if text(value, "status") == "Success" {
            200
        } else {
            500
        };
        let code = value
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        let metadata = value.get("metadata").unwrap_or(&Value::Null);
        Some(Self {
            code: code.filter(|code| *code > 0).unwrap_or(default_code),
            reason: Reason::from_name(text(value, "reason")),
            message: text(value, "message").to_owned(),
            details: value.get("details").and_then(Details::parse).map(Box::new),
            continue_token: metadata
                .get("continue")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        put_text(&mut object, "name", &self.name);
        put_text(&mut object, "group", &self.group);
        put_text(&mut object, "kind", &self.kind);
        put_text(&mut object, "uid", &self.uid);
        if !self.causes.is_empty() {
            object.insert(
                "causes".to_owned(),
                self.causes.iter().map(Cause::to_json).collect(),
            );
        }
        if self.retry_after_seconds > 0 {
            object.insert("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds));
        }
        Value::Object(object)
    }

    fn parse(value: &Value) -> Option<Self> {
        value.as_object()?;
        let causes = value.get("causes").and_then(Value::as_array);
        let seconds = value.get("retryAfterSeconds").and_then(Value::as_u64);
        Some(Self {
            name: text(value, "name").to_owned(),
            group: text(value, "group").to_owned(),
            kind: text(value, "kind").to_owned(),
            uid: text(value, "uid").to_owned(),
            causes: causes
                .map(|causes| causes.iter().map(Cause::parse).collect())
                .unwrap_or_default(),
            retry_after_seconds: seconds
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or(0),
        })
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        put_text(&mut object, "reason", &self.reason);
        put_text(&mut object, "message", &self.message);
        put_text(&mut object, "field", &self.field);
        Value::Object(object)
    }

    fn parse(value: &Value) -> Self {
        Self {
            reason: text(value, "reason").to_owned(),
            message: text(value, "message").to_owned(),
            field: text(value, "field").to_owned(),
        }
    }
}

fn put_text(object: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.to_owned(), text.into());
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupResource;

    #[test]
    fn survives_the_wire() {
        let mut status = Status::timeout("slow", 3);
        status.continue_token = Some("abc".to_owned());
        let details = status.details.get_or_insert_default();
        details.causes.push(Cause {
            reason: "R".into(),
            message: "m".into(),
            field: "spec.x".into(),
        });
        details.uid = "u".into();
        assert_eq!(Status::parse(&status.to_json()).as_ref(), Some(&status));

        let success = Status::success(Details {
            name: "x".into(),
            ..Details::default()
        });
        assert_eq!(
            success.to_json(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {"name": "x"}})
        );
        assert_eq!(Status::parse(&success.to_json()).as_ref(), Some(&success));
    }

    #[test]
    fn looks_as_the_api_server_writes_it() {
        assert_eq!(
            Status::not_found(&GroupResource::new("example.com", "foos"), "a").to_json(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "foos.example.com \"a\" not found", "reason": "NotFound",
                "details": {"name": "a", "group": "example.com", "kind": "foos"}, "code": 404
            })
        );
    }

    #[test]
    fn other_kinds_are_not_a_status() {
        for value in [
            json!({"kind": "Pod", "apiVersion": "v1"}),
            json!(1),
            json!({"kind": "Status"}),
        ] {
            assert_eq!(Status::parse(&value), None);
        }
    }
}
