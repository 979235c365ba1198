//! The table of types: parsed line by line, each only when it is first used.

use std::sync::OnceLock;

static TEXT: &str = include_str!("table/types.txt");

/// How a value of a field looks in JSON and on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ty {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// Any object, kept as it is.
    RawExtension,
    FieldsV1,
    Json,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    List(Box<Ty>),
    Map(Box<Ty>),
    /// Another line of the table.
    Object(Id),
}

/// The number of a line in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(u16);

/// A struct: its fields in the order of the Go source.
#[derive(Debug)]
pub(crate) struct Type {
    /// `core.v1.Pod`.
    pub(crate) name: &'static str,
    /// A map of the type is replaced as a whole.
    pub(crate) atomic: bool,
    pub(crate) fields: Box<[Field]>,
}

/// One field of a [`Type`].
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Field numbers from the message inwards: inlined structs are messages of their own.
    pub(crate) numbers: [u32; 3],
    pub(crate) ty: Ty,
    /// The type as the table names it, before names of scalars were resolved.
    pub(crate) declared: &'static str,
    /// The Go struct that is inlined here and holds the field; empty when it is the type's own.
    pub(crate) inlined: &'static str,
    pub(crate) pointer: bool,
    pub(crate) omitempty: bool,
    pub(crate) omitzero: bool,
    pub(crate) required: bool,
    pub(crate) list: ListType,
    pub(crate) map: MapType,
    /// `merge`, `replace`, `retainKeys`, `merge,retainKeys` or empty.
    pub(crate) patch_strategy: &'static str,
    pub(crate) merge_key: &'static str,
    /// JSON with spaces as `\s`.
    pub(crate) default: Option<&'static str>,
    /// Values split by `|`.
    pub(crate) enums: Option<&'static str>,
}

/// How a list is merged by server-side apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType {
    Unset,
    Atomic,
    Set,
    /// Keys split by `,`.
    Map(&'static str),
}

/// How a map is merged by server-side apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapType {
    Unset,
    Atomic,
    /// Field by field, although the type of the field says otherwise.
    Granular,
}

struct Slot {
    line: &'static str,
    parsed: OnceLock<Type>,
}

fn slots() -> &'static [Slot] {
    static SLOTS: OnceLock<Box<[Slot]>> = OnceLock::new();
    SLOTS.get_or_init(|| {
        TEXT.lines()
            .map(|line| Slot {
                line,
                parsed: OnceLock::new(),
            })
            .collect()
    })
}

fn name_of(line: &'static str) -> &'static str {
    line.split_once('\t').map_or(line, |(name, _)| name)
}

/// The line of a type.
pub(crate) fn find(name: &str) -> Option<Id> {
    let at = slots()
        .binary_search_by(|slot| name_of(slot.line).cmp(name))
        .ok()?;
    u16::try_from(at).ok().map(Id)
}

/// The names of all types.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    slots().iter().map(|slot| name_of(slot.line))
}

impl Id {
    /// The type, parsed now if nobody asked before.
    pub(crate) fn get(self) -> &'static Type {
        let slot = &slots()[usize::from(self.0)];
        slot.parsed.get_or_init(|| Type::parse(slot.line))
    }

    /// What a named scalar, list or map stands for.
    fn alias(self) -> Option<&'static str> {
        let (_, rest) = slots()[usize::from(self.0)].line.split_once('\t')?;
        rest.strip_prefix('=')
    }
}

impl Type {
    /// The field with this JSON name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// `Pod` of `core.v1.Pod`.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    fn parse(line: &'static str) -> Self {
        let mut columns = line.split('\t');
        let name = columns.next().unwrap_or_default();
        let mut atomic = false;
        let mut fields = Vec::new();
        for column in columns {
            match column {
                "!atomic" => atomic = true,
                alias if alias.starts_with('=') => {}
                field => fields.extend(Field::parse(field)),
            }
        }
        Self {
            name,
            atomic,
            fields: fields.into(),
        }
    }
}

impl Field {
    fn parse(text: &'static str) -> Option<Self> {
        let mut parts = text.split(' ');
        let name = parts.next()?;
        let mut numbers = parts.next()?.split('/').map(|n| n.parse().unwrap_or(0));
        let declared = parts.next()?;
        let mut field = Self {
            name,
            numbers: std::array::from_fn(|_| numbers.next().unwrap_or(0)),
            ty: resolve(declared),
            declared,
            inlined: "",
            pointer: false,
            omitempty: false,
            omitzero: false,
            required: false,
            list: ListType::Unset,
            map: MapType::Unset,
            patch_strategy: "",
            merge_key: "",
            default: None,
            enums: None,
        };
        for flag in parts {
            field.set(flag);
        }
        Some(field)
    }

    fn set(&mut self, flag: &'static str) {
        match flag.split_once('=') {
            None => match flag {
                "*" => self.pointer = true,
                "o" => self.omitempty = true,
                "z" => self.omitzero = true,
                "r" => self.required = true,
                _ => {}
            },
            Some(("l", "a")) => self.list = ListType::Atomic,
            Some(("l", "s")) => self.list = ListType::Set,
            Some(("l", keys)) => self.list = ListType::Map(keys.trim_start_matches("m:")),
            Some(("i", inlined)) => self.inlined = inlined,
            Some(("m", "a")) => self.map = MapType::Atomic,
            Some(("m", _)) => self.map = MapType::Granular,
            Some(("p", strategy)) => self.patch_strategy = strategy,
            Some(("k", key)) => self.merge_key = key,
            Some(("d", json)) => self.default = Some(json),
            Some(("e", values)) => self.enums = Some(values),
            Some(_) => {}
        }
    }
}

/// Resolves a type of the table; names of scalars, lists and maps are followed.
pub(crate) fn resolve(declared: &'static str) -> Ty {
    if let Some(item) = declared.strip_prefix("[]") {
        return Ty::List(Box::new(resolve(item)));
    }
    if let Some(item) = declared.strip_prefix("{}") {
        return Ty::Map(Box::new(resolve(item)));
    }
    match declared {
        "string" => Ty::String,
        "bool" => Ty::Bool,
        "int32" | "uint32" => Ty::Int32,
        "int64" => Ty::Int64,
        "float64" => Ty::Float,
        "bytes" => Ty::Bytes,
        "Time" => Ty::Time,
        "MicroTime" => Ty::MicroTime,
        "Duration" => Ty::Duration,
        "Quantity" => Ty::Quantity,
        "IntOrString" => Ty::IntOrString,
        "RawExtension" => Ty::RawExtension,
        "FieldsV1" => Ty::FieldsV1,
        "JSON" => Ty::Json,
        "JSONSchemaPropsOrArray" => Ty::SchemaOrArray,
        "JSONSchemaPropsOrBool" => Ty::SchemaOrBool,
        "JSONSchemaPropsOrStringArray" => Ty::SchemaOrStrings,
        name => resolve_name(name),
    }
}

fn resolve_name(name: &'static str) -> Ty {
    match find(name) {
        Some(id) => id.alias().map_or(Ty::Object(id), resolve),
        None => Ty::Json,
    }
}

/// What a named scalar, list or map stands for.
pub(crate) fn alias(name: &str) -> Option<&'static str> {
    find(name)?.alias()
}
