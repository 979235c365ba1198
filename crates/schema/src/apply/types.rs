//! What a schema says about merging: which values are whole, and what identifies the items of a list.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::element::Element;
use crate::structural::{Additional, ListType, MapType, Structural, Type as Declared};

/// The type of a value, for merging.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type<'s> {
    /// A field that the schema does not have.
    Undeclared,
    Node {
        schema: &'s Structural,
        /// Whether unknown fields are kept here or in a parent.
        preserve: bool,
        /// Whether `apiVersion`, `kind` and `metadata` have their fixed types.
        object: bool,
    },
    /// `apiVersion` and `kind`.
    Text,
    /// Told by the value: maps by field, lists whole.
    Deduced,
    /// Any value, whole.
    Whole,
}

/// The forms that a value of a type can have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Atom<'s> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List<'s>>,
    pub(super) map: Option<Map<'s>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct List<'s> {
    pub(super) element: Type<'s>,
    pub(super) kind: ListType,
    keys: &'s [Box<str>],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Map<'s> {
    schema: Option<&'s Structural>,
    preserve: bool,
    object: bool,
    /// The type of fields that are not declared.
    pub(super) element: Type<'s>,
    pub(super) atomic: bool,
}

impl<'s> Type<'s> {
    /// The type of a whole object of this schema.
    pub(super) fn object(schema: &'s Structural) -> Type<'s> {
        Type::Node {
            schema,
            preserve: schema.preserve_unknown,
            object: true,
        }
    }

    fn node(schema: &'s Structural, preserve: bool) -> Type<'s> {
        let preserve = preserve || schema.preserve_unknown;
        Type::Node {
            schema,
            preserve,
            object: schema.embedded,
        }
    }

    pub(super) fn atom(self) -> Atom<'s> {
        match self {
            Type::Undeclared => Atom::default(),
            Type::Text => Atom {
                scalar: Some(Scalar::Text),
                ..Atom::default()
            },
            Type::Deduced => free(Type::Deduced, false),
            Type::Whole => free(Type::Whole, true),
            Type::Node {
                schema,
                preserve,
                object,
            } => node_atom(schema, preserve, object),
        }
    }
}

/// The atom of a type that any value has.
fn free(element: Type<'_>, atomic: bool) -> Atom<'_> {
    Atom {
        scalar: Some(Scalar::Any),
        list: Some(List {
            element: Type::Whole,
            kind: ListType::Atomic,
            keys: &[],
        }),
        map: Some(Map {
            schema: None,
            preserve: false,
            object: false,
            element,
            atomic,
        }),
    }
}

fn node_atom(schema: &Structural, preserve: bool, object: bool) -> Atom<'_> {
    let map = || Map {
        schema: Some(schema),
        preserve,
        object,
        element: match &schema.additional {
            Additional::Schema(values) => Type::node(values, preserve),
            Additional::Bool(true) => Type::Deduced,
            Additional::Bool(false) => Type::Undeclared,
            Additional::Unset if preserve || (schema.properties.is_empty() && !object) => Type::Deduced,
            Additional::Unset => Type::Undeclared,
        },
        atomic: schema.map_type == Some(MapType::Atomic),
    };
    let list = || List {
        element: schema
            .items()
            .map_or(Type::Whole, |items| Type::node(items, preserve)),
        kind: schema.list_type.unwrap_or(ListType::Atomic),
        keys: if schema.list_type == Some(ListType::Map) {
            schema.keys()
        } else {
            &[]
        },
    };
    let scalar = |scalar| Atom {
        scalar: Some(scalar),
        ..Atom::default()
    };
    match schema.declared {
        None if object && !schema.int_or_string => Atom {
            map: Some(map()),
            ..Atom::default()
        },
        None => Atom {
            scalar: Some(Scalar::Any),
            list: Some(list()),
            map: Some(map()),
        },
        Some(Declared::Object) => Atom {
            map: Some(map()),
            ..Atom::default()
        },
        Some(Declared::Array) => Atom {
            list: Some(list()),
            ..Atom::default()
        },
        Some(Declared::Number | Declared::Integer) => scalar(Scalar::Numeric),
        Some(Declared::Boolean) => scalar(Scalar::Boolean),
        // Bytes are sent as text; other formats may have other forms, such as numbers for a time.
        Some(Declared::String) => match schema.format() {
            None | Some("byte") => scalar(Scalar::Text),
            Some(_) => scalar(Scalar::Any),
        },
    }
}

impl<'s> Atom<'s> {
    /// Keeps only the form that `value` has, if it is one of this type.
    pub(super) fn of(self, value: Option<&Value>) -> Atom<'s> {
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => Atom {
                list: None,
                map: None,
                ..self
            },
            Some(Value::Array(_)) if self.list.is_some() => Atom {
                scalar: None,
                map: None,
                ..self
            },
            Some(Value::Object(_)) if self.map.is_some() => Atom {
                scalar: None,
                list: None,
                ..self
            },
            _ => self,
        }
    }

    /// Whether two atoms of one type allow the same forms.
    pub(super) fn same_forms(&self, other: &Atom<'_>) -> bool {
        self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
            && self.map.is_some() == other.map.is_some()
    }

    /// The form to treat a value as: map before scalar before list.
    pub(super) fn form(&self) -> Option<Form<'s>> {
        match (self.map, self.scalar, self.list) {
            (Some(map), _, _) => Some(Form::Map(map)),
            (_, Some(scalar), _) => Some(Form::Scalar(scalar)),
            (_, _, Some(list)) => Some(Form::List(list)),
            _ => None,
        }
    }
}

