//! The differences that `docs/compatibility.md` admits.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use regex::Regex;
use serde_json::Value;

use super::Difference;

/// The rows of the tables of `docs/compatibility.md` and how often each was needed.
///
/// A row that excuses something has an id in its first cell and, in its last, one or more of
/// `` `scenario : request : part` ``, `` `scenario : request : part : what both say` `` or
/// `` `scenario : request : part : what kube-apiserver says : what the embedded server says` ``; `*` stands for
/// anything, `(nothing)` for what is left out.
#[derive(Debug)]
pub struct Excuses {
    rows: Vec<Row>,
    used: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Row {
    id: String,
    text: String,
    place: Regex,
    /// What each server says there, kube-apiserver first.
    said: Option<[Regex; 2]>,
}

impl Row {
    fn parse(id: &str, text: &str) -> anyhow::Result<Row> {
        let parts: Vec<&str> = text.split(" : ").collect();
        let (place, said) = match parts.as_slice() {
            [_, _, _] => (glob(text)?, None),
            [place @ .., both] if place.len() == 3 => {
                (glob(&place.join(" : "))?, Some([glob(both)?, glob(both)?]))
            }
            [place @ .., real, embedded] if place.len() == 3 => {
                (glob(&place.join(" : "))?, Some([glob(real)?, glob(embedded)?]))
            }
            _ => anyhow::bail!("is not `scenario : request : part`"),
        };
        Ok(Row {
            id: id.to_owned(),
            text: text.to_owned(),
            place,
            said,
        })
    }

    fn fits(&self, difference: &Difference) -> bool {
        let place = format!(
            "{} : {} : {}",
            difference.scenario, difference.request, difference.part
        );
        let says = |value: &Option<Value>, said: &Regex| match value {
            Some(Value::String(text)) => said.is_match(text),
            Some(value) => said.is_match(&value.to_string()),
            None => said.is_match("(nothing)"),
        };
        let said_so = self.said.as_ref().is_none_or(|[real, embedded]| {
            says(&difference.real, real) && says(&difference.embedded, embedded)
        });
        self.place.is_match(&place) && said_so
    }
}

impl Excuses {
    /// Reads the page.
    pub fn read() -> anyhow::Result<Excuses> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
        let text = std::fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
        Excuses::parse(&text)
    }

    fn parse(page: &str) -> anyhow::Result<Excuses> {
        let mut rows = Vec::new();
        for line in page.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let (Some(id), Some(last)) = (cells.first(), cells.last()) else {
                continue;
            };
            for text in last
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|text| text.contains(" : "))
            {
                let row = Row::parse(id.trim_matches('`'), text);
                rows.push(row.with_context(|| format!("the excuse {text:?}"))?);
            }
        }
        Ok(Excuses {
            rows,
            used: BTreeMap::new(),
        })
    }

    /// Whether a difference is admitted. Counts the row as needed.
    pub fn admit(&mut self, difference: &Difference) -> bool {
        let mut admitted = false;
        // All rows that fit are needed: which of two comes first must not matter.
        for row in self.rows.iter().filter(|row| row.fits(difference)) {
            *self.used.entry(row.text.clone()).or_default() += 1;
            admitted = true;
        }
        admitted
    }

    /// How many differences each row excused.
    pub fn used(&self) -> impl Iterator<Item = (&str, usize)> {
        self.rows
            .iter()
            .map(|row| (row.id.as_str(), self.used.get(&row.text).copied().unwrap_or(0)))
    }

    /// Rows that excused nothing: what they speak of is no difference any more. Those for generated scenarios,
    /// which a run may or may not meet, do not count.
    pub fn stale(&self) -> Vec<String> {
        let unused = self
            .rows
            .iter()
            .filter(|row| !self.used.contains_key(&row.text) && !row.text.starts_with("generated/"));
        unused.map(|row| format!("{}: `{}`", row.id, row.text)).collect()
    }
}

fn glob(text: &str) -> anyhow::Result<Regex> {
    let pattern = regex::escape(text).replace(r"\*", ".*");
    Ok(Regex::new(&format!("^(?s:{pattern})$"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_what_a_row_names_and_tells_of_rows_without_use() {
        let page = "# Title\n| id | why | excuses |\n|---|---|---|\n\
                    | `a` | because | `reads/* : list : body.items[*].kind` |\n\
                    | `b` | because | `writes/x : * : code` |\n\
                    | `c` | because | `writes/* : * : message : *order*` |\n\
                    | `d` | because | `deletes/x : * : code : 404* : (nothing)` |\n";
        let mut excuses = Excuses::parse(page).unwrap();
        let mut difference = Difference {
            scenario: "reads/list".into(),
            request: "list".into(),
            sent: String::new(),
            part: "body.items[3].kind".into(),
            real: None,
            embedded: None,
        };
        assert!(excuses.admit(&difference));
        difference.part = "body.kind".into();
        assert!(!excuses.admit(&difference));
        difference.scenario = "writes/y".into();
        difference.part = "message".into();
        difference.real = Some("an order".into());
        assert!(!excuses.admit(&difference));
        difference.embedded = Some("another order".into());
        assert!(excuses.admit(&difference));
        difference.scenario = "deletes/x".into();
        difference.part = "code".into();
        difference.real = Some("404 not found".into());
        assert!(!excuses.admit(&difference));
        difference.embedded = None;
        assert!(excuses.admit(&difference));
        assert_eq!(excuses.stale(), ["b: `writes/x : * : code`"]);
    }
}
