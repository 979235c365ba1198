//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;
use skopos_object::quote;

use super::Run;
use super::fault::{Fault, Faults};
use crate::path::At;
use crate::structural::{Checks, Logic, Structural};

impl Run {
    pub(super) fn logic(&mut self, checks: Option<&Checks>, at: &At<'_>, value: &Value) -> u32 {
        let Some(logic) = checks.and_then(|checks| checks.logic.as_deref()) else {
            return 1;
        };
        let mut matched = 1;
        matched += self.any_of(logic, at, value);
        matched += self.one_of(logic, at, value);
        matched += self.all_of(logic, at, value);
        if let Some(not) = &logic.not {
            let mark = self.faults.mark();
            self.node(not, at, value, None);
            let valid = !self.faults.any_since(mark);
            self.faults.cut(mark);
            if valid {
                self.whole(at, "must not validate the schema (not)");
            }
        }
        matched
    }

    fn whole(&mut self, at: &At<'_>, what: &str) {
        self.faults
            .push(|| Fault::whole(format!("{} {what}", quote(&at.dotted()))));
    }

    /// Runs one branch aside. `Err` holds its errors.
    fn branch(&mut self, schema: &Structural, at: &At<'_>, value: &Value) -> (u32, Result<(), Faults>) {
        let mark = self.faults.mark();
        let matched = self.node(schema, at, value, None);
        match self.faults.any_since(mark) {
            true => (matched, Err(self.faults.take(mark))),
            false => (matched, Ok(())),
        }
    }

    fn any_of(&mut self, logic: &Logic, at: &At<'_>, value: &Value) -> u32 {
        if logic.any_of.is_empty() {
            return 0;
        }
        let mut closest: Option<(u32, Faults)> = None;
        for schema in &logic.any_of {
            match self.branch(schema, at, value) {
                (matched, Ok(())) => return matched,
                (matched, Err(faults)) => keep_closest(&mut closest, matched, faults),
            }
        }
        self.whole(at, "must validate at least one schema (anyOf)");
        self.report(closest)
    }

    fn one_of(&mut self, logic: &Logic, at: &At<'_>, value: &Value) -> u32 {
        if logic.one_of.is_empty() {
            return 0;
        }
        let mut closest: Option<(u32, Faults)> = None;
        let mut first_match = None;
        let mut valid = 0;
        for schema in &logic.one_of {
            match self.branch(schema, at, value) {
                (matched, Ok(())) => {
                    valid += 1;
                    first_match.get_or_insert(matched);
                    closest = None;
                }
                (matched, Err(faults)) if valid == 0 => keep_closest(&mut closest, matched, faults),
                (_, Err(_)) => {}
            }
        }
        match valid {
            1 => first_match.unwrap_or(0),
            0 => {
                self.whole(
                    at,
                    "must validate one and only one schema (oneOf). Found none valid",
                );
                self.report(closest)
            }
            _ => {
                let what = format!(
                    "must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                );
                self.whole(at, &what);
                0
            }
        }
    }

    fn all_of(&mut self, logic: &Logic, at: &At<'_>, value: &Value) -> u32 {
        let mut matched = 0;
        let mut valid = 0;
        for schema in &logic.all_of {
            let mark = self.faults.mark();
            matched += self.node(schema, at, value, None);
            valid += usize::from(!self.faults.any_since(mark));
        }
        if valid != logic.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.whole(at, &format!("must validate all the schemas (allOf){none}"));
        }
        matched
    }

    fn report(&mut self, closest: Option<(u32, Faults)>) -> u32 {
        let Some((matched, faults)) = closest else {
            return 0;
        };
        self.faults.append(faults);
        matched
    }
}

fn keep_closest(closest: &mut Option<(u32, Faults)>, matched: u32, faults: Faults) {
    if closest.as_ref().is_none_or(|(best, _)| matched > *best) {
        *closest = Some((matched, faults));
    }
}
