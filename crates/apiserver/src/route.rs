//! From an authenticated request to the handler of its verb.

use std::sync::Arc;

use http::Response;
use jiff::Timestamp;
use skopos_object::{Details, Reason, Status};

use crate::call::{Answer, Call};
use crate::edge::{Handler, Request, RequestLabels, ResponseBody, Sample, SampleValue};
use crate::present::{Purpose, Wanted};
use crate::published::Published;
use crate::registry::{Registry, Resource};
use crate::request::{Query, Target, Verb};
use crate::respond::{build, refuse, respond};
use crate::state::Shared;
use crate::{definition, read, reviews, write};

/// The inner service of the API server.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router")
            .field("revision", &self.shared.store.revision())
            .finish_non_exhaustive()
    }
}

impl Router {
    pub(crate) fn new(shared: Arc<Shared>) -> Router {
        Router { shared }
    }
}

impl Handler for Router {
    async fn handle(&self, request: Request) -> Response<ResponseBody> {
        let registry = self.shared.registry.load_full();
        if let Some(response) = self.document(&registry, &request).await {
            return response;
        }
        let query = Query::parse(&request.uri);
        let Some(target) = Target::parse(&request.method, &request.uri, &query) else {
            return page_not_found();
        };
        let resource = match find(&registry, &target) {
            Ok(resource) => resource,
            Err(Refusal::Page) => return page_not_found(),
            Err(Refusal::Status(status)) => return refuse(&request.headers, &query, &status),
        };
        let labels = labels_of(&resource, &target);
        let call = Call::new(resource, target, query, request, Timestamp::now());
        let outcome = dispatch(&self.shared, &call).await;
        let mut response = respond(&call, outcome);
        response.extensions_mut().insert(labels);
        response
    }

    fn index_paths(&self) -> Vec<String> {
        let registry = self.shared.registry.load();
        let mut paths = vec![
            "/api".to_owned(),
            "/apis".to_owned(),
            "/openapi/v2".into(),
            "/openapi/v3".into(),
        ];
        for group in registry.groups() {
            let base = if group.name.is_empty() {
                "/api".to_owned()
            } else {
                format!("/apis/{}", group.name)
            };
            if !group.name.is_empty() {
                paths.push(base.clone());
            }
            paths.extend(group.versions.iter().map(|version| format!("{base}/{version}")));
        }
        paths
    }

    fn samples(&self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = self
            .shared
            .registry
            .load()
            .stored()
            .iter()
            .map(|r| self.count(r))
            .collect();
        samples.extend(crate::metrics::store_samples(&self.shared.store.stats()));
        samples
    }
}

impl Router {
    fn count(&self, resource: &Resource) -> Sample {
        Sample {
            name: "apiserver_storage_objects",
            help: "Number of stored objects at the time of the last check, by resource",
            labels: vec![("resource", resource.group_resource().to_string())],
            value: SampleValue::Gauge(self.shared.store.count(&resource.space) as f64),
        }
    }

    /// Discovery and OpenAPI; the large documents are made off the runtime's threads.
    async fn document(&self, registry: &Arc<Registry>, request: &Request) -> Option<Response<ResponseBody>> {
        let Request {
            method, uri, headers, ..
        } = request;
        let response = match Published::is_heavy(uri) {
            false => self.shared.published.handle(registry, method, uri, headers),
            true => {
                let (shared, registry) = (Arc::clone(&self.shared), Arc::clone(registry));
                let (method, uri, headers) = (method.clone(), uri.clone(), headers.clone());
                let make = move || shared.published.handle(&registry, &method, &uri, &headers);
                tokio::task::spawn_blocking(make).await.ok()?
            }
        };
        response.map(|response| response.map(ResponseBody::full))
    }
}

/// Why a request does not reach a resource.
enum Refusal {
    /// Like a path nobody knows.
    Page,
    Status(Status),
}

fn page_not_found() -> Response<ResponseBody> {
    let mut response = build(
        404,
        "text/plain; charset=utf-8",
        ResponseBody::full("404 page not found\n"),
    );
    let nosniff = http::HeaderValue::from_static("nosniff");
    response.headers_mut().insert("x-content-type-options", nosniff);
    response
}

/// Finds the resource and checks that the request has the right shape for it.
fn find(registry: &Registry, target: &Target) -> Result<Arc<Resource>, Refusal> {
    let Some(resource) = registry.find(&target.group, &target.version, &target.resource) else {
        let built_in = registry
            .of(&target.group, &target.version)
            .any(|r| r.built_in().is_some());
        return Err(if built_in {
            Refusal::Status(Status::generic_not_found())
        } else {
            Refusal::Page
        });
    };
    match resource.built_in() {
        Some(_) => check_built_in_shape(resource, target).map_err(Refusal::Status)?,
        None => check_custom_shape(resource, target)?,
    }
    Ok(Arc::clone(resource))
}

