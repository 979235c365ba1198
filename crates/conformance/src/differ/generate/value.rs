//! Random values for a schema, and patches of them. One in some values is wrong on purpose.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::schema::Shape;

impl Shape {
    pub(super) fn value(&self, dice: &mut Dice) -> Value {
        let mut value = random(&self.spec, dice);
        if value.is_object() && dice.one_in(3) {
            value["replicas"] = json!(dice.below(5));
        }
        value
    }

    pub(super) fn status(&self, dice: &mut Dice) -> Value {
        object(&self.status, dice)
    }

    /// A merge patch: some fields, some of them null.
    pub(super) fn patch(&self, dice: &mut Dice) -> Value {
        let Value::Object(fields) = self.value(dice) else {
            return json!({});
        };
        let mut patch = Map::new();
        for (key, value) in fields {
            match dice.below(4) {
                0 => {}
                1 => {
                    patch.insert(key, Value::Null);
                }
                _ => {
                    patch.insert(key, value);
                }
            }
        }
        Value::Object(patch)
    }

    /// An operation of a JSON patch on a field of the spec, or on the item of a list.
    pub(super) fn operation(&self, dice: &mut Dice) -> Value {
        let properties = self.spec["properties"].as_object();
        let keys: Vec<&String> = properties.into_iter().flat_map(Map::keys).collect();
        let key = *dice.pick(&keys);
        let schema = &self.spec["properties"][key.as_str()];
        let mut path = format!("/spec/{key}");
        let mut value = random(schema, dice);
        if schema["type"] == "array" && dice.one_in(2) {
            let index = *dice.pick(&["/-", "/0", "/1"]);
            path.push_str(index);
            value = random(&schema["items"], dice);
        }
        match dice.below(6) {
            0 => json!({"op": "remove", "path": path}),
            1 => json!({"op": "replace", "path": path, "value": value}),
            2 => json!({"op": "test", "path": path, "value": value}),
            3 => json!({"op": "copy", "from": path, "path": format!("/spec/{}", dice.pick(&keys))}),
            _ => json!({"op": "add", "path": path, "value": value}),
        }
    }
}

fn random(schema: &Value, dice: &mut Dice) -> Value {
    if dice.one_in(60) {
        return wrong(dice);
    }
    if schema["nullable"] == true && dice.one_in(4) || dice.one_in(80) {
        return Value::Null;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return dice.pick(&[json!(8080), json!("http"), json!("50%")]).clone();
    }
    match schema["type"].as_str() {
        Some("string") => text(schema, dice),
        Some("integer") => dice.pick(&[json!(0), json!(3), json!(7), json!(10)]).clone(),
        Some("number") => dice
            .pick(&[json!(0.5), json!(2), json!(-1.25), json!(100)])
            .clone(),
        Some("boolean") => json!(dice.one_in(2)),
        Some("array") => array(schema, dice),
        _ => object(schema, dice),
    }
}

fn wrong(dice: &mut Dice) -> Value {
    let values = [
        json!("wrong"),
        json!(-7),
        json!(1.5),
        json!([1]),
        json!({"unknown": 1}),
        json!(true),
    ];
    dice.pick(&values).clone()
}

fn text(schema: &Value, dice: &mut Dice) -> Value {
    let word = match schema["format"].as_str() {
        Some("date-time") => "2020-01-01T00:00:00Z",
        Some("ipv4") => "10.0.0.1",
        Some("uuid") => "0a1b2c3d-0000-4444-8888-0123456789ab",
        Some("byte") => "YWJj",
        Some("duration") => "1h30m",
        _ => dice.pick(&["red", "green", "blue"]),
    };
    word.into()
}

fn array(schema: &Value, dice: &mut Dice) -> Value {
    let count = dice.below(4);
    let mut items: Vec<Value> = (0..count).map(|_| random(&schema["items"], dice)).collect();
    let is_map = schema["x-kubernetes-list-type"] == "map";
    for item in items.iter_mut().filter(|item| is_map && item.is_object()) {
        item["name"] = json!(dice.pick(&["p", "q", "r"]));
    }
    // Duplicates are refused: let most lists be without them.
    if !dice.one_in(12) {
        let mut seen: Vec<String> = Vec::new();
        items.retain(|item| {
            let key = if is_map {
                item["name"].to_string()
            } else {
                item.to_string()
            };
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new || schema["x-kubernetes-list-type"].is_null()
        });
    }
    items.into()
}

fn object(schema: &Value, dice: &mut Dice) -> Value {
    let mut fields = Map::new();
    if let Some(properties) = schema["properties"].as_object() {
        for (key, property) in properties {
            let required = schema["required"].as_array();
            let is_required = required.is_some_and(|keys| keys.iter().any(|name| name == key));
            if key != "replicas" && (dice.one_in(2) || is_required && !dice.one_in(40)) {
                fields.insert(key.clone(), random(property, dice));
            }
        }
        if dice.one_in(25) {
            fields.insert("unknown".into(), wrong(dice));
        }
    } else if schema["additionalProperties"].is_object() {
        for key in ["k", "l"] {
            if dice.one_in(2) {
                fields.insert(key.into(), random(&schema["additionalProperties"], dice));
            }
        }
    } else {
        for key in ["free", "open"] {
            if dice.one_in(2) {
                fields.insert(
                    key.into(),
                    dice.pick(&[json!(1), json!({"deep": [1, {"x": "z"}]}), json!("t")])
                        .clone(),
                );
            }
        }
    }
    Value::Object(fields)
}
