//! Objects spoilt at random: nothing panics, and what is accepted is in its final form.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use skopos_builtin::{
    Kind, cells, changes_generation, decode, default, kind, prepare_create, prepare_status_update,
    prepare_update, protobuf, strategic_merge, validate,
};

/// A small generator, so that a failing seed can be run again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

fn kind_of(object: &Value) -> &'static Kind {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    kind(group, version, object["kind"].as_str().unwrap()).unwrap()
}

/// Walks to a random place and spoils it.
fn spoil(value: &mut Value, dice: &mut Dice, depth: usize) {
    let deeper = depth < 2 || dice.roll(5) > 0;
    match value {
        Value::Object(map) if deeper && !map.is_empty() => {
            let key = map.keys().nth(dice.roll(map.len())).unwrap().clone();
            if depth > 0 && dice.roll(6) == 0 {
                map.remove(&key);
            } else if !matches!(key.as_str(), "apiVersion" | "kind") {
                spoil(&mut map[&key], dice, depth + 1);
            }
        }
        Value::Array(items) if deeper && !items.is_empty() => {
            let at = dice.roll(items.len());
            if dice.roll(6) == 0 {
                let copy = items[at].clone();
                items.push(copy);
            } else {
                spoil(&mut items[at], dice, depth + 1);
            }
        }
        other => {
            let values = [
                json!(null),
                json!({}),
                json!([]),
                json!(""),
                json!("A_/é ☃"),
                json!(0),
                json!(-7),
                json!(i64::MAX),
                json!(1.5),
                json!(true),
                json!([null]),
                json!({"$patch": "delete", "name": null}),
            ];
            *other = values[dice.roll(values.len())].clone();
        }
    }
}

fn run(kind: &Kind, object: &Value, good: &Value) {
    let mut object = object.clone();
    let _ = strategic_merge(kind, good, &object);
    let _ = cells(kind, &object, 1_800_000_000);
    if decode(kind, &mut object).is_err() {
        return;
    }
    let decoded = object.clone();
    assert!(decode(kind, &mut object).unwrap().is_empty());
    assert_eq!(object, decoded, "decoding twice");
    default(kind, &mut object);
    let mut updated = object.clone();
    prepare_create(kind, &mut object);
    let settled = object.clone();
    decode(kind, &mut object).unwrap();
    assert_eq!(object, settled, "{} is not as Go would write it", kind.plural);
    default(kind, &mut object);
    assert_eq!(object, settled, "defaults of {} are not complete", kind.plural);
    let _ = validate(kind, &object, None);
    let _ = cells(kind, &object, 1_800_000_000);
    prepare_update(kind, &mut updated, good);
    let _ = validate(kind, &updated, Some(good));
    let _ = changes_generation(kind, &updated, good);
    prepare_status_update(kind, &mut updated, good);
    let bytes = protobuf::encode(&object).unwrap();
    let (_, back) = protobuf::decode(&bytes).unwrap();
    let _ = validate(kind, &back, Some(&object));
}

#[test]
fn spoilt_objects_never_panic_and_settle() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/defaults.json")).unwrap();
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed_u64);
    let mut dice = Dice(seed.max(1));
    for round in 0..60 {
        for case in &cases {
            let mut object = case["in"].clone();
            let kind = kind_of(&object);
            for _ in 0..=dice.roll(3) {
                spoil(&mut object, &mut dice, 0);
            }
            let shown = object.to_string();
            let outcome = std::panic::catch_unwind(|| run(kind, &object, &case["out"]));
            assert!(outcome.is_ok(), "seed {seed}, round {round}: {shown}");
        }
    }
}
