//! The macros: calls that become other expressions because they bind variables or test presence.

use crate::{
    ast::{Expr, Fold, FoldKind, Kind, Name},
    parser::{Failed, Parse, Parser},
};

const NOT_A_NAME: &str = "argument must be a simple name";
const NOT_AN_IDENTIFIER: &str = "argument is not an identifier";

impl Parser<'_> {
    /// A call of a global function, or the macro of that name.
    pub(crate) fn expand_global(&mut self, at: u32, function: Name, mut args: Vec<Expr>) -> Parse<Expr> {
        if function != "has" || args.len() != 1 {
            return self.plain_call(at, function, args);
        }
        let arg = args.remove(0);
        match arg.kind {
            Kind::Select { operand, field } => self.node(at, Kind::Has { operand, field }),
            _ => Err(self.fail(arg.at, "invalid argument to has() macro")),
        }
    }

    /// A call of a member function, or the macro of that name.
    pub(crate) fn expand_member(
        &mut self,
        at: u32,
        name: &str,
        target: Expr,
        args: Vec<Expr>,
    ) -> Parse<Expr> {
        use FoldKind::{All, Exists, ExistsOne, Filter, List, OptFlatMap, OptMap, SortBy};
        match (name, args.len()) {
            ("all", 2) => self.one(at, All, target, args, NOT_A_NAME),
            ("exists", 2) => self.one(at, Exists, target, args, NOT_A_NAME),
            ("exists_one", 2) => self.one(at, ExistsOne, target, args, NOT_A_NAME),
            ("map", 2 | 3) => self.one(at, List, target, args, NOT_AN_IDENTIFIER),
            ("filter", 2) => self.one(at, Filter, target, args, NOT_AN_IDENTIFIER),
            ("optMap", 2) => {
                let message = "optMap() variable name must be a simple identifier";
                self.one(at, OptMap, target, args, message)
            }
            ("optFlatMap", 2) => {
                let message = "optFlatMap() variable name must be a simple identifier";
                self.one(at, OptFlatMap, target, args, message)
            }
            ("sortBy", 2) => self.sort_by(at, SortBy, target, args),
            ("all", 3) => self.two(at, All, target, args),
            ("exists", 3) => self.two(at, Exists, target, args),
            ("exists_one" | "existsOne", 3) => self.two(at, ExistsOne, target, args),
            ("transformList", 3 | 4) => self.two(at, List, target, args),
            ("transformMap", 3 | 4) => self.two(at, FoldKind::TransformMap, target, args),
            ("transformMapEntry", 3 | 4) => self.two(at, FoldKind::TransformMapEntry, target, args),
            _ => {
                let kind = Kind::Call {
                    function: name.to_owned().into(),
                    target: Some(Box::new(target)),
                    args,
                };
                self.node(at, kind)
            }
        }
    }

    fn sort_by(&mut self, at: u32, kind: FoldKind, target: Expr, args: Vec<Expr>) -> Parse<Expr> {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(self.fail(target.at, message));
        }
        self.one(at, kind, target, args, NOT_AN_IDENTIFIER)
    }

    /// `range.macro(var, [filter,] body)`
    fn one(&mut self, at: u32, kind: FoldKind, range: Expr, args: Vec<Expr>, unnamed: &str) -> Parse<Expr> {
        let mut args = args.into_iter();
        let var = self.variable(args.next(), unnamed)?;
        self.fold(at, kind, range, (var, None), args)
    }

    /// `range.macro(var, var2, [filter,] body)`
    fn two(&mut self, at: u32, kind: FoldKind, range: Expr, args: Vec<Expr>) -> Parse<Expr> {
        let mut args = args.into_iter();
        let (first, second) = (args.next(), args.next());
        let second_at = second.as_ref().map_or(at, |e| e.at);
        let var = self.variable(first, NOT_A_NAME)?;
        let var2 = self.variable(second, NOT_A_NAME)?;
        if var == var2 {
            return Err(self.fail(second_at, format!("duplicate variable name: {var}")));
        }
        self.fold(at, kind, range, (var, Some(var2)), args)
    }

    fn fold(
        &mut self,
        at: u32,
        kind: FoldKind,
        range: Expr,
        (var, var2): (Box<str>, Option<Box<str>>),
        mut rest: std::vec::IntoIter<Expr>,
    ) -> Parse<Expr> {
        let filter = if rest.len() > 1 { rest.next() } else { None };
        let body = rest.next().ok_or(Failed)?;
        let fold = Fold {
            kind,
            range,
            var,
            var2,
            filter,
            body,
        };
        self.node(at, Kind::Fold(Box::new(fold)))
    }

    fn variable(&mut self, arg: Option<Expr>, unnamed: &str) -> Parse<Box<str>> {
        let arg = arg.ok_or(Failed)?;
        match arg.kind {
            Kind::Ident(name) if &*name == "__result__" => {
                let message = "iteration variable overwrites accumulator variable";
                Err(self.fail(arg.at, message))
            }
            Kind::Ident(name) => Ok(name),
            _ => Err(self.fail(arg.at, unnamed)),
        }
    }
}
