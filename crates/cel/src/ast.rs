//! The syntax tree. Macros are already expanded into [`Fold`]s.

use std::borrow::Cow;

/// The deepest tree that is accepted, as cel-go bounds it. Every pass recurses no deeper.
pub(crate) const MAX_DEPTH: u16 = 250;

/// A node with its place.
#[derive(Debug)]
pub(crate) struct Expr {
    /// Number of this node, dense from 0: side tables are indexed by it.
    pub(crate) id: u32,
    /// Code point offset of the token that names the node.
    pub(crate) at: u32,
    /// Height of the tree below.
    pub(crate) depth: u16,
    pub(crate) kind: Kind,
}

pub(crate) type Name = Cow<'static, str>;

#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(Box<str>),
    Select {
        operand: Box<Expr>,
        field: Box<str>,
    },
    /// `has(operand.field)`
    Has {
        operand: Box<Expr>,
        field: Box<str>,
    },
    /// `operand.?field`
    OptSelect {
        operand: Box<Expr>,
        field: Box<str>,
    },
    Call {
        function: Name,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// `type.name{field: value}`, which Kubernetes has no use for yet.
    Struct {
        name: Box<str>,
        values: Vec<Expr>,
    },
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) optional: bool,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

/// A macro that binds variables.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Expr,
    pub(crate) var: Box<str>,
    pub(crate) var2: Option<Box<str>>,
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`
    List,
    Filter,
    TransformMap,
    TransformMapEntry,
    OptMap,
    OptFlatMap,
    SortBy,
}

impl Expr {
    /// The dotted name that a chain of identifiers and selections spells.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}

impl Kind {
    /// The greatest depth among the direct children.
    pub(crate) fn depth_below(&self) -> u16 {
        let of = |exprs: &[Expr]| exprs.iter().map(|e| e.depth).max().unwrap_or(0);
        match self {
            Kind::Literal(_) | Kind::Ident(_) => 0,
            Kind::Select { operand, .. } | Kind::Has { operand, .. } | Kind::OptSelect { operand, .. } => {
                operand.depth
            }
            Kind::Call { target, args, .. } => {
                let target = target.as_ref().map_or(0, |t| t.depth);
                target.max(of(args))
            }
            Kind::List(items) => items.iter().map(|i| i.value.depth).max().unwrap_or(0),
            Kind::Map(entries) => {
                let deepest = |e: &Entry| e.key.depth.max(e.value.depth);
                entries.iter().map(deepest).max().unwrap_or(0)
            }
            Kind::Struct { values, .. } => of(values),
            Kind::Fold(fold) => {
                let filter = fold.filter.as_ref().map_or(0, |f| f.depth);
                fold.range.depth.max(fold.body.depth).max(filter)
            }
        }
    }
}
