//! Literals that can be judged before any evaluation, as Kubernetes has them judged.

use crate::{
    ast::{Expr, Kind, Literal},
    check::Checked,
    regexes,
    source::{CompileError, Issues},
    time,
    types::Type,
};

/// Durations, timestamps and patterns must be valid; the elements of an aggregate must have one type.
pub(crate) fn literals(source: &str, root: &Expr, checked: &Checked) -> Result<(), CompileError> {
    let mut validator = Validator {
        issues: Issues::new(source),
        checked,
    };
    validator.walk(root, false);
    validator.issues.into_result()
}

struct Validator<'c, 's> {
    issues: Issues<'s>,
    checked: &'c Checked,
}

impl Validator<'_, '_> {
    /// `in_format` is set below a call of `format`, which takes any list.
    fn walk(&mut self, e: &Expr, in_format: bool) {
        match &e.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } | Kind::Has { operand, .. } | Kind::OptSelect { operand, .. } => {
                self.walk(operand, in_format);
            }
            Kind::Call {
                function,
                target,
                args,
            } => {
                self.call(function, target.is_some(), args);
                let in_format = in_format || function == "format";
                for arg in target.iter().map(|t| &**t).chain(args) {
                    self.walk(arg, in_format);
                }
            }
            Kind::List(items) => {
                if !in_format {
                    let types = items.iter().map(|i| self.element(&i.value, i.optional));
                    let types: Vec<_> = types.collect();
                    self.homogeneous(&types);
                }
                for item in items {
                    self.walk(&item.value, in_format);
                }
            }
            Kind::Map(entries) => {
                if !in_format {
                    let keys: Vec<_> = entries.iter().map(|e| self.element(&e.key, false)).collect();
                    let values = entries.iter().map(|e| self.element(&e.value, e.optional));
                    let values: Vec<_> = values.collect();
                    self.homogeneous(&keys);
                    self.homogeneous(&values);
                }
                for entry in entries {
                    self.walk(&entry.key, in_format);
                    self.walk(&entry.value, in_format);
                }
            }
            Kind::Struct { values, .. } => {
                for value in values {
                    self.walk(value, in_format);
                }
            }
            Kind::Fold(fold) => {
                let parts = [Some(&fold.range), fold.filter.as_ref(), Some(&fold.body)];
                for part in parts.into_iter().flatten() {
                    self.walk(part, in_format);
                }
            }
        }
    }

    fn call(&mut self, function: &str, is_member: bool, args: &[Expr]) {
        let is_valid: fn(&str) -> bool = match function {
            "duration" => |text| time::parse_duration(text).is_some(),
            "timestamp" => |text| time::parse_timestamp(text).is_ok(),
            "matches" if is_member => |text| regexes::compile(text).is_ok(),
            _ => return,
        };
        let Some(arg) = args.last() else {
            return;
        };
        let valid = match &arg.kind {
            Kind::Literal(Literal::String(text)) => is_valid(text),
            // Only text is taken as a literal, although numbers are when they come from elsewhere.
            Kind::Literal(Literal::Int(_)) => function != "duration",
            _ => true,
        };
        if !valid {
            self.issues.at(arg.at, format!("invalid {function} argument"));
        }
    }

    fn element(&self, e: &Expr, optional: bool) -> (u32, Type) {
        let t = &self.checked.types[e.id as usize];
        match t {
            Type::Optional(value) if optional => (e.at, (**value).clone()),
            other => (e.at, other.clone()),
        }
    }

    fn homogeneous(&mut self, types: &[(u32, Type)]) {
        let Some((_, first)) = types.first() else {
            return;
        };
        let odd = types.iter().find(|(_, t)| !t.is_exactly(first));
        if let Some((at, t)) = odd {
            self.issues
                .at(*at, format!("expected type '{first}' but found '{t}'"));
        }
    }
}