/// One form of a value.
pub(super) enum Form<'s> {
    Map(Map<'s>),
    Scalar(Scalar),
    List(List<'s>),
}

impl<'s> Map<'s> {
    fn declared(&self, name: &str) -> Option<Type<'s>> {
        if self.object {
            match name {
                "apiVersion" | "kind" => return Some(Type::Text),
                "metadata" => return Some(Type::node(object_meta(), false)),
                _ => {}
            }
        }
        Some(Type::node(self.schema?.property(name)?, self.preserve))
    }

    pub(super) fn declares(&self, name: &str) -> bool {
        self.declared(name).is_some()
    }

    pub(super) fn field_type(&self, name: &str) -> Type<'s> {
        self.declared(name).unwrap_or(self.element)
    }

    /// Whether all that is known is that values have any type.
    pub(super) fn is_free(&self) -> bool {
        let no_fields = !self.object && self.schema.is_none_or(|schema| schema.properties.is_empty());
        no_fields
            && match self.element {
                Type::Deduced => true,
                Type::Node { .. } => self.element.atom().scalar == Some(Scalar::Any),
                Type::Undeclared | Type::Text | Type::Whole => false,
            }
    }
}

impl List<'_> {
    pub(super) fn is_atomic(&self) -> bool {
        self.kind == ListType::Atomic
    }

    /// What identifies an item of this list.
    pub(super) fn identity(&self, item: &Value) -> Result<Element, String> {
        match self.kind {
            ListType::Map if !self.keys.is_empty() => self.key(item),
            ListType::Map | ListType::Set => set_item(item),
            ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    fn key(&self, item: &Value) -> Result<Element, String> {
        let fields = match item {
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            Value::Object(fields) => fields,
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            match fields.get(key.as_ref()).or_else(|| self.key_default(key)) {
                Some(value) => found.push((key.clone(), value.clone())),
                None => continue,
            }
        }
        if found.is_empty() {
            let keys: Vec<String> = self.keys.iter().map(|key| skopos_object::quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::key(found))
    }

    fn key_default(&self, key: &str) -> Option<&Value> {
        match self.element {
            Type::Node { schema, .. } => schema.property(key)?.default_value(),
            _ => None,
        }
    }
}

fn set_item(item: &Value) -> Result<Element, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        _ => Ok(Element::Value(item.clone())),
    }
}

/// The type of `metadata`, the same for every kind.
fn object_meta() -> &'static Structural {
    static META: OnceLock<Structural> = OnceLock::new();
    META.get_or_init(|| Structural::from_json(&object_meta_json()).unwrap_or_default())
}

fn object_meta_json() -> Value {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let integer = json!({"type": "integer"});
    let boolean = json!({"type": "boolean"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let owner = json!({
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "blockOwnerDeletion": boolean, "controller": boolean,
        },
    });
    let entry = json!({
        "type": "object",
        "properties": {
            "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
            "subresource": text,
            "fieldsV1": {"type": "object"},
        },
    });
    json!({"type": "object", "properties": {
        "annotations": texts, "labels": texts,
        "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": integer, "generation": integer,
        "generateName": text, "name": text, "namespace": text, "resourceVersion": text, "selfLink": text,
        "uid": text,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "managedFields": {"type": "array", "items": entry, "x-kubernetes-list-type": "atomic"},
        "ownerReferences": {
            "type": "array", "items": owner,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
        },
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_metadata_compiles() {
        Structural::from_json(&object_meta_json()).unwrap();
    }
}