/// Only lists and watches reach across namespaces.
fn lacks_namespace(resource: &Resource, target: &Target) -> bool {
    let across = matches!(target.verb, Verb::List | Verb::Watch) && target.name.is_empty();
    resource.namespaced && target.namespace.is_empty() && !across
}

fn check_custom_shape(resource: &Resource, target: &Target) -> Result<(), Refusal> {
    if lacks_namespace(resource, target) || (!resource.namespaced && !target.namespace.is_empty()) {
        return Err(Refusal::Page);
    }
    let named = resource.group_resource();
    let unsupported = || Refusal::Status(Status::method_not_supported(&named, target.verb.as_str()));
    if target.subresource.is_empty() {
        // Verbs that a terminating definition has lost are refused later, with the reason.
        return match target.verb {
            Verb::Create | Verb::Update | Verb::Patch => Ok(()),
            verb if resource.allows(verb.as_str()) => Ok(()),
            _ => Err(unsupported()),
        };
    }
    let Some(subresource) = resource.subresource(&target.subresource) else {
        return Err(Refusal::Status(Status::not_found(&named, &target.name)));
    };
    match subresource.verbs.contains(&target.verb.as_str()) {
        true => Ok(()),
        false => Err(unsupported()),
    }
}

fn check_built_in_shape(resource: &Resource, target: &Target) -> Result<(), Status> {
    let wrong_scope = !resource.namespaced && !target.namespace.is_empty();
    let missing = lacks_namespace(resource, target) && target.verb == Verb::Get;
    if wrong_scope || missing {
        return Err(Status::generic_not_found());
    }
    let named = !target.name.is_empty();
    let is_allowed = match target.subresource.as_str() {
        "" => resource.allows(target.verb.as_str()) && has_right_shape(target.verb, named),
        name => {
            let subresource = resource.subresource(name).ok_or_else(Status::generic_not_found)?;
            subresource.verbs.contains(&target.verb.as_str())
        }
    };
    match is_allowed && !lacks_namespace(resource, target) {
        true => Ok(()),
        false => Err(method_not_allowed()),
    }
}

fn has_right_shape(verb: Verb, named: bool) -> bool {
    match verb {
        Verb::Create => !named,
        Verb::Update | Verb::Patch => named,
        _ => true,
    }
}

fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    Status::failure(405, Reason::MethodNotAllowed, message).with_details(Details::default())
}

async fn dispatch(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    if let Some(warning) = deprecation(&call.resource) {
        call.warn(warning);
    }
    if !matches!(call.target.verb, Verb::Get | Verb::List | Verb::Watch) {
        // What could not be shown afterwards is not done in the first place.
        Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::Object)?;
    }
    if !call.resource.is_stored() {
        return reviews::review(shared, call);
    }
    let answer = match call.target.verb {
        Verb::Get => read::get(shared, call).await,
        Verb::List => read::list(shared, call).await,
        Verb::Watch => read::watch(shared, call).await,
        Verb::Create => write::create(shared, call).await,
        Verb::Update => write::update(shared, call).await,
        Verb::Patch => write::patch(shared, call).await,
        Verb::Delete => write::delete(shared, call).await,
        Verb::DeleteCollection => write::delete_collection(shared, call).await,
        Verb::Unknown => Err(method_not_allowed()),
    }?;
    if definition::is_definition(&call.resource)
        && !matches!(call.target.verb, Verb::Get | Verb::List | Verb::Watch)
    {
        shared.definitions.settle(shared.definitions.latest()).await;
    }
    Ok(answer)
}

/// What the client is told about the version it uses.
fn deprecation(resource: &Resource) -> Option<&str> {
    if resource.is("", "endpoints") {
        return Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    }
    if resource.is("", "componentstatuses") {
        return Some("v1 ComponentStatus is deprecated in v1.19+");
    }
    resource.custom()?.deprecation.as_deref()
}

fn labels_of(resource: &Resource, target: &Target) -> RequestLabels {
    let verb = match target.verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Unknown => "other",
    };
    let scope = match (target.name.is_empty(), target.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    RequestLabels {
        verb,
        group: resource.group.as_str().into(),
        version: resource.version.as_str().into(),
        resource: resource.plural.as_str().into(),
        subresource: target.subresource.as_str().into(),
        scope,
    }
}
