//! Declared shapes of JSON data: what a variable holds, from a structural schema or by hand.

use std::sync::Arc;

use skopos_schema::{ListType, Structural, Type as JsonType};

use crate::{escape::escape, parser::RESERVED, types::Type};

/// The largest request that kube-apiserver takes: bounds what a schema without limits can hold.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The declared shape of a variable, with the bounds that its schema sets.
///
/// A declaration also says how JSON is read: a string of format `date-time` is a timestamp, a `number`
/// without fraction is a double, the order of a set does not count.
#[derive(Debug, Clone)]
pub struct Decl {
    pub(crate) shape: Shape,
    /// The most items, entries or bytes a value can have.
    pub(crate) max_elements: Option<u64>,
    /// The smallest size as JSON: bounds how often the value can occur in one request.
    pub(crate) min_size: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Dyn,
    IntOrString,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    Timestamp,
    List(Arc<List>),
    Map(Arc<Decl>),
    Object(Arc<Object>),
}

/// A declared list.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) item: Decl,
    pub(crate) identity: Identity,
}

/// What makes two lists equal.
#[derive(Debug)]
pub(crate) enum Identity {
    Atomic,
    Set,
    /// The names of the key fields.
    Map(Box<[Box<str>]>),
}

/// A declared object type.
#[derive(Debug)]
pub struct Object {
    name: Box<str>,
    /// Sorted by [`Field::escaped`].
    fields: Box<[Field]>,
}

/// A field of a declared object type.
#[derive(Debug)]
pub(crate) struct Field {
    /// The name in expressions.
    pub(crate) escaped: Box<str>,
    /// The name in JSON.
    pub(crate) name: Box<str>,
    pub(crate) decl: Decl,
}

impl Object {
    /// The name of the type in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn field(&self, escaped: &str) -> Option<&Field> {
        let find = |name: &str| {
            self.fields
                .binary_search_by(|field| field.escaped.as_ref().cmp(name))
        };
        let at = match find(escaped) {
            Ok(at) => at,
            // A keyword can also be selected as it is.
            Err(_) if RESERVED.contains(&escaped) => find(&format!("__{escaped}__")).ok()?,
            Err(_) => return None,
        };
        Some(&self.fields[at])
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

impl Decl {
    fn simple(shape: Shape, min_size: u64, max_elements: Option<u64>) -> Decl {
        Decl {
            shape,
            max_elements,
            min_size,
        }
    }

    /// Any JSON: nothing is checked before evaluation.
    #[must_use]
    pub fn dynamic() -> Decl {
        Decl::simple(Shape::Dyn, 1, None)
    }

    /// A boolean.
    #[must_use]
    pub fn bool() -> Decl {
        Decl::simple(Shape::Bool, 4, None)
    }

    /// An integer.
    #[must_use]
    pub fn int() -> Decl {
        Decl::simple(Shape::Int, 1, None)
    }

    /// A number that is never negative.
    #[must_use]
    pub fn uint() -> Decl {
        Decl::simple(Shape::Uint, 1, None)
    }

    /// A number.
    #[must_use]
    pub fn double() -> Decl {
        Decl::simple(Shape::Double, 1, None)
    }

    /// A string.
    #[must_use]
    pub fn string() -> Decl {
        Decl::simple(Shape::String, 2, Some(MAX_REQUEST_BYTES - 2))
    }

    /// A point in time, in JSON as RFC 3339.
    #[must_use]
    pub fn timestamp() -> Decl {
        Decl::simple(Shape::Timestamp, 21, Some(32))
    }

    /// A length of time, in JSON as Go writes it.
    #[must_use]
    pub fn duration() -> Decl {
        Decl::simple(Shape::Duration, 3, Some(32))
    }

    /// A list of items.
    #[must_use]
    pub fn list(item: Decl) -> Decl {
        Decl::list_of(item, Identity::Atomic, None)
    }

    fn list_of(item: Decl, identity: Identity, max_items: Option<u64>) -> Decl {
        let max = max_items.unwrap_or((MAX_REQUEST_BYTES - 2) / (item.min_size + 1));
        let list = List { item, identity };
        Decl::simple(Shape::List(Arc::new(list)), 2, Some(max))
    }

    /// A map from strings.
    #[must_use]
    pub fn map(value: Decl) -> Decl {
        Decl::map_of(value, None)
    }

    fn map_of(value: Decl, max_properties: Option<u64>) -> Decl {
        let max = max_properties.unwrap_or((MAX_REQUEST_BYTES - 2) / (value.min_size + 6));
        Decl::simple(Shape::Map(Arc::new(value)), 2, Some(max))
    }

