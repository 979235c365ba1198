//! The parts of an expression that are worth showing with their values.

use crate::{
    ast::{Expr, Kind},
    parser::Parsed,
    source::slice,
};

/// Operators whose two sides are shown beside the outcome.
const COMPARISONS: [&str; 7] = ["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in"];

/// The texts of what logical operators combine and of what is compared, each once.
pub(crate) fn parts<'s>(source: &'s str, parsed: &Parsed) -> Vec<&'s str> {
    let mut collector = Collector {
        source,
        spans: &parsed.spans,
        found: Vec::new(),
    };
    collector.visit(&parsed.root);
    collector.found
}

struct Collector<'s, 'p> {
    source: &'s str,
    spans: &'p [(u32, u32)],
    found: Vec<&'s str>,
}

impl Collector<'_, '_> {
    fn visit(&mut self, e: &Expr) {
        let Kind::Call { function, args, .. } = &e.kind else {
            return self.note(e);
        };
        match &**function {
            "_&&_" | "_||_" | "!_" | "_?_:_" => args.iter().for_each(|arg| self.visit(arg)),
            name if COMPARISONS.contains(&name) => {
                self.note(e);
                args.iter().for_each(|arg| self.note(arg));
            }
            _ => self.note(e),
        }
    }

    fn note(&mut self, e: &Expr) {
        let text = slice(self.source, self.spans[e.id as usize]);
        if !text.is_empty() && !is_constant(e) && !self.found.contains(&text) {
            self.found.push(text);
        }
    }
}

fn is_constant(e: &Expr) -> bool {
    match &e.kind {
        Kind::Literal(_) => true,
        Kind::List(items) => items.iter().all(|item| is_constant(&item.value)),
        Kind::Call {
            function,
            target: None,
            args,
        } => matches!(&**function, "duration" | "timestamp" | "-_") && args.iter().all(is_constant),
        _ => false,
    }
}
