//! The JSONPath dialect of printer columns, selectable fields and scale paths.

mod eval;
mod parse;

use serde_json::Value;

/// A parsed JSONPath such as `.status.conditions[?(@.type=="Ready")].status`.
///
/// Fields, quoted keys, indexes, slices, unions, wildcards, recursive descent and filters are understood;
/// `range` and text around the expression are not, because no column can use them.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    source: Box<str>,
    steps: Vec<Step>,
}

/// Why a text is no JSONPath.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The expression ends inside a bracket, filter or quote.
    #[error("unterminated {0}")]
    Unterminated(&'static str),
    /// A character that cannot stand here.
    #[error("unrecognized character in action: {0:?}")]
    Unexpected(char),
    /// An array index that is neither number, slice nor quoted key.
    #[error("invalid array index {0}")]
    BadIndex(String),
    /// `range`, `end` and other words.
    #[error("unrecognized identifier {0}")]
    Identifier(String),
    /// Filters within filters, deeper than anyone writes them.
    #[error("expression nests too deeply")]
    TooDeep,
    /// Two recursive descents in a row.
    #[error("invalid multiple recursive descent")]
    MultipleRecursion,
}

/// One step of a path: from a list of values to a list of values.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(Box<str>),
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Step>>),
    Filter(Box<Filter>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum End {
    /// To the end of the list.
    #[default]
    Open,
    /// A single index: one past the start.
    Single,
    At(i64),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    operator: Operator,
    right: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An operator that parses but never matches.
    Unknown,
}

impl JsonPath {
    /// Parses a path, with or without the braces around it.
    ///
    /// # Errors
    /// Returns what is wrong with the text.
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        let inner = text
            .strip_prefix('{')
            .and_then(|inner| inner.strip_suffix('}'))
            .unwrap_or(text);
        Ok(JsonPath {
            source: text.into(),
            steps: parse::steps(inner, 0)?,
        })
    }

    /// The text this path was parsed from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Finds all values the path leads to. A path that does not fit the value finds nothing.
    #[must_use]
    pub fn eval<'v>(&'v self, value: &'v Value) -> Vec<&'v Value> {
        eval::steps(&self.steps, vec![value]).unwrap_or_default()
    }

    /// Finds the first value the path leads to. Plain field paths do not allocate.
    #[must_use]
    pub fn first<'v>(&'v self, value: &'v Value) -> Option<&'v Value> {
        let mut at = value;
        for step in &self.steps {
            let Step::Field(name) = step else {
                return self.eval(value).first().copied();
            };
            at = at.as_object()?.get(name.as_ref())?;
        }
        Some(at)
    }

    /// The field names, if the path has nothing but fields.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.as_ref()),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonPath;

    fn object() -> Value {
        json!({
            "spec": {"replicas": 3, "list": [1, 2, 3, 4], "a.b": "dotted", "names": [{"n": "x"}, {"n": "y"}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Live", "status": "False", "n": 2},
            ]},
        })
    }

    fn check(path: &str, expected: &Value) {
        let object = object();
        let path = JsonPath::parse(path).unwrap();
        let found: Vec<Value> = path.eval(&object).into_iter().cloned().collect();
        assert_eq!(Value::from(found), *expected, "{}", path.as_str());
        assert_eq!(path.first(&object), path.eval(&object).first().copied());
    }

    #[test]
    fn walks_fields() {
        check(".spec.replicas", &json!([3]));
        check("{.spec.replicas}", &json!([3]));
        check("$.spec.replicas", &json!([3]));
        check("@.spec.replicas", &json!([3]));
        check(".spec.missing.deeper", &json!([]));
        check(r".spec.a\.b", &json!(["dotted"]));
        check(".spec['replicas']", &json!([3]));
        check(".", &json!([]));
    }

    #[test]
    fn indexes_and_slices_lists() {
        check(".spec.list[0]", &json!([1]));
        check(".spec.list[-1]", &json!([4]));
        check(".spec.list[1:3]", &json!([2, 3]));
        check(".spec.list[:2]", &json!([1, 2]));
        check(".spec.list[-2:]", &json!([3, 4]));
        check(".spec.list[0:4:2]", &json!([1, 3]));
        check(".spec.list[*]", &json!([1, 2, 3, 4]));
        check(".spec.list[9]", &json!([]));
        check(".spec.replicas[0]", &json!([]));
        check(".spec.list[0,2]", &json!([1, 3]));
    }

    #[test]
    fn filters_lists() {
        check(
            r#".status.conditions[?(@.type=="Ready")].status"#,
            &json!(["True"]),
        );
        check(
            r#".status.conditions[?(@.type == 'Live')].status"#,
            &json!(["False"]),
        );
        check(".status.conditions[?(@.type!='Ready')].type", &json!(["Live"]));
        check(".status.conditions[?(@.n==1)].type", &json!(["Ready"]));
        check(".status.conditions[?(@.type)].type", &json!(["Ready", "Live"]));
        check(".status.conditions[?(@.nope)].type", &json!([]));
        check(".spec.list[?(@>2)]", &json!([3, 4]));
        check(".spec.list[?(@<=2)]", &json!([1, 2]));
    }

    #[test]
    fn expands_wildcards_and_recursion() {
        check(".spec.names[*].n", &json!(["x", "y"]));
        check(".status.conditions.*.type", &json!(["Ready", "Live"]));
        check("..n", &json!(["x", "y", 1, 2]));
    }

    #[test]
    fn refuses_what_is_no_path() {
        for bad in [
            ".spec[",
            ".spec[?(@.a=='b']",
            ".spec['a",
            "range",
            ".a[b]",
            "....a",
            ".a[?(@.b==\"x)]",
            "#",
        ] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bounds_nesting() {
        let deep = format!("{}@.a{}", "[?(".repeat(500), ")]".repeat(500));
        assert!(JsonPath::parse(&deep).is_err());
    }
}
