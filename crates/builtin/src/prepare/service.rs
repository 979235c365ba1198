//! Services: address families, and addresses that an update must not lose.

use serde_json::{Value, json};

/// Sets the families of the one address that the server will give.
pub(super) fn families(service: &mut Value) {
    let spec = &mut service["spec"];
    if spec["type"] == "ExternalName" {
        return;
    }
    let headless = spec["clusterIP"] == "None";
    if let Some(address) = spec.get("clusterIP").filter(|a| a.is_string()).cloned()
        && spec.get("clusterIPs").is_none_or(Value::is_null)
    {
        spec["clusterIPs"] = json!([address]);
    }
    // A headless service without a selector may list endpoints of any family.
    let any_family = headless && spec.get("selector").is_none_or(Value::is_null);
    let policy = spec
        .get("ipFamilyPolicy")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if policy.is_empty() {
        spec["ipFamilyPolicy"] = if any_family {
            "RequireDualStack"
        } else {
            "SingleStack"
        }
        .into();
    }
    if spec
        .get("ipFamilies")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec["ipFamilies"] = if any_family {
            json!(["IPv4", "IPv6"])
        } else {
            json!(["IPv4"])
        };
    }
}

/// Fills in addresses and ports that were given before and that the update leaves out.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    let external = |spec: &Value| spec["type"] == "ExternalName";
    if external(new) || external(old) {
        return;
    }
    for member in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        super::or_copy(new, old, member);
    }
    let node_ports = |spec: &Value| matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    if !(node_ports(new) && node_ports(old)) {
        return;
    }
    let old_ports = old["ports"].as_array().cloned().unwrap_or_default();
    for port in new
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if port["nodePort"].as_i64().unwrap_or(0) == 0
            && let Some(number) = old_ports.iter().find(same).and_then(|p| p["nodePort"].as_i64())
        {
            port["nodePort"] = number.into();
        }
        if let Value::Object(map) = port {
            map.retain(|_, value| !value.is_null());
        }
    }
}
