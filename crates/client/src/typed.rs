//! The verbs for a type of the caller's.

use std::fmt;
use std::marker::PhantomData;

use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skopos_object::{GroupVersionKind, Object};

use crate::{
    Api, Client, DeleteParams, Error, ListParams, ListStream, Patch, Resource, WatchParams, WatchStream,
    WriteParams,
};

/// An [`Api`] that takes and gives a type instead of untyped objects: one of `k8s-openapi`, one that derives
/// `kube::CustomResource`, or any with `serde`.
///
/// ```no_run
/// # async fn example(client: skopos_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use skopos_client::{ListParams, TypedApi, WriteParams};
///
/// let maps = TypedApi::<ConfigMap>::namespaced(&client, "shop");
/// let mut map = maps.get("settings").await?;
/// map.data.get_or_insert_default().insert("colour".into(), "blue".into());
/// let map = maps.update("settings", &map, &WriteParams::default()).await?;
/// let mut all = maps.list(&ListParams::default());
/// while let Some(map) = all.next().await? {
///     println!("{:?}", map.metadata.name);
/// }
/// # Ok(())
/// # }
/// ```
pub struct TypedApi<K> {
    api: Api,
    kind: PhantomData<fn() -> K>,
}

/// A list of typed objects.
#[derive(Debug)]
pub struct TypedList<K> {
    list: ListStream,
    kind: PhantomData<fn() -> K>,
}

/// How many replicas an object wants and has: its `scale` subresource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scale {
    /// How many are wanted.
    pub replicas: u32,
    /// How many there are.
    pub current_replicas: u32,
    /// Which pods they are.
    pub selector: String,
}

impl<K> Clone for TypedApi<K> {
    fn clone(&self) -> Self {
        Self::of(self.api.clone())
    }
}

impl<K> fmt::Debug for TypedApi<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedApi").field("api", &self.api).finish()
    }
}

impl<K: kube::Resource<DynamicType = ()>> TypedApi<K> {
    /// Addresses the objects of the type over all namespaces, or of one without namespaces.
    pub fn all(client: &Client) -> Self {
        Self::of(Api::all(client, &resource::<K>()))
    }
}

impl<K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>> TypedApi<K> {
    /// Addresses the objects of the type in one namespace.
    pub fn namespaced(client: &Client, namespace: &str) -> Self {
        Self::of(Api::namespaced(client, &resource::<K>(), namespace))
    }
}

/// What the type says of its resource. One without namespaces is never addressed in any.
fn resource<K: kube::Resource<DynamicType = ()>>() -> Resource {
    let kind = GroupVersionKind::new(&*K::group(&()), &*K::version(&()), &*K::kind(&()));
    Resource::known(&kind, &K::plural(&()), true)
}

impl<K> TypedApi<K> {
    /// Takes and gives this type where `api` has untyped objects.
    pub fn of(api: Api) -> Self {
        Self {
            api,
            kind: PhantomData,
        }
    }

    /// Returns the untyped API, which also lists and watches for informers.
    pub fn untyped(&self) -> &Api {
        &self.api
    }

    /// Opens one watch. Its objects are read as the type by [`from_object`].
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream, Error> {
        self.api.watch(params).await
    }

    /// Deletes an object. It may stay for a while if it has finalizers.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<(), Error> {
        self.api.delete(name, params).await.map(|_| ())
    }

    /// Deletes every object that the selectors of `of` choose.
    pub async fn delete_collection(&self, params: &DeleteParams, of: &ListParams) -> Result<(), Error> {
        self.api.delete_collection(params, of).await.map(|_| ())
    }

    /// Reads how many replicas an object wants and has.
    pub async fn scale(&self, name: &str) -> Result<Scale, Error> {
        self.api
            .get_subresource(name, "scale")
            .await
            .map(|value| Scale::read(&value))
    }

    /// Sets how many replicas an object wants.
    pub async fn set_scale(&self, name: &str, replicas: u32, params: &WriteParams) -> Result<Scale, Error> {
        let patch = json!({"spec": {"replicas": replicas}});
        let answer = self
            .api
            .patch_subresource(name, "scale", Patch::Merge(&patch), params)
            .await?;
        Ok(Scale::read(&answer.value))
    }
}

