//! A random structural schema.

use serde_json::{Map, Value, json};

use super::dice::Dice;

/// The definition that a generated scenario works with.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) spec: Value,
    pub(super) status: Value,
    /// Fields whose defaults tell which schema is in force.
    marks: Value,
    has_status: bool,
    has_scale: bool,
}

impl Shape {
    pub(super) fn random(dice: &mut Dice) -> Shape {
        let mut spec = object(dice, 3);
        spec["properties"]["replicas"] = json!({"type": "integer"});
        if dice.one_in(3) {
            add_rules(dice, &mut spec);
        }
        Shape {
            spec,
            status: object(dice, 1),
            marks: json!({"type": "object", "default": {}, "properties": {}}),
            has_status: !dice.one_in(4),
            has_scale: dice.one_in(2),
        }
    }

    /// Another schema for the spec: anew, with one field more, or with rules for the fields it has.
    pub(super) fn change(&mut self, dice: &mut Dice, number: usize) {
        match dice.below(3) {
            0 => {
                self.spec = object(dice, 3);
                self.spec["properties"]["replicas"] = json!({"type": "integer"});
            }
            1 => self.spec["properties"][format!("g{number}")] = node(dice, 2),
            _ => add_rules(dice, &mut self.spec),
        }
        self.marks["properties"][format!("m{number}")] = json!({"type": "integer", "default": number});
    }

    /// A definition of another name with rules whose cost is bounded here and there.
    pub(super) fn with_dear_rules(&self, dice: &mut Dice) -> Value {
        let mut definition = self.definition();
        definition["metadata"]["name"] = json!("dears.$group");
        definition["spec"]["names"] = json!({"kind": "Dear", "plural": "dears"});
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut n_left = MAX_DEAR;
        add_dear_rules(dice, &mut schema["properties"]["spec"], &mut n_left);
        definition
    }

