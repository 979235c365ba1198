//! The types of expressions.

use std::fmt;
use std::sync::Arc;

use crate::decl::Object;

/// The type of an expression or of a variable.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Type {
    /// Any value; checked when it is evaluated.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, 64 bits with sign.
    Int,
    /// `uint`, 64 bits without sign.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `duration`.
    Duration,
    /// `timestamp`.
    Timestamp,
    /// `list(T)`.
    List(Arc<Type>),
    /// `map(K, V)`.
    Map(Arc<(Type, Type)>),
    /// `optional_type(T)`.
    Optional(Arc<Type>),
    /// A type used as a value.
    TypeOf(Option<Arc<Type>>),
    /// A type of a function library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// An object with declared fields.
    Object(Arc<Object>),
    /// The type of something that failed the check.
    Error,
    /// A type parameter of a declaration.
    Param(&'static str),
    /// A type not known yet while checking.
    Var(u32),
}

/// The types of libraries, by their short names in declarations.
pub(crate) const OPAQUE: [(&str, &str); 6] = [
    ("Quantity", "kubernetes.Quantity"),
    ("URL", "kubernetes.URL"),
    ("IP", "net.IP"),
    ("CIDR", "net.CIDR"),
    ("NamedFormat", "kubernetes.NamedFormat"),
    ("Semver", "kubernetes.Semver"),
];

impl Type {
    /// `list(item)`.
    #[must_use]
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// `map(key, value)`.
    #[must_use]
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// `optional_type(value)`.
    #[must_use]
    pub fn optional(value: Type) -> Type {
        Type::Optional(Arc::new(value))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Whether it is the same type, unknown ones included.
    pub(crate) fn is_exactly(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.is_exactly(b),
            (Type::Map(a), Type::Map(b)) => a.0.is_exactly(&b.0) && a.1.is_exactly(&b.1),
            (Type::TypeOf(a), Type::TypeOf(b)) => match (a, b) {
                (Some(a), Some(b)) => a.is_exactly(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Type::Opaque(a), Type::Opaque(b)) | (Type::Param(a), Type::Param(b)) => a == b,
            (Type::Var(a), Type::Var(b)) => a == b,
            (Type::Object(a), Type::Object(b)) => a.name() == b.name(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The name without parameters, as `type(x)` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Optional(_) => "optional_type",
            Type::TypeOf(_) => "type",
            Type::Opaque(name) | Type::Param(name) => name,
            Type::Object(object) => object.name(),
            Type::Error => "!error!",
            Type::Var(_) => "dyn",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(types) => write!(f, "map({}, {})", types.0, types.1),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::TypeOf(Some(of)) => write!(f, "type({of})"),
            Type::Var(number) => write!(f, "_var{number}"),
            other => f.write_str(other.name()),
        }
    }
}

/// How a call of these arguments is written in messages.
pub(crate) fn signature(args: &[Type], is_member: bool) -> String {
    let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
    match args {
        [target, args @ ..] if is_member => format!("{target}.({})", list(args)),
        args => format!("({})", list(args)),
    }
}