impl<K: DeserializeOwned> TypedApi<K> {
    /// Reads one object.
    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.typed(self.api.get(name).await?)
    }

    /// Reads one object, or `None` if there is none of that name. That the server does not serve the resource is an
    /// error.
    pub async fn find(&self, name: &str) -> Result<Option<K>, Error> {
        let found = self.api.find(name).await?;
        found.map(|value| self.typed(value)).transpose()
    }

    /// Lists objects page by page, each handed out as it arrives.
    pub fn list(&self, params: &ListParams) -> TypedList<K> {
        TypedList {
            list: self.api.list(params),
            kind: PhantomData,
        }
    }

    /// Changes parts of an object.
    pub async fn patch(&self, name: &str, patch: Patch<'_>, params: &WriteParams) -> Result<K, Error> {
        self.typed(self.api.patch(name, patch, params).await?.value)
    }

    /// Changes parts of the status of an object.
    pub async fn patch_status(&self, name: &str, patch: Patch<'_>, params: &WriteParams) -> Result<K, Error> {
        let answer = self.api.patch_subresource(name, "status", patch, params).await?;
        self.typed(answer.value)
    }

    fn typed(&self, value: Value) -> Result<K, Error> {
        serde_json::from_value(value).map_err(|error| unfit(self.api.path(), &error))
    }
}

impl<K: DeserializeOwned + Serialize> TypedApi<K> {
    /// Creates an object.
    pub async fn create(&self, object: &K, params: &WriteParams) -> Result<K, Error> {
        let object = self.untype(object)?;
        self.typed(self.api.create(&object, params).await?.value)
    }

    /// Replaces an object. If it carries a resource version, only that version is replaced.
    pub async fn update(&self, name: &str, object: &K, params: &WriteParams) -> Result<K, Error> {
        let object = self.untype(object)?;
        self.typed(self.api.update(name, &object, params).await?.value)
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, name: &str, object: &K, params: &WriteParams) -> Result<K, Error> {
        let object = self.untype(object)?;
        let answer = self
            .api
            .update_subresource(name, "status", &object, params)
            .await?;
        self.typed(answer.value)
    }

    /// Applies the fields of an object on the server, as `manager`; takes fields from others only by `force`.
    pub async fn apply(&self, name: &str, object: &K, manager: &str, force: bool) -> Result<K, Error> {
        let object = &self.untype(object)?;
        let patch = Patch::Apply {
            object,
            manager,
            force,
        };
        self.patch(name, patch, &WriteParams::default()).await
    }

    /// As a tree, with the kind that many types leave out.
    fn untype(&self, object: &K) -> Result<Value, Error> {
        let mut value = serde_json::to_value(object).map_err(|error| Error::Unsendable {
            request: self.api.path(),
            detail: error.to_string(),
        })?;
        let resource = self.api.resource();
        for (field, text) in [
            ("apiVersion", resource.api_version()),
            ("kind", resource.kind.clone()),
        ] {
            if let Some(fields) = value.as_object_mut() {
                fields.entry(field).or_insert_with(|| text.into());
            }
        }
        Ok(value)
    }
}

impl<K: DeserializeOwned> TypedList<K> {
    /// Returns the next object, or `None` after the last. The call after an object that does not fit the type, which
    /// is an [`Error::Unexpected`], goes on with the next one.
    pub async fn next(&mut self) -> Result<Option<K>, Error> {
        match self.list.next().await? {
            Some(object) => from_object(&object).map(Some),
            None => Ok(None),
        }
    }
}

impl Scale {
    fn read(value: &Value) -> Self {
        let number = |part: &str| {
            let number = value[part]["replicas"].as_u64().unwrap_or_default();
            u32::try_from(number).unwrap_or(u32::MAX)
        };
        Self {
            replicas: number("spec"),
            current_replicas: number("status"),
            selector: value["status"]["selector"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// Reads an object, such as one of a list, a [`WatchEvent`](skopos_object::WatchEvent) or a cache, as a type.
pub fn from_object<K: DeserializeOwned>(object: &Object) -> Result<K, Error> {
    serde_json::from_slice(object.bytes()).map_err(|error| unfit(object.key().to_string(), &error))
}

fn unfit(request: String, error: &serde_json::Error) -> Error {
    Error::Unexpected {
        request,
        detail: format!("it does not fit the type: {error}"),
    }
}