    pub(super) fn definition(&self) -> Value {
        let mut subresources = json!({});
        if self.has_status {
            subresources["status"] = json!({});
        }
        if self.has_scale {
            subresources["scale"] =
                json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        }
        let mut status = self.status.clone();
        status["properties"]["replicas"] = json!({"type": "integer"});
        let schema = json!({"type": "object", "properties": {"spec": self.spec, "status": status, "marks": self.marks}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.$group"},
            "spec": {
                "group": "$group",
                "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        })
    }
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let count = 2 + dice.below(4);
    let mut properties = Map::new();
    for index in 0..count {
        properties.insert(format!("f{index}"), node(dice, depth));
    }
    let required: Vec<&String> = properties.keys().filter(|_| dice.one_in(8)).collect();
    let mut schema = json!({"type": "object"});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["properties"] = Value::Object(properties);
    schema
}

/// Gives numbers and texts rules that some values break, in lists too. All defaults hold. Bounds keep the cost of a
/// rule, which kube-apiserver estimates, small.
fn add_rules(dice: &mut Dice, spec: &mut Value) {
    for (name, property) in spec["properties"].as_object_mut().into_iter().flatten() {
        if name == "replicas" || dice.one_in(2) {
            continue;
        }
        match property["type"] == "array" {
            true => {
                property["maxItems"] = json!(10);
                add_rule(dice, &mut property["items"]);
            }
            false => add_rule(dice, property),
        }
    }
}

fn add_rule(dice: &mut Dice, schema: &mut Value) {
    let rule = match schema["type"].as_str() {
        Some("integer") => *dice.pick(&["self < 7", "self != 3"]),
        // Some formats are other types to a rule.
        Some("string") if schema.get("format").is_none() => "self != 'green'",
        _ => return,
    };
    if schema["type"] == "string" && schema.get("maxLength").is_none() {
        schema["maxLength"] = json!(20);
    }
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
}

/// No more than kube-apiserver names: which of several that cost the same those are is left to chance.
const MAX_DEAR: usize = 4;

/// Gives lists, maps and texts rules, below one another too, and limits to some of them. There may be `n_left` of them.
fn add_dear_rules(dice: &mut Dice, schema: &mut Value, n_left: &mut usize) {
    let (rules, limit) = match schema["type"].as_str() {
        Some("array") => (DEAR_TO_LISTS, "maxItems"),
        Some("object") if schema.get("additionalProperties").is_some() => (DEAR_TO_MAPS, "maxProperties"),
        Some("string") if schema.get("format").is_none() => (DEAR_TO_TEXTS, "maxLength"),
        _ => (&[][..], ""),
    };
    if !rules.is_empty() && *n_left > 0 && !dice.one_in(3) {
        *n_left -= 1;
        schema["x-kubernetes-validations"] = json!([{"rule": dice.pick(rules)}]);
        if dice.one_in(2) {
            schema[limit] = json!(dice.pick(&[20, 300, 4000]));
        }
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            add_dear_rules(dice, &mut schema[inner], n_left);
        }
    }
    for property in schema["properties"]
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut)
    {
        add_dear_rules(dice, property, n_left);
    }
}

const DEAR_TO_LISTS: &[&str] = &[
    "self.all(x, self.exists_one(y, x == y))",
    "self.map(x, [x]).size() < 9",
    "self.filter(x, x != self[0]) == []",
];
const DEAR_TO_MAPS: &[&str] = &[
    "self.all(k, k.matches('^[a-z]+$'))",
    "self.exists(k, self.all(l, self[k] == self[l]))",
];
const DEAR_TO_TEXTS: &[&str] = &[
    "self.matches('^[a-z]+$')",
    "self.contains(self.lowerAscii())",
    "self.split(',').all(x, x + self != 'ab')",
];

fn node(dice: &mut Dice, depth: usize) -> Value {
    let kinds = if depth == 0 { 6 } else { 12 };
    match dice.below(kinds) {
        0 | 1 => text(dice),
        2 => integer(dice),
        3 => nullable(dice, json!({"type": "number"})),
        4 => {
            let schema = json!({"type": "boolean"});
            with_default(dice, schema, json!(true))
        }
        5 => json!({"x-kubernetes-int-or-string": true}),
        6 => {
            let schema = object(dice, depth - 1);
            let schema = nullable(dice, schema);
            let schema = of_map_type(dice, schema);
            match dice.one_in(4) && schema.get("required").is_none() {
                true => with(schema, "default", json!({})),
                false => schema,
            }
        }
        7 => {
            let values = node(dice, depth - 1);
            of_map_type(dice, json!({"type": "object", "additionalProperties": values}))
        }
        8 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        9 => {
            let members =
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
            with_default(dice, members, json!(["d"]))
        }
        10 => map_list(dice, depth),
        _ => {
            let items = node(dice, depth - 1);
            let schema = json!({"type": "array", "items": items});
            match dice.one_in(2) {
                true => with(schema, "x-kubernetes-list-type", json!("atomic")),
                false => schema,
            }
        }
    }
}

fn text(dice: &mut Dice) -> Value {
    let schema = json!({"type": "string"});
    let schema = match dice.below(6) {
        0 => with(schema, "enum", json!(["red", "green", "blue"])),
        1 => with(schema, "pattern", json!("^[a-z]+$")),
        2 => with(with(schema, "minLength", json!(2)), "maxLength", json!(6)),
        3 => {
            let format = *dice.pick(&["date-time", "ipv4", "uuid", "byte", "duration"]);
            return with(schema, "format", json!(format));
        }
        _ => schema,
    };
    let schema = nullable(dice, schema);
    with_default(dice, schema, json!("red"))
}

fn integer(dice: &mut Dice) -> Value {
    let schema = json!({"type": "integer"});
    let schema = match dice.below(3) {
        0 => with(with(schema, "minimum", json!(0)), "maximum", json!(10)),
        1 => with(schema, "format", json!("int32")),
        _ => schema,
    };
    with_default(dice, schema, json!(5))
}

fn map_list(dice: &mut Dice, depth: usize) -> Value {
    let mut items = object(dice, depth - 1);
    items["properties"]["name"] = json!({"type": "string"});
    items["required"] = json!(["name"]);
    let mut keys = vec!["name"];
    if dice.one_in(3) {
        items["properties"]["port"] = json!({"type": "integer", "default": 80});
        keys.push("port");
    }
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items})
}

fn of_map_type(dice: &mut Dice, schema: Value) -> Value {
    match dice.below(8) {
        0 => with(schema, "x-kubernetes-map-type", json!("granular")),
        1 | 2 => with(schema, "x-kubernetes-map-type", json!("atomic")),
        _ => schema,
    }
}

fn nullable(dice: &mut Dice, schema: Value) -> Value {
    match dice.one_in(6) {
        true => with(schema, "nullable", json!(true)),
        false => schema,
    }
}

fn with_default(dice: &mut Dice, schema: Value, default: Value) -> Value {
    match dice.one_in(4) {
        true => with(schema, "default", default),
        false => schema,
    }
}

fn with(mut schema: Value, key: &str, value: Value) -> Value {
    schema[key] = value;
    schema
}
