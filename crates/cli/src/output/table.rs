//! Tables that the server made, laid out as kubectl does.

use std::fmt::Write as _;

use serde_json::Value;

/// Room after the widest cell of a column.
const PADDING: usize = 3;
/// The least that a column takes.
const MIN_WIDTH: usize = 6;

/// Whether columns of lower priority are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WideColumns {
    Shown,
    Hidden,
}

/// Rows of text under headings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a `meta.k8s.io` Table; `None` if it is something else.
    pub(crate) fn parse(value: &Value, wide: WideColumns) -> Option<Self> {
        if value["kind"] != "Table" {
            return None;
        }
        let columns = value["columnDefinitions"].as_array()?;
        let shown: Vec<usize> = (0..columns.len())
            .filter(|&n| {
                wide == WideColumns::Shown || columns[n]["priority"].as_i64().unwrap_or_default() == 0
            })
            .collect();
        let heading = |&n: &usize| columns[n]["name"].as_str().unwrap_or_default().to_uppercase();
        let headings = shown.iter().map(heading).collect();
        let rows = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |row: &Value| shown.iter().map(|&n| cell(&row["cells"][n])).collect();
        Some(Self {
            headings,
            rows: rows.iter().map(row).collect(),
        })
    }

    /// Adds a column before the first.
    pub(crate) fn prepend(&mut self, heading: &str, cells: Vec<String>) {
        self.headings.insert(0, heading.to_owned());
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.insert(0, cell);
        }
    }

    /// Adds a column after the last.
    pub(crate) fn append(&mut self, heading: &str, cells: Vec<String>) {
        self.headings.push(heading.to_owned());
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// Takes over the rows of the next page.
    pub(crate) fn extend(&mut self, next: Self) {
        self.rows.extend(next.rows);
    }

    /// Lays it out, with or without its headings.
    pub(crate) fn render(&self, headings: bool) -> String {
        let lines: Vec<&Vec<String>> = headings
            .then_some(&self.headings)
            .into_iter()
            .chain(&self.rows)
            .collect();
        let columns = lines.iter().map(|line| line.len()).max().unwrap_or_default();
        let width = |n: usize| {
            let widest = lines
                .iter()
                .filter_map(|line| line.get(n))
                .map(|cell| cell.chars().count())
                .max();
            (widest.unwrap_or_default() + PADDING).max(MIN_WIDTH)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for line in lines {
            for (n, cell) in line.iter().enumerate() {
                if n + 1 == line.len() {
                    out.push_str(cell);
                } else {
                    let _ = write!(out, "{cell:<width$}", width = widths[n]);
                }
            }
            out.push('\n');
        }
        out
    }
}

/// One cell on one line, without control characters that could confuse a terminal.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            let line = text.split(['\n', '\r', '\x0c']).next().unwrap_or_default();
            let mut shown: String = line
                .chars()
                .map(|c| {
                    if c.is_control() {
                        c.escape_default().to_string()
                    } else {
                        c.to_string()
                    }
                })
                .collect();
            if line.len() < text.len() {
                shown.push_str("...");
            }
            shown
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Value {
        json!({"kind": "Table",
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Image", "priority": 1},
                {"name": "Replicas", "priority": 0}],
            "rows": [{"cells": ["web", "nginx", 3]}, {"cells": ["a-long-name", null, null]}]})
    }

    #[test]
    fn columns_line_up_as_in_kubectl() {
        let narrow = Table::parse(&table(), WideColumns::Hidden).unwrap();
        assert_eq!(
            narrow.render(true),
            "NAME          REPLICAS\nweb           3\na-long-name   \n"
        );
        let wide = Table::parse(&table(), WideColumns::Shown).unwrap();
        assert_eq!(
            wide.render(false),
            "web           nginx   3\na-long-name           \n"
        );
    }

    #[test]
    fn namespaces_come_first() {
        let mut table = Table::parse(&table(), WideColumns::Hidden).unwrap();
        table.prepend("NAMESPACE", vec!["x".into(), "y".into()]);
        assert!(table.render(true).starts_with("NAMESPACE   NAME"));
    }

    #[test]
    fn cells_stay_on_one_line() {
        assert_eq!(cell(&json!("a\nb")), "a...");
        assert_eq!(cell(&json!("\u{1b}[31m")), "\\u{1b}[31m");
        assert_eq!(cell(&json!(true)), "true");
    }

    #[test]
    fn other_kinds_are_not_tables() {
        assert_eq!(Table::parse(&json!({"kind": "List"}), WideColumns::Hidden), None);
    }
}
