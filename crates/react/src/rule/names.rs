//! What expressions of rules may name.

use serde_json::{Value, json};
use skopos_cel::{Decl, Env, Type};
use skopos_journal::{Entry, Observed};
use skopos_schema::Structural;

use super::subject::{Changed, managers, observed, op};

/// The environments of a rule: the same object, but not the same names everywhere.
#[derive(Debug)]
pub(crate) struct Environments {
    /// Of `when`.
    pub(crate) when: Env,
    /// Of templates: nothing that depends on what is remembered, or on when it is rendered.
    pub(crate) template: Env,
    /// Of what `became`, `was` and `heldFor` are about.
    pub(crate) state: Env,
}

impl Environments {
    pub(crate) fn new(kind: &str, schema: Option<&Structural>) -> Self {
        let object = schema.map_or_else(Decl::dynamic, |schema| Decl::from_resource(schema, kind));
        let state = || Env::builder().variable("object", object.clone());
        let change = || {
            state()
                .variable("oldObject", object.clone())
                .variable("change", declared_change())
                .function("changed", &[Type::String], Type::Bool)
                .lazy_function("was", &[Type::Dyn], Type::Dyn)
        };
        let when = change()
            .variable("now", Decl::timestamp())
            .lazy_function("became", &[Type::Bool], Type::Bool)
            .lazy_function("heldFor", &[Type::Bool, Type::Duration], Type::Bool);
        Self {
            when: when.build(),
            template: change().build(),
            state: state().build(),
        }
    }
}

fn declared_change() -> Decl {
    let texts = [
        "op",
        "id",
        "observed",
        "kind",
        "group",
        "version",
        "namespace",
        "name",
        "uid",
        "cluster",
    ];
    let mut fields: Vec<(String, Decl)> = texts.map(|name| (name.to_owned(), Decl::string())).into();
    fields.push(("paths".to_owned(), Decl::list(Decl::string())));
    fields.push(("by".to_owned(), Decl::list(Decl::string())));
    fields.push(("time".to_owned(), Decl::timestamp()));
    fields.push(("notBefore".to_owned(), Decl::timestamp()));
    fields.push(("seq".to_owned(), Decl::int()));
    Decl::object("change", fields)
}

/// What expressions call `change`.
pub(crate) fn change(entry: &Entry, changed: &[Changed]) -> Value {
    let paths: Vec<&str> = changed
        .iter()
        .map(|changed| changed.change.path.as_str())
        .collect();
    let mut change = json!({
        "op": op(entry.op),
        "id": entry.id().as_str(),
        "observed": observed(entry.observed),
        "cluster": entry.source,
        "group": entry.kind.group,
        "version": entry.kind.version,
        "kind": entry.kind.kind,
        "namespace": entry.key.namespace,
        "name": entry.key.name,
        "uid": entry.uid,
        "paths": paths,
        "by": managers(entry),
        "time": entry.at.to_string(),
        "seq": entry.seq.0,
    });
    if let Observed::Relist { after } = entry.observed {
        change["notBefore"] = after.to_string().into();
    }
    change
}
