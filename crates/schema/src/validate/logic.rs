//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;
use skopos_object::quote;

use super::Run;
use super::fault::Fault;
use crate::path::At;
use crate::structural::{Checks, Logic, Structural};

/// The failed branch with most matches so far.
type Closest<'s> = Option<(u32, &'s Structural)>;

impl Run {
    pub(super) fn logic(&mut self, checks: Option<&Checks>, at: &At<'_>, value: &Value) -> u32 {
        let Some(logic) = checks.and_then(|checks| checks.logic.as_deref()) else {
            return 1;
        };
        let mut matched = 1;
        matched += self.any_of(logic, at, value);
        matched += self.one_of(logic, at, value);
        matched += self.all_of(logic, at, value);
        if let Some(not) = &logic.not
            && self.attempt(not, at, value).1
        {
            self.whole(at, "must not validate the schema (not)");
        }
        matched
    }

    fn whole(&mut self, at: &At<'_>, what: &str) {
        self.faults
            .push(|| Fault::whole(format!("{} {what}", quote(&at.dotted()))));
    }

    /// Tries a branch without keeping errors. Returns how much matched and whether it is valid.
    fn attempt(&mut self, schema: &Structural, at: &At<'_>, value: &Value) -> (u32, bool) {
        let before = self.faults.hush(true);
        let mark = self.faults.mark();
        let matched = self.node(schema, at, value, None);
        let valid = !self.faults.any_since(mark);
        self.faults.cut(mark);
        self.faults.hush(before);
        (matched, valid)
    }

    fn any_of(&mut self, logic: &Logic, at: &At<'_>, value: &Value) -> u32 {
        if logic.any_of.is_empty() {
            return 0;
        }
        let mut closest: Closest<'_> = None;
        for schema in &logic.any_of {
            match self.attempt(schema, at, value) {
                (matched, true) => return matched,
                (matched, false) => keep_closest(&mut closest, matched, schema),
            }
        }
        self.whole(at, "must validate at least one schema (anyOf)");
        self.report(closest, at, value)
    }

    fn one_of(&mut self, logic: &Logic, at: &At<'_>, value: &Value) -> u32 {
        if logic.one_of.is_empty() {
            return 0;
        }
        let mut closest: Closest<'_> = None;
        let mut first_match = None;
        let mut valid = 0;
        for schema in &logic.one_of {
            match self.attempt(schema, at, value) {
                (matched, true) => {
                    valid += 1;
                    first_match.get_or_insert(matched);
                }
                (matched, false) => keep_closest(&mut closest, matched, schema),
            }
        }
        match valid {
            1 => first_match.unwrap_or(0),
            0 => {
                self.whole(
                    at,
                    "must validate one and only one schema (oneOf). Found none valid",
                );
                self.report(closest, at, value)
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

    /// Adds the errors of the closest branch, by running it once more now that they are wanted.
    ///
    /// Inside an attempt nobody wants them, so a branch runs at most once per junctor around it.
    fn report(&mut self, closest: Closest<'_>, at: &At<'_>, value: &Value) -> u32 {
        let Some((matched, schema)) = closest else {
            return 0;
        };
        if !self.faults.is_quiet() {
            self.node(schema, at, value, None);
        }
        matched
    }
}

fn keep_closest<'s>(closest: &mut Closest<'s>, matched: u32, schema: &'s Structural) {
    if closest.is_none_or(|(best, _)| matched > best) {
        *closest = Some((matched, schema));
    }
}