    /// An object with fields, given by their names in JSON. Those that [`escape()`] cannot spell are left out.
    #[must_use]
    pub fn object(name: &str, fields: impl IntoIterator<Item = (String, Decl)>) -> Decl {
        let mut fields: Vec<Field> = fields
            .into_iter()
            .filter_map(|(name, decl)| {
                let escaped = escape(&name)?.into();
                let name = name.into();
                Some(Field { escaped, name, decl })
            })
            .collect();
        fields.sort_by(|a, b| a.escaped.cmp(&b.escaped));
        fields.dedup_by(|a, b| a.escaped == b.escaped);
        let object = Object {
            name: name.into(),
            fields: fields.into(),
        };
        Decl::simple(Shape::Object(Arc::new(object)), 2, None)
    }

    /// What a schema declares, or nothing where it says too little to be used in expressions.
    ///
    /// `name` names the type in messages. At a resource root, `apiVersion`, `kind` and the names in
    /// `metadata` are declared whatever the schema says.
    #[must_use]
    pub fn from_schema(schema: &Structural, name: &str, root: Root) -> Option<Decl> {
        Decl::read(schema, name, root, Gaps::Absent)
    }

    /// What a schema declares of a whole Kubernetes object, with all of `metadata`. Where the schema says too little, or
    /// lets unknown fields be, anything goes.
    #[must_use]
    pub fn from_resource(schema: &Structural, name: &str) -> Decl {
        Decl::read(schema, name, Root::Resource, Gaps::Dynamic).unwrap_or_else(Decl::dynamic)
    }

    fn read(schema: &Structural, name: &str, root: Root, gaps: Gaps) -> Option<Decl> {
        match (Decl::read_strictly(schema, name, root, gaps), gaps) {
            (Some(_), Gaps::Dynamic) if schema.preserves_unknown_fields() => Some(Decl::dynamic()),
            (None, Gaps::Dynamic) => Some(Decl::dynamic()),
            (decl, _) => decl,
        }
    }

    fn read_strictly(schema: &Structural, name: &str, root: Root, gaps: Gaps) -> Option<Decl> {
        if schema.is_int_or_string() {
            let max = schema.max_length().map_or(MAX_REQUEST_BYTES - 2, |n| n * 4);
            return Some(Decl::simple(Shape::IntOrString, 1, Some(max)));
        }
        match schema.declared_type()? {
            JsonType::Boolean => Some(Decl::bool()),
            JsonType::Integer => Some(Decl::int()),
            JsonType::Number => Some(Decl::double()),
            JsonType::String => Some(string(schema)),
            JsonType::Array => array(schema, name, gaps),
            JsonType::Object => object(schema, name, root, gaps),
        }
    }

    /// How often it can occur in one request, with a comma behind each.
    pub(crate) fn max_occurrences(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size + 1)
    }

    /// The type in expressions.
    #[must_use]
    pub fn as_type(&self) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Uint => Type::Uint,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::Timestamp => Type::Timestamp,
            Shape::List(list) => Type::list(list.item.as_type()),
            Shape::Map(value) => Type::map(Type::String, value.as_type()),
            Shape::Object(object) => Type::Object(Arc::clone(object)),
        }
    }
}

/// Whether a schema describes a whole Kubernetes object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A custom resource or an embedded one.
    Resource,
    /// Anything inside.
    Field,
}

/// What becomes of fields about which a schema says too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    /// Expressions cannot name them, as in kube-apiserver.
    Absent,
    /// They can be anything.
    Dynamic,
}

impl Root {
    fn of(schema: &Structural) -> Root {
        match schema.is_embedded_resource() {
            true => Root::Resource,
            false => Root::Field,
        }
    }
}

fn string(schema: &Structural) -> Decl {
    let (shape, min_size, unbounded) = match schema.format() {
        Some("byte") => (Shape::Bytes, 2, MAX_REQUEST_BYTES - 2),
        Some("duration") => return Decl::duration(),
        Some("date") => return Decl::simple(Shape::Date, 12, Some(12)),
        Some("date-time") => return Decl::timestamp(),
        _ => (Shape::String, 2, MAX_REQUEST_BYTES - 2),
    };
    let per_character = if matches!(shape, Shape::Bytes) { 1 } else { 4 };
    let longest = |values: &[serde_json::Value]| {
        let len = |v: &serde_json::Value| v.as_str().map_or(0, str::len) as u64;
        values.iter().map(len).max()
    };
    let max = match schema.max_length() {
        Some(n) => n * per_character,
        None if per_character == 4 => longest(schema.enumeration()).unwrap_or(unbounded),
        None => unbounded,
    };
    Decl::simple(shape, min_size, Some(max))
}

