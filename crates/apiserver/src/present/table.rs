//! Shows objects as the rows of a `Table`, with the columns of their kind.

use serde::Serialize;
use serde_json::{Value, json};

use super::render::partial;
use super::{IncludeObject, MetaVersion};
use crate::registry::{Resource, Source};

/// Set by the server on the bookmark that ends the initial events; such a row always carries its metadata.
const INITIAL_EVENTS_END: &str = "/metadata/annotations/k8s.io~1initial-events-end";

/// How one resource is shown as a table at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'a> {
    resource: &'a Resource,
    version: MetaVersion,
    include: IncludeObject,
    now: i64,
    /// The object is not of the resource's own kind, such as a `Scale`: only name and age are known.
    foreign: bool,
}

/// A column as clients see it.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Definition {
    name: String,
    r#type: String,
    format: String,
    description: String,
    priority: i32,
}

/// One object of a table.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Value>,
    object: Option<Value>,
}

/// Whether a table names its columns; in a watch only the first event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    Shown,
    Omitted,
}

impl<'a> Layout<'a> {
    pub(super) fn new(
        resource: &'a Resource,
        version: MetaVersion,
        include: IncludeObject,
        now: i64,
    ) -> Layout<'a> {
        Layout {
            resource,
            version,
            include,
            now,
            foreign: false,
        }
    }

    pub(super) fn for_object(self, value: &Value) -> Layout<'a> {
        let kind = value.get("kind").and_then(Value::as_str);
        Layout {
            foreign: kind.is_some_and(|kind| kind != self.resource.kind),
            ..self
        }
    }

    /// Everything before the rows.
    pub(super) fn prefix(&self, metadata: &Value, headers: Headers) -> String {
        let columns = match headers {
            Headers::Shown => json!(self.definitions()),
            Headers::Omitted => Value::Null,
        };
        format!(
            r#"{{"kind":"Table","apiVersion":"{}","metadata":{metadata},"columnDefinitions":{columns},"rows":["#,
            self.version.api_version()
        )
    }

    pub(super) const SUFFIX: &'static str = "]}";

    /// The row of one object.
    pub(super) fn row(&self, value: Value) -> Row {
        let cells = self.cells(&value);
        let built_in = self.resource.built_in().filter(|_| !self.foreign);
        let conditions = built_in
            .map(|kind| skopos_builtin::row_conditions(kind, &value))
            .unwrap_or_default();
        let object = match self.include {
            IncludeObject::Object => Some(value),
            IncludeObject::None if value.pointer(INITIAL_EVENTS_END).is_none() => None,
            IncludeObject::None | IncludeObject::Metadata => Some(partial(self.version, value)),
        };
        Row {
            cells,
            conditions,
            object,
        }
    }

    fn definitions(&self) -> Vec<Definition> {
        match &self.resource.source {
            _ if self.foreign => vec![Definition::name(), Definition::age()],
            Source::BuiltIn(kind) => skopos_builtin::columns(kind)
                .iter()
                .map(Definition::from_built_in)
                .collect(),
            Source::Custom(custom) if custom.columns.is_empty() => {
                vec![Definition::name(), Definition::age()]
            }
            Source::Custom(custom) => {
                let columns = custom.columns.iter().map(Definition::from_custom);
                std::iter::once(Definition::name()).chain(columns).collect()
            }
        }
    }

    fn cells(&self, value: &Value) -> Vec<Value> {
        let name = || {
            value
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or("")
                .into()
        };
        match &self.resource.source {
            _ if self.foreign => vec![name(), self.age(value)],
            Source::BuiltIn(kind) => skopos_builtin::cells(kind, value, self.now),
            Source::Custom(custom) if custom.columns.is_empty() => vec![name(), self.age(value)],
            Source::Custom(custom) => {
                let cells = custom.columns.iter().map(|column| column.cell(value, self.now));
                std::iter::once(name()).chain(cells).collect()
            }
        }
    }

    fn age(&self, value: &Value) -> Value {
        match value
            .pointer("/metadata/creationTimestamp")
            .and_then(Value::as_str)
        {
            Some(created) => skopos_schema::age(created, self.now).into(),
            None => Value::Null,
        }
    }
}

impl Definition {
    fn name() -> Definition {
        Definition {
            name: "Name".to_owned(),
            r#type: "string".to_owned(),
            format: "name".to_owned(),
            description: "Name of the object, unique in its namespace.".to_owned(),
            priority: 0,
        }
    }

    fn age() -> Definition {
        Definition {
            name: "Age".to_owned(),
            r#type: "date".to_owned(),
            format: String::new(),
            description: "Time since the object was created.".to_owned(),
            priority: 0,
        }
    }

    fn from_built_in(column: &skopos_builtin::ColumnDefinition) -> Definition {
        Definition {
            name: column.name.to_owned(),
            r#type: column.column_type.to_owned(),
            format: column.format.to_owned(),
            description: String::new(),
            priority: column.priority,
        }
    }

    fn from_custom(column: &skopos_schema::Column) -> Definition {
        Definition {
            name: column.name.clone(),
            r#type: column.kind.as_str().to_owned(),
            format: column.format.clone(),
            description: column.description.clone(),
            priority: column.priority,
        }
    }
}
