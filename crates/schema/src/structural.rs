//! The compiled structural schema: one compact node per field, shared by every pass.

use std::sync::OnceLock;

use serde_json::Value;

use crate::format::Format;
use crate::pattern::Pattern;

/// A compiled structural schema, or one node of it.
///
/// Built once per CRD version with [`Structural::from_json`] and then only read. Descriptions, titles and
/// examples are not kept: what serves OpenAPI reads them from the CRD itself.
#[derive(Debug, Default)]
pub struct Structural {
    pub(crate) declared: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) map_type: Option<MapType>,
    pub(crate) below: Below,
    /// Sorted by name, so that walks over a sorted JSON object advance a cursor instead of searching.
    pub(crate) properties: Box<[(Box<str>, Structural)]>,
    pub(crate) items: Option<Box<Structural>>,
    pub(crate) additional: Additional,
    pub(crate) default: Option<Box<Value>>,
    pub(crate) checks: Option<Box<Checks>>,
    pub(crate) extras: Option<Box<Extras>>,
}

/// What occurs somewhere in a subtree, so that a pass can skip subtrees that do not concern it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Below {
    pub(crate) defaults: bool,
    pub(crate) list_types: bool,
    pub(crate) embedded: bool,
    pub(crate) rules: bool,
}

/// The JSON types a schema can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// Any JSON number.
    Number,
    /// A JSON number without fraction.
    Integer,
    /// A JSON boolean.
    Boolean,
}

/// `x-kubernetes-list-type`: what identifies an item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value, replaced as a whole.
    Atomic,
    /// Every item is its own identity.
    Set,
    /// Items are identified by [`Structural::list_map_keys`].
    Map,
}

/// `x-kubernetes-map-type`: whether the fields of an object have separate owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    /// Every field is independent.
    Granular,
    /// The object is one value, replaced as a whole.
    Atomic,
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    #[default]
    Unset,
    Bool(bool),
    Schema(Box<Structural>),
}

/// Value validations of one node. Boxed away because most nodes have none.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) enumeration: Box<[Value]>,
    pub(crate) format: Option<Format>,
    pub(crate) pattern: Option<Box<Pattern>>,
    pub(crate) limits: Option<Box<Limits>>,
    pub(crate) logic: Option<Box<Logic>>,
}

/// Numeric bounds of one node.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
}

/// Logical junctors of one node.
#[derive(Debug, Default)]
pub(crate) struct Logic {
    pub(crate) all_of: Box<[Structural]>,
    pub(crate) any_of: Box<[Structural]>,
    pub(crate) one_of: Box<[Structural]>,
    pub(crate) not: Option<Box<Structural>>,
}

/// Rare extensions of one node.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) list_map_keys: Box<[Box<str>]>,
    pub(crate) rules: Box<[Rule]>,
}

/// One `x-kubernetes-validations` rule, kept as written.
///
/// This crate does not evaluate rules: see [`crate::validate()`] for the place of evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The CEL expression that must hold.
    pub rule: String,
    /// What to say when it does not hold.
    pub message: String,
    /// A CEL expression that makes the message.
    pub message_expression: String,
    /// The kind of field error to report; empty means invalid.
    pub reason: String,
    /// The field to report, relative to the rule's scope.
    pub field_path: String,
    /// Whether `oldSelf` is an optional that is also evaluated on create.
    pub optional_old_self: Option<bool>,
}

