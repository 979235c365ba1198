//! Printer columns: what `kubectl get` shows of a custom resource.

use serde_json::Value;

use crate::clock::age;
use crate::gofmt::{float, plain};
use crate::jsonpath::{JsonPath, JsonPathError};

/// One column of `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The header.
    pub name: String,
    /// What the cells hold.
    pub kind: ColumnType,
    /// The OpenAPI format of the cells; possibly empty.
    pub format: String,
    /// What the column means. Made from the path if the CRD says nothing.
    pub description: String,
    /// Zero is always shown, above it only in wide output.
    pub priority: i32,
    /// Where the cell's value is.
    pub json_path: JsonPath,
}

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A text; anything else is printed as one.
    String,
    /// True or false.
    Boolean,
    /// A timestamp, shown as its age.
    Date,
}

impl ColumnType {
    /// The type as a CRD spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ColumnType::Integer => "integer",
            ColumnType::Number => "number",
            ColumnType::String => "string",
            ColumnType::Boolean => "boolean",
            ColumnType::Date => "date",
        }
    }

    fn parse(name: &str) -> Option<ColumnType> {
        [
            ColumnType::Integer,
            ColumnType::Number,
            ColumnType::String,
            ColumnType::Boolean,
            ColumnType::Date,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == name)
    }
}

/// Why a column cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The path does not parse.
    #[error("unrecognized column definition {path:?}")]
    Path {
        /// The text of the path.
        path: String,
        /// What is wrong with it.
        #[source]
        source: JsonPathError,
    },
    /// The type is none that columns have.
    #[error("unknown column type {0:?}")]
    Type(String),
}

impl Column {
    /// Reads one entry of `additionalPrinterColumns`.
    ///
    /// # Errors
    /// Fails if the path or the type is unusable.
    pub fn from_json(definition: &Value) -> Result<Column, ColumnError> {
        let text = |key: &str| definition.get(key).and_then(Value::as_str).unwrap_or_default();
        let path = text("jsonPath");
        let json_path = JsonPath::parse(path).map_err(|source| ColumnError::Path {
            path: path.to_owned(),
            source,
        })?;
        let kind =
            ColumnType::parse(text("type")).ok_or_else(|| ColumnError::Type(text("type").to_owned()))?;
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        let priority = definition.get("priority").and_then(Value::as_i64).unwrap_or(0);
        Ok(Column {
            name: text("name").to_owned(),
            kind,
            format: text("format").to_owned(),
            description,
            priority: i32::try_from(priority).unwrap_or(i32::MAX),
            json_path,
        })
    }

    /// The column that custom resources have when their CRD lists none: the age.
    #[must_use]
    pub fn age() -> Column {
        let path = ".metadata.creationTimestamp";
        Column {
            name: "Age".to_owned(),
            kind: ColumnType::Date,
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: JsonPath::parse(path).expect("a constant path of plain fields parses"),
        }
    }

    /// The cell of `object` at `now`, in seconds since 1970. Null means there is nothing to show.
    #[must_use]
    pub fn cell(&self, object: &Value, now: i64) -> Value {
        let Some(value) = self.json_path.first(object) else {
            return Value::Null;
        };
        match (self.kind, value) {
            (ColumnType::String, Value::Null) => "<no value>".into(),
            (ColumnType::String, Value::String(text)) => text.as_str().into(),
            (ColumnType::String, value) => plain(value).into(),
            (ColumnType::Integer, Value::Number(number)) => match number.as_i64() {
                Some(integer) => integer.into(),
                None => number
                    .as_f64()
                    .map_or(Value::Null, |float| truncate(float).into()),
            },
            (ColumnType::Number, Value::Number(_)) => value.clone(),
            (ColumnType::Boolean, Value::Bool(_)) => value.clone(),
            (ColumnType::Date, Value::String(text)) => age(text, now).into(),
            _ => Value::Null,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "an integer column drops the fraction"
)]
fn truncate(number: f64) -> i64 {
    number as i64
}

/// The value of a selectable field as the text that field selectors compare with.
///
/// Missing and null are the empty text.
#[must_use]
pub fn selectable_value(path: &JsonPath, object: &Value) -> String {
    match path.first(object) {
        None | Some(Value::Null) => String::new(),
        Some(Value::Number(number)) if number.is_f64() => number.as_f64().map(float).unwrap_or_default(),
        Some(value) => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Column;

    fn check(kind: &str, value: &Value, expected: &Value) {
        let column = Column::from_json(&json!({"name": "C", "type": kind, "jsonPath": ".v"})).unwrap();
        assert_eq!(
            column.cell(&json!({"v": value}), 1_000),
            *expected,
            "{kind} of {value}"
        );
    }

    #[test]
    fn shows_values_in_the_type_of_the_column() {
        check("integer", &json!(3), &json!(3));
        check("integer", &json!(3.9), &json!(3));
        check("integer", &json!("3"), &Value::Null);
        check("number", &json!(2.5), &json!(2.5));
        check("number", &json!(true), &Value::Null);
        check("boolean", &json!(true), &json!(true));
        check("boolean", &json!("true"), &Value::Null);
        check("date", &json!("1970-01-01T00:10:00Z"), &json!("6m40s"));
        check("date", &json!(""), &json!("<unknown>"));
        check("date", &json!("soon"), &json!("<invalid>"));
        check("date", &json!(5), &Value::Null);
    }

    #[test]
    fn prints_anything_in_a_text_column() {
        check("string", &json!("a"), &json!("a"));
        check("string", &json!(3), &json!("3"));
        check("string", &json!(2.5), &json!("2.5"));
        check("string", &json!(12_345_678.9), &json!("1.23456789e+07"));
        check("string", &json!(true), &json!("true"));
        check(
            "string",
            &json!({"b": 1, "a": "<"}),
            &json!(r#"{"a":"\u003c","b":1}"#),
        );
        check("string", &json!([1, 2]), &json!("[1,2]"));
        check("string", &Value::Null, &json!("<no value>"));
    }

    #[test]
    fn shows_nothing_for_a_missing_value() {
        let column = Column::from_json(&json!({"name": "C", "type": "string", "jsonPath": ".a.b"})).unwrap();
        assert_eq!(column.cell(&json!({"a": 1}), 0), Value::Null);
    }

    #[test]
    fn describes_itself_by_its_path() {
        let column = Column::from_json(&json!({"name": "C", "type": "string", "jsonPath": ".a"})).unwrap();
        assert_eq!(
            column.description,
            "Custom resource definition column (in JSONPath format): .a"
        );
    }

    #[test]
    fn the_age_column_reads_the_creation_time() {
        let object = json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}});
        assert_eq!(Column::age().cell(&object, 7200), json!("120m"));
    }
}