fn array(schema: &Structural, name: &str, gaps: Gaps) -> Option<Decl> {
    let items = schema.items()?;
    let item = Decl::read(items, &format!("{name}.@idx"), Root::of(items), gaps)?;
    let identity = match schema.list_type() {
        Some(ListType::Set) => Identity::Set,
        Some(ListType::Map) => Identity::Map(schema.list_map_keys().map(Into::into).collect()),
        Some(ListType::Atomic) | None => Identity::Atomic,
    };
    Some(Decl::list_of(item, identity, schema.max_items()))
}

fn object(schema: &Structural, name: &str, root: Root, gaps: Gaps) -> Option<Decl> {
    if let Some(values) = schema.additional_properties() {
        let value = Decl::read(values, &format!("{name}.@elem"), Root::of(values), gaps)?;
        return Some(Decl::map_of(value, schema.max_properties()));
    }
    let mut fields = Vec::new();
    for (key, property) in schema.properties() {
        let field_name = format!("{name}.{}", escape(key).as_deref().unwrap_or(key));
        if let Some(decl) = Decl::read(property, &field_name, Root::of(property), gaps) {
            fields.push((key.to_owned(), decl));
        }
    }
    match (root, gaps) {
        (Root::Resource, Gaps::Absent) => declare_meta(name, &mut fields),
        (Root::Resource, Gaps::Dynamic) => declare_all_meta(name, &mut fields),
        (Root::Field, _) => {}
    }
    let min_size = 2 + fields
        .iter()
        .filter(|(key, _)| is_always_there(schema, key))
        .map(|(key, decl)| key.len() as u64 + decl.min_size + 4)
        .sum::<u64>();
    let mut decl = Decl::object(name, fields);
    decl.min_size = min_size;
    Some(decl)
}

/// Whether whoever sends an object has to give a field: what has a default need not be sent.
fn is_always_there(schema: &Structural, key: &str) -> bool {
    let has_default = || {
        let mut properties = schema.properties();
        properties.any(|(name, property)| name == key && property.default_value().is_some())
    };
    schema.required().any(|required| required == key) && !has_default()
}

/// Declares what every Kubernetes object has, unless the schema already declares all of it.
fn declare_meta(name: &str, fields: &mut Vec<(String, Decl)>) {
    let is_string = |decl: &Decl| matches!(decl.shape, Shape::String);
    let get = |key: &str| fields.iter().find(|(k, _)| k == key).map(|(_, decl)| decl);
    let has_names = |decl: &Decl| match &decl.shape {
        Shape::Object(meta) => ["name", "generateName"]
            .iter()
            .all(|key| meta.field(key).is_some_and(|f| is_string(&f.decl))),
        _ => false,
    };
    if get("kind").is_some_and(is_string)
        && get("apiVersion").is_some_and(is_string)
        && get("metadata").is_some_and(has_names)
    {
        return;
    }
    fields.retain(|(key, _)| !["kind", "apiVersion", "metadata"].contains(&key.as_str()));
    let names = ["name", "generateName"].map(|key| (key.to_owned(), Decl::string()));
    fields.push(("kind".to_owned(), Decl::string()));
    fields.push(("apiVersion".to_owned(), Decl::string()));
    fields.push((
        "metadata".to_owned(),
        Decl::object(&format!("{name}.metadata"), names),
    ));
}

/// Declares all that the API server keeps in `metadata`.
fn declare_all_meta(name: &str, fields: &mut Vec<(String, Decl)>) {
    let texts = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "selfLink",
    ];
    let mut meta: Vec<(String, Decl)> = texts.map(|key| (key.to_owned(), Decl::string())).into();
    let times = ["creationTimestamp", "deletionTimestamp"];
    meta.extend(times.map(|key| (key.to_owned(), Decl::timestamp())));
    let numbers = ["generation", "deletionGracePeriodSeconds"];
    meta.extend(numbers.map(|key| (key.to_owned(), Decl::int())));
    let maps = ["labels", "annotations"];
    meta.extend(maps.map(|key| (key.to_owned(), Decl::map(Decl::string()))));
    meta.push(("finalizers".to_owned(), Decl::list(Decl::string())));
    let lists = ["ownerReferences", "managedFields"];
    meta.extend(lists.map(|key| (key.to_owned(), Decl::list(Decl::dynamic()))));
    fields.retain(|(key, _)| !["kind", "apiVersion", "metadata"].contains(&key.as_str()));
    fields.push(("kind".to_owned(), Decl::string()));
    fields.push(("apiVersion".to_owned(), Decl::string()));
    fields.push((
        "metadata".to_owned(),
        Decl::object(&format!("{name}.metadata"), meta),
    ));
}