impl Structural {
    /// The schema that knows no field: at a resource root it keeps only type and metadata.
    #[must_use]
    pub fn empty() -> &'static Structural {
        static EMPTY: OnceLock<Structural> = OnceLock::new();
        EMPTY.get_or_init(Structural::default)
    }

    /// The declared type; absent where unknown fields are preserved and for int-or-string.
    #[must_use]
    pub fn declared_type(&self) -> Option<Type> {
        self.declared
    }

    /// The schema of a named property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Structural> {
        let at = self
            .properties
            .binary_search_by(|(known, _)| known.as_ref().cmp(name))
            .ok()?;
        Some(&self.properties[at].1)
    }

    /// All named properties in order of their names.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Structural)> {
        self.properties
            .iter()
            .map(|(name, schema)| (name.as_ref(), schema))
    }

    /// The schema of array items.
    #[must_use]
    pub fn items(&self) -> Option<&Structural> {
        self.items.as_deref()
    }

    /// The schema of the values of a map; absent also when any value is allowed.
    #[must_use]
    pub fn additional_properties(&self) -> Option<&Structural> {
        match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Unset | Additional::Bool(_) => None,
        }
    }

    /// The schema that governs a field: its property, else the map's value schema.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Structural> {
        self.property(name).or_else(|| self.additional_properties())
    }

    /// The default of this field.
    #[must_use]
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_deref()
    }

    /// Whether null is a value of this field.
    #[must_use]
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// Whether fields without schema are kept here.
    #[must_use]
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown
    }

    /// Whether the value is a whole Kubernetes object with its own metadata.
    #[must_use]
    pub fn is_embedded_resource(&self) -> bool {
        self.embedded
    }

    /// Whether the value is an integer or a string.
    #[must_use]
    pub fn is_int_or_string(&self) -> bool {
        self.int_or_string
    }

    /// `x-kubernetes-list-type`; absent means atomic.
    #[must_use]
    pub fn list_type(&self) -> Option<ListType> {
        self.list_type
    }

    /// `x-kubernetes-map-type`; absent means granular.
    #[must_use]
    pub fn map_type(&self) -> Option<MapType> {
        self.map_type
    }

    /// `x-kubernetes-list-map-keys`, in the order of the schema.
    pub fn list_map_keys(&self) -> impl Iterator<Item = &str> {
        self.keys().iter().map(AsRef::as_ref)
    }

    /// `x-kubernetes-validations` of this node.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        self.extras.as_deref().map_or(&[], |extras| &extras.rules)
    }

    /// Whether this node or one below it has rules, so that evaluation can be skipped without them.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.below.rules
    }

    /// `format`, if it is one that is checked.
    #[must_use]
    pub fn format(&self) -> Option<&str> {
        let format = self.checks.as_deref()?.format.as_ref()?;
        Some(&format.name)
    }

    /// `required`, in the order of the schema.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.checks.as_deref().map_or(&[][..], |checks| &checks.required);
        required.iter().map(AsRef::as_ref)
    }

    /// `enum`; empty if every value is allowed.
    #[must_use]
    pub fn enumeration(&self) -> &[Value] {
        self.checks.as_deref().map_or(&[], |checks| &checks.enumeration)
    }

    /// `maxLength`; a negative one counts as 0, as for the limits below.
    #[must_use]
    pub fn max_length(&self) -> Option<u64> {
        self.limit(|limits| limits.max_length)
    }

    /// `maxItems`.
    #[must_use]
    pub fn max_items(&self) -> Option<u64> {
        self.limit(|limits| limits.max_items)
    }

    /// `maxProperties`.
    #[must_use]
    pub fn max_properties(&self) -> Option<u64> {
        self.limit(|limits| limits.max_properties)
    }

    fn limit(&self, of: impl Fn(&Limits) -> Option<i64>) -> Option<u64> {
        let limits = self.checks.as_deref()?.limits.as_deref()?;
        of(limits).map(|limit| u64::try_from(limit).unwrap_or(0))
    }

    /// Notes what occurs below, once all of it is there.
    pub(crate) fn summarised(mut self) -> Self {
        let mut below = Below {
            defaults: self.default.is_some(),
            list_types: matches!(self.list_type, Some(ListType::Set | ListType::Map)),
            embedded: self.embedded,
            rules: !self.rules().is_empty(),
        };
        let children = self.properties.iter().map(|(_, child)| child);
        for child in children
            .chain(self.items.as_deref())
            .chain(self.additional_properties())
        {
            below.defaults |= child.below.defaults;
            below.list_types |= child.below.list_types;
            below.embedded |= child.below.embedded;
            below.rules |= child.below.rules;
        }
        self.below = below;
        self
    }

    pub(crate) fn keys(&self) -> &[Box<str>] {
        self.extras.as_deref().map_or(&[], |extras| &extras.list_map_keys)
    }
}

impl Type {
    /// The type as JSON schema spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Number => "number",
            Type::Integer => "integer",
            Type::Boolean => "boolean",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Type> {
        Some(match name {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "number" => Type::Number,
            "integer" => Type::Integer,
            "boolean" => Type::Boolean,
            _ => return None,
        })
    }
}

/// Finds properties while walking an object whose keys come in sorted order.
pub(crate) struct Cursor<'s> {
    rest: &'s [(Box<str>, Structural)],
}

impl<'s> Cursor<'s> {
    pub(crate) fn new(schema: &'s Structural) -> Self {
        Cursor {
            rest: &schema.properties,
        }
    }

    /// Returns the schema of `name`. Names must be asked for in ascending order.
    pub(crate) fn seek(&mut self, name: &str) -> Option<&'s Structural> {
        while let [(known, schema), rest @ ..] = self.rest {
            match known.as_ref().cmp(name) {
                std::cmp::Ordering::Less => self.rest = rest,
                std::cmp::Ordering::Equal => {
                    self.rest = rest;
                    return Some(schema);
                }
                std::cmp::Ordering::Greater => return None,
            }
        }
        None
    }
}
