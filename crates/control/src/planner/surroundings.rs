//! What surrounds rules and sinks, and where they are looked for.

use std::{ffi::OsString, sync::Arc, time::Duration};

use skopos_client::Client;
use skopos_journal::{Journal, Retention};
use skopos_object::Collections;
use skopos_sink::Allowed;

/// What surrounds rules and sinks.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) client: Option<Client>,
    pub(crate) collections: Arc<dyn Collections>,
    /// What was captured, also of kinds that nothing serves any more.
    pub(crate) journal: Journal,
    /// What sinks of a cluster may do on this machine; those from files may do all.
    pub(crate) allowed: Allowed,
    pub(crate) search_path: Option<OsString>,
    pub(crate) env: fn(&str) -> Option<String>,
    pub(crate) retention: Retention,
    /// How often the values that sinks name are looked at.
    pub(crate) look_every: Duration,
    /// How often the rights of service accounts are looked at.
    pub(crate) review_every: Duration,
    /// Where rules, sinks and records are looked for.
    pub(crate) origins: Origins,
    /// The namespaces that are looked at; all if there are none.
    pub(crate) namespaces: Vec<String>,
}

/// Where rules, sinks and records are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origins {
    pub(crate) cluster: bool,
    pub(crate) files: bool,
}

impl Surroundings {
    /// Whether something of this name, as `namespace/name`, and origin would be found if it were there.
    pub(super) fn looks_for(&self, name: &str, is_from_file: bool) -> bool {
        match is_from_file {
            true => self.origins.files,
            false => self.origins.cluster && is_within(name, &self.namespaces),
        }
    }
}

/// Whether something is in one of the namespaces; no namespaces stand for all.
fn is_within(name: &str, namespaces: &[String]) -> bool {
    let own = name.split_once('/').map(|(namespace, _)| namespace);
    namespaces.is_empty() || namespaces.iter().any(|one| Some(one.as_str()) == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespaces_stand_for_all() {
        let some = ["shop".to_owned(), "billing".to_owned()];
        assert!(is_within("other/rule", &[]));
        assert!(is_within("billing/rule", &some));
        assert!(!is_within("bill/rule", &some));
    }
}
