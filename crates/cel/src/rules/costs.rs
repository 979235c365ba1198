//! Whether the rules of a definition can be afforded, by what they are estimated to cost at most.

use skopos_object::{FieldError, FieldPath};

/// What one expression may cost.
const MAX_EACH: u64 = 10_000_000;

/// What all expressions of a schema may cost together.
const MAX_TOTAL: u64 = 100_000_000;

/// How many of the dearest are named.
const N_NAMED: usize = 4;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// A schema that stays as it is was taken once, when its expressions may have cost less.
    Total,
    EachAndTotal,
}

/// What the expressions of a schema cost.
#[derive(Debug)]
pub(super) struct Costs {
    limit: Limit,
    total: u64,
    /// The dearest that count at all, the dearest first.
    dearest: Vec<(u64, FieldPath)>,
}

impl Costs {
    pub(super) fn new(limit: Limit) -> Costs {
        Costs {
            limit,
            total: 0,
            dearest: Vec::new(),
        }
    }

    /// Counts an expression; what there is to say if it costs too much alone.
    pub(super) fn add(&mut self, at: &FieldPath, what: &str, cost: u64) -> Option<FieldError> {
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_TOTAL / 100 {
            self.dearest.push((cost, at.clone()));
            self.dearest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.dearest.truncate(N_NAMED);
        }
        let is_too_much = self.limit == Limit::EachAndTotal && cost > MAX_EACH;
        is_too_much.then(|| {
            let what = format!("estimated {what} cost");
            FieldError::forbidden(at, exceeds(&what, cost, MAX_EACH))
        })
    }

    /// What there is to say if all together cost too much.
    pub(super) fn too_much(self, schema: &FieldPath) -> Vec<FieldError> {
        if self.total <= MAX_TOTAL {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let dearest = self.dearest.iter();
        let mut errors: Vec<FieldError> = dearest.map(|(_, at)| FieldError::forbidden(at, why)).collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            schema,
            exceeds(what, self.total, MAX_TOTAL),
        ));
        errors
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        // Not "1.0x".
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
