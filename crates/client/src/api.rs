//! The verbs: any resource, known only at run time, as untyped objects.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use skopos_object::{Content, ManagedFields, ObjectReader};

use crate::list::{ListParams, ListStream};
use crate::resource::Resource;
use crate::watch::{WatchParams, WatchStream};
use crate::{Answer, Call, Client, Error};

const JSON: &str = "application/json";

/// One resource of one server, in one namespace or over all. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    client: Client,
    resource: Resource,
    namespace: Option<String>,
    content: Content,
}

/// A change to be made to an object.
#[derive(Debug, Clone, Copy)]
pub enum Patch<'a> {
    /// JSON patch (RFC 6902): a list of operations.
    Json(&'a Value),
    /// JSON merge patch (RFC 7386): a partial object.
    Merge(&'a Value),
    /// Strategic merge patch: for built-in kinds only.
    Strategic(&'a Value),
    /// Server-side apply, with the manager that will own the fields.
    Apply {
        /// The fields wanted.
        object: &'a Value,
        /// Who wants them.
        manager: &'a str,
        /// Whether to take fields from other managers.
        force: bool,
    },
}

/// How a write is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteParams {
    /// Go through all checks, but store nothing.
    pub dry_run: bool,
    /// Who writes, for field ownership.
    pub field_manager: String,
    /// `Strict`, `Warn` or `Ignore`; empty leaves it to the server.
    pub field_validation: String,
}

/// How a delete is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Go through all checks, but delete nothing.
    pub dry_run: bool,
    /// What becomes of the objects it owns; `None` leaves it to the server.
    pub propagation: Option<Propagation>,
    /// Seconds to give it; `None` leaves it to the kind.
    pub grace_period_seconds: Option<u32>,
    /// Delete only the object with this uid.
    pub uid: Option<String>,
}

