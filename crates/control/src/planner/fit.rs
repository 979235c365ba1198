//! Whether what compiles can ever fire: a rule or record that does not fit what it names says so instead of waiting.

use skopos_api::RuleSpec;
use skopos_object::CollectionName;
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
    pub(super) fn missing_templates(&self, given: &Given<RuleSpec>, spec: &RuleSpec) -> Vec<String> {
        let namespace = &given.key.namespace;
        let actions = spec.actions.iter().enumerate();
        let lacking = actions.filter(|(_, action)| {
            let sink = self.sinks.get(&format!("{namespace}/{}", action.sink));
            action.template.is_none() && sink.is_some_and(|good| good.spec.kubernetes.is_some())
        });
        lacking
            .map(|(n, action)| {
                format!(
                    "spec.do[{n}].template: the sink {:?} writes objects, and no object is given: write it as the template",
                    action.sink
                )
            })
            .collect()
    }
}
