//! What a server would say to the creation of an object, in its words.

use std::sync::Arc;

use serde_json::{Map, Value};
use skopos_cel::rules::{Rules, validate_definition};
use skopos_object::FieldError;
use skopos_schema::{
    Scale, Structural, crd, default, finalizer_warnings, generated_name, sanitise_resource,
    validate_resource, validate_resource_meta,
};

/// What a server may put behind the prefix of a name.
const SUFFIX: &str = "x2x4x";

/// What is said to an object. It would be created if there are no problems.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) problems: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Said {
    fn problem(why: String) -> Said {
        Said {
            problems: vec![why],
            warnings: Vec::new(),
        }
    }

    /// A server that is asked to be strict refuses these at once; here the other faults are told as well.
    fn unknown_fields(&mut self, paths: Vec<String>) {
        let paths = paths.into_iter();
        self.problems
            .extend(paths.map(|path| format!("unknown field {path:?}")));
    }

    fn errors(&mut self, errors: &[FieldError]) {
        self.problems.extend(errors.iter().map(ToString::to_string));
    }
}

/// Creates a definition.
pub(super) fn define(mut definition: Value) -> Said {
    let api_version = definition["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(kind) = skopos_builtin::kind(group, version, "CustomResourceDefinition") else {
        return Said::problem(format!(
            "no server has definitions in {api_version}: write it as apiextensions.k8s.io/v1"
        ));
    };
    let mut said = Said::default();
    match skopos_builtin::decode(kind, &mut definition) {
        Ok(unknown) => said.unknown_fields(unknown),
        Err(why) => return Said::problem(why),
    }
    skopos_builtin::default(kind, &mut definition);
    crd::default_crd(&mut definition);
    said.problems.extend(take_version(&mut definition));
    metadata(&mut definition).remove("namespace");
    skopos_builtin::prepare_create(kind, &mut definition);
    crd::prepare_crd(&mut definition, None);
    said.errors(&skopos_builtin::validate(kind, &definition, None));
    said.errors(&validate_definition(&definition, None));
    said.warnings.extend(crd::crd_warnings(&definition, None));
    said.warnings.extend(finalizer_warnings(&definition, None));
    said
}

/// A kind that a definition describes, in one version.
#[derive(Debug)]
pub(super) struct Kind {
    schema: Arc<Structural>,
    rules: Option<Rules>,
    scale: Option<Scale>,
    has_status_endpoint: bool,
    is_namespaced: bool,
    deprecation: Option<String>,
}

impl Kind {
    /// The kind in a version of its definition; nothing if its schema cannot be read.
    pub(super) fn new(definition: &Value, version: &Value) -> Option<Kind> {
        let schema = Structural::from_json(version.pointer("/schema/openAPIV3Schema")?).ok()?;
        let schema = Arc::new(schema);
        let subresource = |name: &str| Some(&version["subresources"][name]).filter(|one| !one.is_null());
        Some(Kind {
            rules: Rules::compile(&schema),
            scale: subresource("scale").and_then(Scale::from_json),
            has_status_endpoint: subresource("status").is_some(),
            is_namespaced: definition["spec"]["scope"] != "Cluster",
            deprecation: crd::deprecation(definition, version),
            schema,
        })
    }

    /// The kind without its rules, for those that are no rules: what is wrong with them is said of the definition.
    pub(super) fn without_rules(self) -> Kind {
        Kind { rules: None, ..self }
    }

    /// Creates an object.
    pub(super) fn create(&self, mut object: Value) -> Said {
        let mut said = Said::default();
        match sanitise_resource(&self.schema, &mut object) {
            Ok(unknown) => said.unknown_fields(unknown),
            Err(why) => return Said::problem(why),
        }
        default(&self.schema, &mut object);
        said.problems.extend(take_version(&mut object));
        self.prepare(&mut object);
        let mut errors = validate_resource_meta(&object, self.is_namespaced);
        errors.extend(validate_resource(
            &self.schema,
            self.scale.as_ref(),
            &object,
            None,
        ));
        if let Some(rules) = &self.rules {
            let verdict = rules.evaluate(&object, None, &errors);
            errors.extend(verdict.errors);
        }
        said.errors(&errors);
        said.warnings.extend(self.deprecation.clone());
        said.warnings.extend(finalizer_warnings(&object, None));
        said
    }

    /// Sets what the path of the request says and what the server decides, as far as it is looked at.
    fn prepare(&self, object: &mut Value) {
        if let Some(fields) = object.as_object_mut()
            && self.has_status_endpoint
        {
            fields.remove("status");
        }
        let metadata = metadata(object);
        metadata.remove("generation");
        match self.is_namespaced {
            true => fill(metadata, "namespace", "default"),
            false => drop(metadata.remove("namespace")),
        }
        let prefix = metadata.get("generateName").and_then(Value::as_str);
        if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
            let name = generated_name(prefix, SUFFIX.chars());
            fill(metadata, "name", &name);
        }
    }
}

/// A new object has no version yet.
fn take_version(object: &mut Value) -> Option<String> {
    let version = metadata(object).remove("resourceVersion")?;
    let is_given = version.as_str().is_some_and(|version| !version.is_empty());
    is_given.then(|| "resourceVersion should not be set on objects to be created".to_owned())
}

fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made an object above")
}

fn fill(metadata: &mut Map<String, Value>, field: &str, value: &str) {
    let is_given = metadata
        .get(field)
        .and_then(Value::as_str)
        .is_some_and(|value| !value.is_empty());
    if !is_given {
        metadata.insert(field.to_owned(), value.into());
    }
}