/// What becomes of the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Api {
    /// Addresses a resource over all namespaces, or a cluster-scoped one.
    pub fn all(client: &Client, resource: &Resource) -> Self {
        Self {
            client: client.clone(),
            resource: resource.clone(),
            namespace: None,
            content: Content::default(),
        }
    }

    /// Addresses a resource in one namespace. A cluster-scoped resource has none, and the name is ignored.
    pub fn namespaced(client: &Client, resource: &Resource, namespace: &str) -> Self {
        let namespace = resource.namespaced.then(|| namespace.to_owned());
        Self {
            client: client.clone(),
            resource: resource.clone(),
            namespace,
            content: Content::default(),
        }
    }

    /// Addresses the same resource over another connection.
    #[must_use]
    pub fn with_client(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            ..self.clone()
        }
    }

    /// Lists and watches with more or less of each object. By default all but the managed fields is read.
    #[must_use]
    pub fn with_content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the path of the collection.
    pub fn path(&self) -> String {
        self.resource.collection_path(self.namespace.as_deref())
    }

    /// Reads one object.
    pub async fn get(&self, name: &str) -> Result<Value, Error> {
        Ok(self.client.call(&Call::get(self.object(name, None))).await?.value)
    }

    /// Reads one object, or `None` if there is none of that name. That the server does not serve the resource is an
    /// error: an object of that name may well be there.
    pub async fn find(&self, name: &str) -> Result<Option<Value>, Error> {
        match self.get(name).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a subresource of an object, such as `scale`.
    pub async fn get_subresource(&self, name: &str, subresource: &str) -> Result<Value, Error> {
        let call = Call::get(self.object(name, Some(subresource)));
        Ok(self.client.call(&call).await?.value)
    }

    /// Reads one object, or the collection, in another representation, such as a table.
    pub async fn read_as(
        &self,
        name: Option<&str>,
        accept: &'static str,
        params: &ListParams,
    ) -> Result<Answer, Error> {
        let call = match name {
            Some(name) => Call::get(self.object(name, None)),
            None => params.to_call(self.path()),
        };
        self.client.call(&call.accept(accept)).await
    }

    /// Lists objects page by page, each handed out as it arrives.
    pub fn list(&self, params: &ListParams) -> ListStream {
        ListStream::new(self.clone(), params.clone())
    }

    /// Opens one watch. It ends when the server ends it; the reflector of `skopos-informer` goes on.
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream, Error> {
        WatchStream::open(self, params).await
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value, params: &WriteParams) -> Result<Answer, Error> {
        let call = Call::new(Method::POST, self.path()).body(JSON, object.to_string());
        self.client.call(&params.to_call(call)).await
    }

    /// Replaces an object. If it carries a resource version, only that version is replaced.
    pub async fn update(&self, name: &str, object: &Value, params: &WriteParams) -> Result<Answer, Error> {
        let call = Call::new(Method::PUT, self.object(name, None)).body(JSON, object.to_string());
        self.client.call(&params.to_call(call)).await
    }

    /// Replaces a subresource of an object, such as `status`.
    pub async fn update_subresource(
        &self,
        name: &str,
        subresource: &str,
        object: &Value,
        params: &WriteParams,
    ) -> Result<Answer, Error> {
        let call =
            Call::new(Method::PUT, self.object(name, Some(subresource))).body(JSON, object.to_string());
        self.client.call(&params.to_call(call)).await
    }

    /// Changes parts of an object.
    pub async fn patch(&self, name: &str, patch: Patch<'_>, params: &WriteParams) -> Result<Answer, Error> {
        self.client
            .call(&params.to_call(patch.to_call(self.object(name, None))))
            .await
    }

    /// Changes parts of a subresource of an object, such as `status` or `scale`.
    pub async fn patch_subresource(
        &self,
        name: &str,
        subresource: &str,
        patch: Patch<'_>,
        params: &WriteParams,
    ) -> Result<Answer, Error> {
        self.client
            .call(&params.to_call(patch.to_call(self.object(name, Some(subresource)))))
            .await
    }

    /// Deletes an object. It may stay for a while if it has finalizers: then the object is the answer.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Answer, Error> {
        let call = Call::new(Method::DELETE, self.object(name, None)).body(JSON, params.to_json());
        self.client.call(&call).await
    }

    /// Deletes every object that the selectors of `of` choose.
    pub async fn delete_collection(&self, params: &DeleteParams, of: &ListParams) -> Result<Answer, Error> {
        let call = Call::new(Method::DELETE, self.path())
            .query_if("labelSelector", &of.label_selector)
            .query_if("fieldSelector", &of.field_selector)
            .body(JSON, params.to_json());
        self.client.call(&call).await
    }

    /// How objects of lists and watches are read.
    pub(crate) fn reader(&self) -> ObjectReader {
        let kind = self.resource.gvk();
        match self.content {
            Content::Full(managed_fields) => ObjectReader::new(managed_fields).with_kind_if_missing(&kind),
            Content::Metadata => ObjectReader::new(ManagedFields::Drop).with_kind(&kind),
        }
    }

    pub(crate) fn list_media_type(&self) -> &'static str {
        match self.content {
            Content::Full(_) => JSON,
            Content::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        }
    }

    pub(crate) fn object_media_type(&self) -> &'static str {
        match self.content {
            Content::Full(_) => JSON,
            Content::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }

    fn object(&self, name: &str, subresource: Option<&str>) -> String {
        self.resource
            .object_path(self.namespace.as_deref(), name, subresource)
    }
}

impl WriteParams {
    fn to_call(&self, call: Call) -> Call {
        call.query_if("dryRun", if self.dry_run { "All" } else { "" })
            .query_if("fieldManager", &self.field_manager)
            .query_if("fieldValidation", &self.field_validation)
    }
}

impl Patch<'_> {
    fn to_call(self, path: String) -> Call {
        let call = Call::new(Method::PATCH, path);
        match self {
            Self::Json(patch) => call.body("application/json-patch+json", patch.to_string()),
            Self::Merge(patch) => call.body("application/merge-patch+json", patch.to_string()),
            Self::Strategic(patch) => call.body("application/strategic-merge-patch+json", patch.to_string()),
            Self::Apply {
                object,
                manager,
                force,
            } => call
                .query("fieldManager", manager)
                .query_if("force", if force { "true" } else { "" })
                .body("application/apply-patch+yaml", object.to_string()),
        }
    }
}

impl DeleteParams {
    fn to_json(&self) -> Bytes {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = json!(propagation.as_str());
        }
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(uid) = &self.uid {
            options["preconditions"] = json!({"uid": uid});
        }
        options.to_string().into()
    }
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}
