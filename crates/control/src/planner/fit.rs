//! Whether what compiles can ever fire: a rule or record that does not fit what it names says so instead of waiting.

use serde_json::Value;
use skopos_api::RuleSpec;
use skopos_object::{CollectionName, Object};
use skopos_react::rule::SYSTEM_NAMESPACE;

use super::{Found, Planner};
use crate::kinds::Given;

impl Planner {
    /// Why a version that is asked for never shows up: changes are captured in the one that the server prefers.
    ///
    /// # Errors
    /// If the server does not say now which that is.
    pub(super) async fn version_problem(
        &self,
        found: &Found,
        asked: Option<&str>,
    ) -> Result<Option<String>, ()> {
        let Some(asked) = asked else {
            return Ok(None);
        };
        let served = match &found.version {
            Some(version) => version.clone(),
            None => {
                let name = CollectionName::new(found.names.group.as_str(), found.names.plural.as_str());
                let served = self.around.collections.open(&name).await;
                served.map_err(|_| ())?.kind.version
            }
        };
        Ok((asked != served).then(|| {
            format!("spec.watch.version: changes are captured in version {served}, not {asked}: leave the field out")
        }))
    }

    /// Why nothing is seen of a kind whose objects are in no namespace. Where only namespaces are looked at, that is said
    /// of every such kind.
    pub(super) fn scope_problem<S>(
        &self,
        found: &Found,
        given: &Given<S>,
        namespaces: &[String],
    ) -> Option<String> {
        if found.namespaced || namespaces.is_empty() || !self.around.namespaces.is_empty() {
            return None;
        }
        let (plural, own) = (&found.names.plural, &given.key.namespace);
        Some(match given.is_from_file || own == SYSTEM_NAMESPACE {
            true => format!("spec.watch.namespaces: {plural} are in no namespace: leave the field out"),
            false => format!(
                "spec.watch.kind: {plural} are in no namespace, and what is in the namespace {own:?} sees only that one: \
                 put it into the namespace {SYSTEM_NAMESPACE}, or give it in a file"
            ),
        })
    }

    /// Actions that could write nothing: to a sink that writes objects, without an object.
    fn missing_templates(&self, given: &Given<RuleSpec>, spec: &RuleSpec) -> Vec<String> {
        let namespace = &given.key.namespace;
        let actions = spec.actions.iter().enumerate();
        let lacking = actions
            .filter(|(_, action)| action.template.is_none() && self.writes_objects(namespace, &action.sink));
        lacking
            .map(|(n, action)| {
                format!(
                    "spec.do[{n}].template: the sink {:?} writes objects, and no object is given: write it as the template",
                    action.sink
                )
            })
            .collect()
    }

    /// What keeps actions from writing: they have no object, or one that is not in the rule's own namespace although
    /// the rule acts as nobody who may write elsewhere.
    pub(super) async fn unwritable(
        &self,
        given: &Given<RuleSpec>,
        spec: &RuleSpec,
        definitions: &[Object],
    ) -> Vec<String> {
        let mut problems = self.missing_templates(given, spec);
        let Some(own) = confined_to(given, spec) else {
            return problems;
        };
        for (n, action) in spec.actions.iter().enumerate() {
            let template = action.template.as_ref();
            let Some(template) = template.filter(|_| self.writes_objects(own, &action.sink)) else {
                continue;
            };
            if let Some((field, what)) = self.foreign(own, template, definitions).await {
                problems.push(format!(
                    "spec.do[{n}].template{field}: {what}, and a rule in the namespace {own:?} writes only there: name a \
                     serviceAccountName that may do more, or put the rule into the namespace {SYSTEM_NAMESPACE}"
                ));
            }
        }
        problems
    }

    /// Why a template makes no object of this namespace, and in which field. A namespace that is an expression is looked
    /// at when the object is made.
    async fn foreign(
        &self,
        own: &str,
        template: &Value,
        definitions: &[Object],
    ) -> Option<(&'static str, String)> {
        let named = template["metadata"]["namespace"].as_str().unwrap_or(own);
        if named != own && !named.contains("${") {
            return Some((".metadata.namespace", format!("this is the namespace {named:?}")));
        }
        let text = |field: &str| template[field].as_str().filter(|text| !text.contains("${"));
        let (Some(version), Some(kind)) = (text("apiVersion"), text("kind")) else {
            return Some(("", "apiVersion and kind are not written out".to_owned()));
        };
        let group = version.split_once('/').map_or("", |(group, _)| group);
        // What is not served yet is looked at when it is: a plan is made anew then.
        let found = self.find(group, kind, definitions).await.ok()?;
        let what = || (".kind", format!("{} are in no namespace", found.names.plural));
        (!found.namespaced).then(what)
    }

    /// Whether a sink is one that writes objects.
    fn writes_objects(&self, namespace: &str, sink: &str) -> bool {
        let sink = self.sinks.get(&format!("{namespace}/{sink}"));
        sink.is_some_and(|good| good.spec.kubernetes.is_some())
    }
}

/// The only namespace that a rule may write to, if it is confined to one: it comes from a cluster, not from the namespace
/// of Skopos, and acts as nobody else.
pub(super) fn confined_to<'a>(given: &'a Given<RuleSpec>, spec: &RuleSpec) -> Option<&'a str> {
    let own = given.key.namespace.as_str();
    let is_free = given.is_from_file || own == SYSTEM_NAMESPACE || spec.service_account_name.is_some();
    (!is_free).then_some(own)
}
