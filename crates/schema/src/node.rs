//! Structural schemas made in code, for kinds whose types are known without JSON.

use serde_json::Value;

use crate::structural::{Additional, Extras, ListType, MapType, Structural, Type};

/// What a [`Structural`] is made of without a detour through JSON: shapes and owners, no value validations.
///
/// ```
/// use skopos_schema::{Node, Structural, Type};
/// let text = Structural::from(Node { declared: Some(Type::String), ..Node::default() });
/// let object = Structural::from(Node {
///     declared: Some(Type::Object),
///     properties: vec![("name".into(), text)],
///     ..Node::default()
/// });
/// assert!(object.property("name").is_some());
/// ```
#[derive(Debug, Default)]
pub struct Node {
    /// `type`.
    pub declared: Option<Type>,
    /// `nullable`.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<Box<str>>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<MapType>,
    /// `properties`, in any order.
    pub properties: Vec<(Box<str>, Structural)>,
    /// `items`.
    pub items: Option<Structural>,
    /// `additionalProperties`, if it is a schema.
    pub additional: Option<Structural>,
    /// `default`.
    pub default: Option<Value>,
}

impl From<Node> for Structural {
    fn from(node: Node) -> Self {
        let mut properties = node.properties.into_boxed_slice();
        properties.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let extras = (!node.list_map_keys.is_empty()).then(|| {
            Box::new(Extras {
                list_map_keys: node.list_map_keys.into(),
                ..Extras::default()
            })
        });
        let additional = node
            .additional
            .map_or(Additional::Unset, |schema| Additional::Schema(Box::new(schema)));
        let made = Structural {
            declared: node.declared,
            nullable: node.nullable,
            preserve_unknown: node.preserve_unknown,
            int_or_string: node.int_or_string,
            list_type: node.list_type,
            map_type: node.map_type,
            properties,
            items: node.items.map(Box::new),
            additional,
            default: node.default.map(Box::new),
            extras,
            ..Structural::default()
        };
        made.summarised()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_the_schema_that_the_same_json_makes() {
        let port = Node {
            declared: Some(Type::Object),
            properties: vec![
                (
                    "port".into(),
                    Node {
                        int_or_string: true,
                        ..Node::default()
                    }
                    .into(),
                ),
                (
                    "name".into(),
                    Node {
                        declared: Some(Type::String),
                        default: Some(json!("x")),
                        ..Node::default()
                    }
                    .into(),
                ),
            ],
            map_type: Some(MapType::Atomic),
            nullable: true,
            ..Node::default()
        };
        let made = Structural::from(Node {
            declared: Some(Type::Array),
            list_type: Some(ListType::Map),
            list_map_keys: vec!["port".into(), "name".into()],
            items: Some(port.into()),
            ..Node::default()
        });
        let parsed = Structural::from_json(&json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "name"],
            "items": {"type": "object", "nullable": true, "x-kubernetes-map-type": "atomic", "properties": {
                "name": {"type": "string", "default": "x"}, "port": {"x-kubernetes-int-or-string": true},
            }},
        }));
        assert_eq!(format!("{made:?}"), format!("{:?}", parsed.unwrap()));
    }
}
