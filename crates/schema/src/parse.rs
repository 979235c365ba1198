//! Reads a JSONSchemaProps document into a [`Structural`].

use serde_json::{Map, Value};

use crate::format::Format;
use crate::pattern::Pattern;
use crate::structural::{
    Additional, Below, Checks, Extras, Limits, ListType, Logic, MapType, Rule, Structural, Type,
};

/// How deep schemas may nest. Every pass recurses at most this far, so it also bounds their stack.
pub(crate) const MAX_DEPTH: usize = 200;

/// Why a JSON document is no structural schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A keyword that CRD schemas must not use.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `items` lists several schemas.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// `x-kubernetes-preserve-unknown-fields` is false.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
    /// A keyword has a value of the wrong kind.
    #[error("schema field {0:?} has an unusable value")]
    Malformed(&'static str),
    /// The schema nests deeper than this server follows.
    #[error("schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

type Object = Map<String, Value>;
type Properties = Box<[(Box<str>, Structural)]>;

impl Structural {
    /// Compiles a schema as found in `spec.versions[*].schema.openAPIV3Schema`.
    ///
    /// # Errors
    /// Fails on keywords that no CRD may use and on values of the wrong kind. A schema that passed
    /// [`crate::crd::validate_crd`] does not fail.
    ///
    /// # Examples
    /// ```
    /// use skopos_schema::Structural;
    /// let schema = Structural::from_json(&serde_json::json!({
    ///     "type": "object",
    ///     "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
    /// }))?;
    /// assert!(schema.property("spec").is_some());
    /// # Ok::<(), skopos_schema::SchemaError>(())
    /// ```
    pub fn from_json(schema: &Value) -> Result<Structural, SchemaError> {
        let object = schema.as_object().ok_or(SchemaError::Malformed("schema"))?;
        node(object, 0)
    }
}

fn node(s: &Object, depth: usize) -> Result<Structural, SchemaError> {
    if depth >= MAX_DEPTH {
        return Err(SchemaError::TooDeep);
    }
    reject_unsupported(s)?;
    let declared = declared_type(s)?;
    let int_or_string = boolean(s, "x-kubernetes-int-or-string")?;
    let out = Structural {
        declared,
        nullable: boolean(s, "nullable")?,
        preserve_unknown: preserve_unknown(s)?,
        embedded: boolean(s, "x-kubernetes-embedded-resource")?,
        int_or_string,
        list_type: list_type(s)?,
        map_type: map_type(s)?,
        below: Below::default(),
        properties: properties(s, depth)?,
        items: items(s, depth)?,
        additional: additional(s, depth)?,
        default: present(s, "default").map(|value| Box::new(value.clone())),
        checks: checks(s, declared, int_or_string, depth)?,
        extras: extras(s)?,
    };
    Ok(out.summarised())
}

fn reject_unsupported(s: &Object) -> Result<(), SchemaError> {
    let nonempty_text = |key| {
        s.get(key)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    let nonempty_map = |key| {
        s.get(key)
            .and_then(Value::as_object)
            .is_some_and(|map| !map.is_empty())
    };
    for (key, name) in [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")] {
        if nonempty_text(key) {
            return Err(SchemaError::Unsupported(name));
        }
    }
    for key in ["patternProperties", "dependencies"] {
        if nonempty_map(key) {
            return Err(SchemaError::Unsupported(key));
        }
    }
    if present(s, "additionalItems").is_some() {
        return Err(SchemaError::Unsupported("additionalItems"));
    }
    if nonempty_map("definitions") {
        return Err(SchemaError::Unsupported("definitions"));
    }
    Ok(())
}

fn declared_type(s: &Object) -> Result<Option<Type>, SchemaError> {
    match text(s, "type")? {
        "" => Ok(None),
        name => Type::parse(name).map(Some).ok_or(SchemaError::Malformed("type")),
    }
}

fn preserve_unknown(s: &Object) -> Result<bool, SchemaError> {
    const KEY: &str = "x-kubernetes-preserve-unknown-fields";
    match present(s, KEY) {
        None => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(Value::Bool(false)) => Err(SchemaError::PreserveFalse),
        Some(_) => Err(SchemaError::Malformed(KEY)),
    }
}

fn list_type(s: &Object) -> Result<Option<ListType>, SchemaError> {
    const KEY: &str = "x-kubernetes-list-type";
    Ok(Some(match text(s, KEY)? {
        "" => return Ok(None),
        "atomic" => ListType::Atomic,
        "set" => ListType::Set,
        "map" => ListType::Map,
        _ => return Err(SchemaError::Malformed(KEY)),
    }))
}

fn map_type(s: &Object) -> Result<Option<MapType>, SchemaError> {
    const KEY: &str = "x-kubernetes-map-type";
    Ok(Some(match text(s, KEY)? {
        "" => return Ok(None),
        "granular" => MapType::Granular,
        "atomic" => MapType::Atomic,
        _ => return Err(SchemaError::Malformed(KEY)),
    }))
}

fn properties(s: &Object, depth: usize) -> Result<Properties, SchemaError> {
    let Some(value) = present(s, "properties") else {
        return Ok(Box::default());
    };
    let map = value.as_object().ok_or(SchemaError::Malformed("properties"))?;
    // JSON objects iterate in the byte order of their keys, which is the order `Structural` needs.
    map.iter()
        .map(|(name, schema)| Ok((name.as_str().into(), child(schema, "properties", depth)?)))
        .collect()
}

fn items(s: &Object, depth: usize) -> Result<Option<Box<Structural>>, SchemaError> {
    match present(s, "items") {
        None => Ok(None),
        Some(Value::Array(list)) if list.is_empty() => Ok(None),
        Some(Value::Array(_)) => Err(SchemaError::ItemsArray),
        Some(schema) => Ok(Some(Box::new(child(schema, "items", depth)?))),
    }
}

fn additional(s: &Object, depth: usize) -> Result<Additional, SchemaError> {
    match present(s, "additionalProperties") {
        None => Ok(Additional::Unset),
        Some(Value::Bool(allowed)) => Ok(Additional::Bool(*allowed)),
        Some(schema) => Ok(Additional::Schema(Box::new(child(
            schema,
            "additionalProperties",
            depth,
        )?))),
    }
}

fn child(schema: &Value, key: &'static str, depth: usize) -> Result<Structural, SchemaError> {
    node(schema.as_object().ok_or(SchemaError::Malformed(key))?, depth + 1)
}

fn checks(
    s: &Object,
    declared: Option<Type>,
    int_or_string: bool,
    depth: usize,
) -> Result<Option<Box<Checks>>, SchemaError> {
    let format = match text(s, "format")? {
        "" => None,
        name => Format::parse(name, if int_or_string { None } else { declared }),
    };
    let pattern = match text(s, "pattern")? {
        "" => None,
        source => Some(Box::new(Pattern::new(source))),
    };
    let enumeration = match present(s, "enum") {
        None => Box::default(),
        Some(Value::Array(values)) => values.clone().into_boxed_slice(),
        Some(_) => return Err(SchemaError::Malformed("enum")),
    };
    let checks = Checks {
        required: strings(s, "required")?,
        enumeration,
        format,
        pattern,
        limits: limits(s)?,
        logic: logic(s, depth)?,
    };
    let idle = checks.required.is_empty()
        && checks.enumeration.is_empty()
        && checks.format.is_none()
        && checks.pattern.is_none()
        && checks.limits.is_none()
        && checks.logic.is_none();
    Ok((!idle).then(|| Box::new(checks)))
}

fn limits(s: &Object) -> Result<Option<Box<Limits>>, SchemaError> {
    const KEYS: [&str; 10] = [
        "maximum",
        "minimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
    ];
    if !KEYS.iter().any(|key| s.contains_key(*key)) {
        return Ok(None);
    }
    Ok(Some(Box::new(Limits {
        maximum: float(s, "maximum")?,
        exclusive_maximum: boolean(s, "exclusiveMaximum")?,
        minimum: float(s, "minimum")?,
        exclusive_minimum: boolean(s, "exclusiveMinimum")?,
        multiple_of: float(s, "multipleOf")?,
        max_length: integer(s, "maxLength")?,
        min_length: integer(s, "minLength")?,
        max_items: integer(s, "maxItems")?,
        min_items: integer(s, "minItems")?,
        unique_items: boolean(s, "uniqueItems")?,
        max_properties: integer(s, "maxProperties")?,
        min_properties: integer(s, "minProperties")?,
    })))
}

fn logic(s: &Object, depth: usize) -> Result<Option<Box<Logic>>, SchemaError> {
    let branches = |key: &'static str| -> Result<Box<[Structural]>, SchemaError> {
        match present(s, key) {
            None => Ok(Box::default()),
            Some(Value::Array(list)) => list.iter().map(|schema| child(schema, key, depth)).collect(),
            Some(_) => Err(SchemaError::Malformed(key)),
        }
    };
    let logic = Logic {
        all_of: branches("allOf")?,
        any_of: branches("anyOf")?,
        one_of: branches("oneOf")?,
        not: present(s, "not")
            .map(|schema| child(schema, "not", depth).map(Box::new))
            .transpose()?,
    };
    let idle =
        logic.all_of.is_empty() && logic.any_of.is_empty() && logic.one_of.is_empty() && logic.not.is_none();
    Ok((!idle).then(|| Box::new(logic)))
}

fn extras(s: &Object) -> Result<Option<Box<Extras>>, SchemaError> {
    let list_map_keys = strings(s, "x-kubernetes-list-map-keys")?;
    const RULES: &str = "x-kubernetes-validations";
    let rules = match present(s, RULES) {
        None => Box::default(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| rule(item.as_object().ok_or(SchemaError::Malformed(RULES))?))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(SchemaError::Malformed(RULES)),
    };
    let extras = Extras { list_map_keys, rules };
    let idle = extras.list_map_keys.is_empty() && extras.rules.is_empty();
    Ok((!idle).then(|| Box::new(extras)))
}

fn rule(s: &Object) -> Result<Rule, SchemaError> {
    Ok(Rule {
        rule: text(s, "rule")?.to_owned(),
        message: text(s, "message")?.to_owned(),
        message_expression: text(s, "messageExpression")?.to_owned(),
        reason: text(s, "reason")?.to_owned(),
        field_path: text(s, "fieldPath")?.to_owned(),
        optional_old_self: match present(s, "optionalOldSelf") {
            None => None,
            Some(value) => Some(value.as_bool().ok_or(SchemaError::Malformed("optionalOldSelf"))?),
        },
    })
}

fn present<'v>(s: &'v Object, key: &str) -> Option<&'v Value> {
    s.get(key).filter(|value| !value.is_null())
}

fn text<'v>(s: &'v Object, key: &'static str) -> Result<&'v str, SchemaError> {
    match present(s, key) {
        None => Ok(""),
        Some(value) => value.as_str().ok_or(SchemaError::Malformed(key)),
    }
}

fn boolean(s: &Object, key: &'static str) -> Result<bool, SchemaError> {
    match present(s, key) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or(SchemaError::Malformed(key)),
    }
}

fn float(s: &Object, key: &'static str) -> Result<Option<f64>, SchemaError> {
    present(s, key)
        .map(|value| value.as_f64().ok_or(SchemaError::Malformed(key)))
        .transpose()
}

fn integer(s: &Object, key: &'static str) -> Result<Option<i64>, SchemaError> {
    present(s, key)
        .map(|value| value.as_i64().ok_or(SchemaError::Malformed(key)))
        .transpose()
}

fn strings(s: &Object, key: &'static str) -> Result<Box<[Box<str>]>, SchemaError> {
    match present(s, key) {
        None => Ok(Box::default()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| Ok(item.as_str().ok_or(SchemaError::Malformed(key))?.into()))
            .collect(),
        Some(_) => Err(SchemaError::Malformed(key)),
    }
}
