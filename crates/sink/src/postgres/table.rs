//! The table and its statements.

use serde_json::Value;

use crate::{Event, connect::BadSink};

/// The name of a table, with every part in quotation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table(String);

impl Table {
    pub(super) fn new(name: &str) -> Result<Self, BadSink> {
        let parts: Vec<_> = name.split('.').collect();
        let bad = |part: &&str| part.is_empty() || part.len() > 63 || part.contains('\0');
        if parts.len() > 2 || parts.iter().any(bad) {
            return Err(BadSink::value(
                "table",
                format!("{name:?} is not table or schema.table"),
            ));
        }
        let quoted: Vec<_> = parts
            .iter()
            .map(|part| format!("\"{}\"", part.replace('"', "\"\"")))
            .collect();
        Ok(Self(quoted.join(".")))
    }

    pub(super) fn create(&self) -> String {
        let Self(table) = self;
        format!(
            "create table if not exists {table} (
                id text primary key,
                rule text not null,
                type text not null,
                source text not null,
                subject text not null,
                time timestamptz not null,
                data jsonb,
                position bigint generated always as identity
            )"
        )
    }

    /// Takes one array for each column. Rows get their positions in the order of the arrays.
    pub(super) fn insert(&self) -> String {
        let Self(table) = self;
        format!(
            "insert into {table} (id, rule, type, source, subject, time, data)
             select id, rule, type, source, subject, time::timestamptz, data
             from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[])
                  with ordinality as event (id, rule, type, source, subject, time, data, n)
             order by n
             on conflict (id) do nothing"
        )
    }
}

/// JSON as it is, anything else as a string.
pub(super) fn data(event: &Event) -> Value {
    let parsed = match event.content_type {
        "application/json" => serde_json::from_slice(&event.data).ok(),
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::from(String::from_utf8_lossy(&event.data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let quoted = |name: &str| Table::new(name).map(|table| table.0).ok();
        assert_eq!(quoted("changes").as_deref(), Some("\"changes\""));
        assert_eq!(quoted("audit.changes").as_deref(), Some("\"audit\".\"changes\""));
        assert_eq!(
            quoted("a\"; drop table b").as_deref(),
            Some("\"a\"\"; drop table b\"")
        );
        for bad in ["", "a.", "a.b.c", "a\0"] {
            assert_eq!(quoted(bad), None, "{bad:?}");
        }
    }
}
