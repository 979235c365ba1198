//! The one who writes, through faults of its own and a client that tries again where that is safe.

use serde_json::Value;
use skopos_client::{Answer, Api, Error};
use skopos_testkit::Faults;

pub(crate) struct Writer {
    api: Api,
    faults: Faults,
}

/// After so many attempts nothing goes wrong any more.
const ATTEMPTS: usize = 5;

impl Writer {
    pub(crate) fn new(api: Api, faults: Faults) -> Self {
        Self { api, faults }
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Creates an object, once whatever happens.
    pub(crate) async fn create(&self, object: &Value) -> Result<Answer, Error> {
        self.within(object).create(object, &Default::default()).await
    }

    /// Brings the object of this name to this state, as a careful client does: after a failure it looks what is there.
    pub(crate) async fn put(&self, object: &Value) -> Value {
        for _ in 0..ATTEMPTS {
            if let Ok(written) = self.try_put(object).await {
                return written;
            }
        }
        self.faults.pause();
        let written = self.try_put(object).await;
        self.faults.resume();
        written.unwrap()
    }

    async fn try_put(&self, object: &Value) -> Result<Value, Error> {
        let api = self.within(object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let written = match api.find(name).await? {
            None => api.create(object, &Default::default()).await?,
            // It was done, and only the answer was lost.
            Some(there) if there["spec"] == object["spec"] => return Ok(there),
            Some(there) => {
                let mut object = object.clone();
                object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
                api.update(name, &object, &Default::default()).await?
            }
        };
        Ok(written.value)
    }

    fn within(&self, object: &Value) -> Api {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        Api::namespaced(self.api.client(), self.api.resource(), namespace)
    }
}
