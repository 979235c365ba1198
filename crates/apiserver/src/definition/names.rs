//! Who may have which name: the first definition of a group to ask for a name gets it.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{is_condition_true, set_condition};

/// The names that definitions of a group hold, and how many hold each.
#[derive(Debug, Default)]
pub(super) struct Taken {
    resources: Holders,
    kinds: Holders,
}

type Holders = HashMap<String, usize>;

impl Taken {
    /// Counts the names that a definition holds.
    pub(super) fn add(&mut self, definition: &Value) {
        let (resources, kinds) = held(definition);
        for name in resources {
            *self.resources.entry(name).or_default() += 1;
        }
        for name in kinds {
            *self.kinds.entry(name).or_default() += 1;
        }
    }

    /// Counts the names that a definition holds no more.
    pub(super) fn remove(&mut self, definition: &Value) {
        let (resources, kinds) = held(definition);
        for name in resources {
            release(&mut self.resources, &name);
        }
        for name in kinds {
            release(&mut self.kinds, &name);
        }
    }
}

fn release(holders: &mut Holders, name: &str) {
    match holders.get_mut(name) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            holders.remove(name);
        }
    }
}

/// The names of a definition as a resource, and as a kind.
fn held(definition: &Value) -> (Vec<String>, Vec<String>) {
    let names = &definition["status"]["acceptedNames"];
    let texts = |fields: [&str; 2]| {
        let texts = fields.into_iter().filter_map(|field| names[field].as_str());
        texts
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut resources = texts(["plural", "singular"]);
    resources.extend(short_names(names));
    (resources, texts(["kind", "listKind"]))
}

fn short_names(names: &Value) -> Vec<String> {
    let list = names["shortNames"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Gives a definition the names that are free and says so in its conditions. Returns whether it changed.
pub(super) fn accept(definition: &mut Value, taken: &Taken, now: Timestamp) -> bool {
    let requested = definition["spec"]["names"].clone();
    let mut accepted = definition["status"]["acceptedNames"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let mut conflict: Option<(&str, String)> = None;
    let fields = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (field, reason, taken) in fields {
        let wanted = requested[field].as_str().unwrap_or("");
        if !wanted.is_empty() && taken.contains_key(wanted) {
            // The last one found is the one reported.
            conflict = Some((reason, format!("{wanted:?} is already in use")));
        } else {
            put(&mut accepted, field, &requested[field]);
        }
        if field == "singular" {
            accept_short_names(&requested, &mut accepted, taken, &mut conflict);
        }
    }
    put(&mut accepted, "categories", &requested["categories"]);
    let before = definition["status"].clone();
    definition["status"]["acceptedNames"] = Value::Object(accepted);
    set_name_conditions(definition, conflict, now);
    definition["status"] != before
}

fn accept_short_names(
    requested: &Value,
    accepted: &mut Map<String, Value>,
    taken: &Holders,
    conflict: &mut Option<(&'static str, String)>,
) {
    let wanted = short_names(requested);
    let clashing: Vec<String> = wanted
        .iter()
        .filter(|n| taken.contains_key(*n))
        .map(|n| format!("{n:?} is already in use"))
        .collect();
    if clashing.is_empty() {
        put(accepted, "shortNames", &requested["shortNames"]);
        return;
    }
    let message = match clashing.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    *conflict = Some(("ShortNamesConflict", message));
}

fn put(accepted: &mut Map<String, Value>, field: &str, value: &Value) {
    match value.is_null() {
        true => accepted.remove(field),
        false => accepted.insert(field.to_owned(), value.clone()),
    };
}

fn set_name_conditions(definition: &mut Value, conflict: Option<(&str, String)>, now: Timestamp) {
    let established = is_condition_true(definition, "Established");
    match conflict {
        None => {
            set_condition(
                definition,
                "NamesAccepted",
                "True",
                "NoConflicts",
                "no conflicts found",
                now,
            );
            let message = "the initial names have been accepted";
            if !established {
                set_condition(
                    definition,
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    message,
                    now,
                );
            }
        }
        Some((reason, message)) => {
            set_condition(definition, "NamesAccepted", "False", reason, &message, now);
            if !established {
                let message = "not all names are accepted";
                set_condition(definition, "Established", "False", "NotAccepted", message, now);
            }
        }
    }
}

/// Says whether a definition in a protected group has been approved. Returns whether it changed.
pub(super) fn check_approval(definition: &mut Value, now: Timestamp) -> bool {
    let group = definition["spec"]["group"].as_str().unwrap_or("");
    let protected = |suffix: &str| group == suffix || group.ends_with(&format!(".{suffix}"));
    if !protected("k8s.io") && !protected("kubernetes.io") {
        return false;
    }
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";
    let approval = definition["metadata"]["annotations"][ANNOTATION]
        .as_str()
        .unwrap_or("")
        .to_owned();
    if approval.is_empty() {
        let message = format!("protected groups must have approval annotation {ANNOTATION:?}");
        return set_condition(definition, CONDITION, "False", "MissingAnnotation", &message, now);
    }
    if approval.starts_with("unapproved") {
        let message = format!("not approved: {approval:?}");
        return set_condition(
            definition,
            CONDITION,
            "False",
            "UnapprovedAnnotation",
            &message,
            now,
        );
    }
    let message = format!("approved in {approval}");
    set_condition(definition, CONDITION, "True", "ApprovedAnnotation", &message, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(plural: &str, kind: &str, short: &str) -> Value {
        json!({"spec": {"group": "g", "names": {"plural": plural, "kind": kind, "shortNames": [short]}}})
    }

    fn reasons(definition: &Value) -> Vec<String> {
        let conditions = definition["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|c| format!("{}={} {}", c["type"], c["status"], c["reason"]).replace('"', ""))
            .collect()
    }

    #[test]
    fn the_first_definition_gets_its_names() {
        let mut first = definition("foos", "Foo", "f");
        assert!(accept(&mut first, &Taken::default(), Timestamp::UNIX_EPOCH));
        assert_eq!(
            reasons(&first),
            [
                "NamesAccepted=True NoConflicts",
                "Established=True InitialNamesAccepted"
            ]
        );
        assert!(
            !accept(&mut first, &Taken::default(), Timestamp::now()),
            "accepting again changes nothing"
        );
    }

    #[test]
    fn a_taken_kind_or_short_name_keeps_a_definition_from_being_established() {
        let mut first = definition("foos", "Foo", "f");
        accept(&mut first, &Taken::default(), Timestamp::UNIX_EPOCH);
        let mut taken = Taken::default();
        taken.add(&first);
        let mut second = definition("bars", "Foo", "b");
        accept(&mut second, &taken, Timestamp::UNIX_EPOCH);
        assert_eq!(
            reasons(&second),
            [
                "NamesAccepted=False KindConflict",
                "Established=False NotAccepted"
            ]
        );
        let mut third = definition("bars", "Bar", "f");
        accept(&mut third, &taken, Timestamp::UNIX_EPOCH);
        assert_eq!(reasons(&third)[0], "NamesAccepted=False ShortNamesConflict");
        taken.remove(&first);
        accept(&mut third, &taken, Timestamp::UNIX_EPOCH);
        assert_eq!(reasons(&third)[0], "NamesAccepted=True NoConflicts");
    }
}
