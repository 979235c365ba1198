//! Volume claims: only those may ask for more whose class says that its volumes can grow.

use serde_json::Value;
use skopos_object::raw_path;
use skopos_store::Store;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether an update of a claim that is valid may be stored.
///
/// # Errors
/// Why the claim may not ask for more.
pub(crate) fn admit_growth(store: &Store, new: &Value, old: &Value) -> Result<(), &'static str> {
    if !skopos_builtin::claim_grows(new, old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let class = class_of(new);
    if class.is_empty() || class != class_of(old) || !can_grow(store, class) {
        return Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        );
    }
    Ok(())
}

fn class_of(claim: &Value) -> &str {
    let annotated = claim["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    annotated
        .or(claim["spec"]["storageClassName"].as_str())
        .unwrap_or_default()
}

fn can_grow(store: &Store, class: &str) -> bool {
    let class = store.get("storage.k8s.io/storageclasses", class);
    class.is_some_and(|entry| raw_path(&entry.value, &["allowVolumeExpansion"]) == Some(b"true"))
}
