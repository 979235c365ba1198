//! Who an object belongs to: owner references.

use serde_json::{Value, json};
use skopos_object::{Object, ObjectKey, OwnerReference};

use crate::Error;

/// The reference by which `owner` controls another object.
pub fn controller_reference(owner: &Object) -> Value {
    json!({
        "apiVersion": owner.api_version(),
        "kind": owner.kind(),
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The controller of an object, if it has one.
pub fn controller_of(object: &Object) -> Option<OwnerReference> {
    object.owners().find(|owner| owner.controller)
}

/// Makes `owner` the controller of `object`, an object that is about to be applied.
///
/// An owner that lives in a namespace may own only objects of the same one: any other would be garbage at once.
pub(crate) fn set_controller(owner: &Object, object: &mut Value) -> Result<(), Error> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    if !owner.namespace().is_empty() && namespace != owner.namespace() {
        return Err(Error::Invalid(format!(
            "{} {} cannot be owned by {} {}: an owner in a namespace owns only objects of the same one",
            object["kind"].as_str().unwrap_or_default(),
            text_key(object),
            owner.kind(),
            owner.key(),
        )));
    }
    let reference = controller_reference(owner);
    let mut references = metadata["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if let Some(other) = references
        .iter()
        .find(|r| is_controller(r) && r["uid"] != reference["uid"])
    {
        return Err(Error::ControlledByOther {
            object: text_key(object),
            owner: format!(
                "{} {}",
                other["kind"].as_str().unwrap_or_default(),
                other["name"].as_str().unwrap_or_default()
            ),
        });
    }
    references.retain(|r| r["uid"] != reference["uid"]);
    references.push(reference);
    object["metadata"]["ownerReferences"] = references.into();
    Ok(())
}

/// Refuses to write to a live object that another controller has.
pub(crate) fn check_controller(owner: &Object, live: &Object) -> Result<(), Error> {
    match controller_of(live) {
        Some(other) if other.uid != owner.uid() => Err(Error::ControlledByOther {
            object: format!("{} {}", live.kind(), live.key()),
            owner: format!("{} {}", other.kind, other.name),
        }),
        _ => Ok(()),
    }
}

fn is_controller(reference: &Value) -> bool {
    reference["controller"] == true
}

fn text_key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::namespaced(text("namespace"), text("name")).to_string()
}

#[cfg(test)]
mod tests {
    use skopos_testkit::{object, value};

    use super::*;

    fn app() -> Object {
        object("{apiVersion: x.io/v1, kind: App, metadata: {name: web, namespace: shop, uid: u-1}}")
    }

    #[test]
    fn sets_one_controller_and_keeps_other_owners() {
        let mut child = value(
            "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop,
              ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: u-9}]}}",
        );
        set_controller(&app(), &mut child).unwrap();
        set_controller(&app(), &mut child).unwrap();
        let references = child["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(references.len(), 2);
        assert_eq!(references[1]["uid"], "u-1");
        assert_eq!(references[1]["controller"], true);
    }

    #[test]
    fn refuses_an_owner_of_another_namespace() {
        for metadata in ["{name: web, namespace: other}", "{name: web}"] {
            let mut child = value(&format!(
                "{{apiVersion: v1, kind: Service, metadata: {metadata}}}"
            ));
            let error = set_controller(&app(), &mut child).unwrap_err();
            assert!(
                error.to_string().contains("owns only objects of the same one"),
                "{error}"
            );
        }
    }

    #[test]
    fn refuses_what_another_controls() {
        let other = "{apiVersion: x.io/v1, kind: App, name: other, uid: u-2, controller: true}";
        let text = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: shop, ownerReferences: [{other}]}}}}"
        );
        let error = set_controller(&app(), &mut value(&text)).unwrap_err();
        assert_eq!(error.to_string(), "shop/web is controlled by App other");
        let error = check_controller(&app(), &object(&text)).unwrap_err();
        assert_eq!(error.to_string(), "Service shop/web is controlled by App other");
    }
}
