//! A CRD in kube-apiserver's internal form: what all versions share stands at the top of the spec.

use serde_json::Value;

use super::props::{Props, nests_deeper_than};
use crate::parse::MAX_DEPTH;

/// A CRD whose per-version parts are moved to the top when all versions agree.
#[derive(Debug)]
pub(super) struct Crd<'a> {
    root: &'a Value,
    pub(super) spec: Props<'a>,
    pub(super) versions: Vec<Version<'a>>,
    /// The schema shared by all versions; `Some(None)` cannot be: no schema is no validation.
    pub(super) validation: Option<Validation<'a>>,
    pub(super) subresources: Option<Props<'a>>,
    pub(super) columns: &'a [Value],
    pub(super) selectable_fields: &'a [Value],
}

/// The `schema` field of a version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validation<'a> {
    pub(super) schema: Option<Props<'a>>,
}

#[derive(Debug)]
pub(super) struct Version<'a> {
    pub(super) raw: Props<'a>,
    pub(super) schema: Option<Validation<'a>>,
    pub(super) subresources: Option<Props<'a>>,
    pub(super) columns: &'a [Value],
    pub(super) selectable_fields: &'a [Value],
}

impl<'a> Crd<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let spec = Props::of(root.get("spec"));
        let raw = spec.list("versions");
        let shared = |key: &str| {
            let mut values = raw
                .iter()
                .map(|version| version.get(key).filter(|value| !value.is_null()));
            let first = values.next()?;
            values.all(|value| value == first).then_some(first)
        };
        let (schema, subresources) = (shared("schema"), shared("subresources"));
        let (columns, selectable) = (shared("additionalPrinterColumns"), shared("selectableFields"));
        let own = |shared: bool, version: Props<'a>| if shared { Props::of(None) } else { version };
        let version = |version: &'a Value| {
            let raw = Props::of(Some(version));
            Version {
                raw,
                schema: own(schema.is_some(), raw).object("schema").map(validation),
                subresources: own(subresources.is_some(), raw).object("subresources"),
                columns: own(columns.is_some(), raw).list("additionalPrinterColumns"),
                selectable_fields: own(selectable.is_some(), raw).list("selectableFields"),
            }
        };
        let versions = raw.iter().map(version).collect();
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Crd {
            root,
            spec,
            versions,
            validation: schema
                .flatten()
                .and_then(Value::as_object)
                .map(|map| validation(Props(map))),
            subresources: subresources.flatten().and_then(Value::as_object).map(Props),
            columns: list(columns.flatten()),
            selectable_fields: list(selectable.flatten()),
        }
    }

    pub(super) fn metadata(&self) -> &'a Value {
        self.root.get("metadata").unwrap_or(&Value::Null)
    }

    pub(super) fn annotation(&self, key: &str) -> &'a str {
        Props::of(self.metadata().get("annotations")).text(key)
    }

    pub(super) fn names(&self) -> Props<'a> {
        Props::of(self.spec.get("names"))
    }

    pub(super) fn status(&self, key: &str) -> Props<'a> {
        Props::of(self.root.get("status").and_then(|status| status.get(key)))
    }

    pub(super) fn stored_versions(&self) -> impl Iterator<Item = &'a str> {
        Props::of(self.root.get("status")).texts("storedVersions")
    }

    pub(super) fn preserve_unknown_fields(&self) -> bool {
        self.spec.flag("preserveUnknownFields")
    }

    pub(super) fn is_established(&self) -> bool {
        Props::of(self.root.get("status"))
            .schemas("conditions")
            .any(|condition| condition.text("type") == "Established" && condition.text("status") == "True")
    }

    /// All schemas of all versions, the shared one once.
    pub(super) fn schemas(&self) -> impl Iterator<Item = Props<'a>> {
        let own = self.versions.iter().filter_map(|version| version.schema);
        self.validation
            .into_iter()
            .chain(own)
            .filter_map(|validation| validation.schema)
    }

    /// Whether a schema satisfies the predicate somewhere.
    pub(super) fn any_schema(&self, mut predicate: impl FnMut(Props<'a>) -> bool) -> bool {
        self.schemas().any(|schema| schema.any(&mut predicate))
    }

    /// Whether the CRD nests deeper than the recursive checks go. Each schema level is two JSON levels.
    pub(super) fn too_deep(&self) -> bool {
        nests_deeper_than(self.root, 2 * MAX_DEPTH)
    }
}

fn validation(raw: Props<'_>) -> Validation<'_> {
    Validation {
        schema: raw.object("openAPIV3Schema"),
    }
}
