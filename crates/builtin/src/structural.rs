//! Structural schemas of the built-in kinds: the types with their references unfolded.

use std::sync::{Arc, OnceLock};

use skopos_schema::{Node, Structural, Type};

use crate::kind::{Kind, kinds};
use crate::types::{Field, Id, ListType, MapType, Ty};

/// The structural schema of a kind, made when it is first asked for and kept: names, types and list types, without
/// values to validate.
///
/// Null is allowed everywhere, as the Go decoder allows it. Types that contain themselves end in an
/// object that keeps unknown fields.
pub fn schema(kind: &Kind) -> Arc<Structural> {
    static MADE: OnceLock<Box<[OnceLock<Arc<Structural>>]>> = OnceLock::new();
    let slots = MADE.get_or_init(|| kinds().iter().map(|_| OnceLock::new()).collect());
    let at = kinds().iter().position(|k| std::ptr::eq(k, kind)).unwrap_or(0);
    let make = || Arc::new(Structural::from(object(kind.ty, &mut Vec::new())));
    slots[at].get_or_init(make).clone()
}

fn object(id: Id, open: &mut Vec<Id>) -> Node {
    if open.contains(&id) {
        return any_object();
    }
    open.push(id);
    let ty = id.get();
    let properties = ty
        .fields
        .iter()
        .map(|field| (field.name.into(), property(field, open).into()))
        .collect();
    open.pop();
    Node {
        properties,
        map_type: ty.atomic.then_some(skopos_schema::MapType::Atomic),
        ..of(Type::Object)
    }
}

fn property(field: &Field, open: &mut Vec<Id>) -> Node {
    let mut node = value(&field.ty, open);
    match field.list {
        ListType::Unset => {}
        ListType::Atomic => node.list_type = Some(skopos_schema::ListType::Atomic),
        ListType::Set => node.list_type = Some(skopos_schema::ListType::Set),
        ListType::Map(keys) => {
            node.list_type = Some(skopos_schema::ListType::Map);
            node.list_map_keys = keys.split(',').map(Into::into).collect();
        }
    }
    match field.map {
        MapType::Unset => {}
        MapType::Atomic => node.map_type = Some(skopos_schema::MapType::Atomic),
        MapType::Granular => node.map_type = Some(skopos_schema::MapType::Granular),
    }
    // Zero values are published as defaults too, but the server never writes them.
    node.default = field
        .default
        .filter(|default| !matches!(*default, "{}" | "\"\"" | "0" | "false"))
        .and_then(|default| serde_json::from_str(&default.replace("\\s", " ")).ok());
    node
}

fn value(ty: &Ty, open: &mut Vec<Id>) -> Node {
    match ty {
        Ty::String | Ty::Duration | Ty::Time | Ty::MicroTime | Ty::Bytes => of(Type::String),
        Ty::Bool => of(Type::Boolean),
        Ty::Int32 | Ty::Int64 => of(Type::Integer),
        Ty::Float => of(Type::Number),
        Ty::Quantity | Ty::IntOrString => Node {
            int_or_string: true,
            ..any()
        },
        Ty::RawExtension | Ty::FieldsV1 => any_object(),
        Ty::Json | Ty::SchemaOrArray | Ty::SchemaOrBool | Ty::SchemaOrStrings => Node {
            preserve_unknown: true,
            ..any()
        },
        Ty::List(item) => Node {
            items: Some(value(item, open).into()),
            ..of(Type::Array)
        },
        Ty::Map(item) => Node {
            additional: Some(value(item, open).into()),
            ..of(Type::Object)
        },
        Ty::Object(id) => object(*id, open),
    }
}

fn any() -> Node {
    Node {
        nullable: true,
        ..Node::default()
    }
}

fn of(declared: Type) -> Node {
    Node {
        declared: Some(declared),
        ..any()
    }
}

/// An object that keeps whatever it holds.
fn any_object() -> Node {
    Node {
        preserve_unknown: true,
        ..of(Type::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below<'s>(schema: &'s Structural, path: &[&str]) -> &'s Structural {
        path.iter().fold(schema, |schema, name| match *name {
            "*" => schema.items().unwrap(),
            name => schema.property(name).unwrap(),
        })
    }

    #[test]
    fn every_kind_has_a_schema() {
        for kind in kinds() {
            assert!(
                schema(kind).property("metadata").is_some() || kind.verbs == ["create"],
                "{}",
                kind.plural
            );
        }
    }

    #[test]
    fn unfolds_references_and_stops_at_types_that_contain_themselves() {
        let deployment = schema(crate::kind("apps", "v1", "Deployment").unwrap());
        let containers = below(&deployment, &["spec", "template", "spec", "containers"]);
        assert_eq!(containers.list_map_keys().collect::<Vec<_>>(), ["name"]);
        let protocol = below(containers, &["*", "ports", "*", "protocol"]);
        assert_eq!(protocol.default_value().unwrap(), "TCP");
        let definition =
            schema(crate::kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap());
        let own = below(
            &definition,
            &["spec", "versions", "*", "schema", "openAPIV3Schema", "not"],
        );
        assert!(own.preserves_unknown_fields() && own.property("not").is_none());
    }
}
