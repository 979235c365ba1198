//! What creation and updates may and may not change.

use super::*;

fn kind(plural: &str) -> &'static Kind {
    crate::kinds().iter().find(|k| k.plural == plural).unwrap()
}

#[test]
fn a_new_object_cannot_bring_its_status() {
    let mut deployment = json!({"metadata": {}, "spec": {}, "status": {"replicas": 5}});
    prepare_create(kind("deployments"), &mut deployment);
    assert_eq!(deployment["status"], json!({}));
    let mut node = json!({"metadata": {}, "status": {"capacity": {"cpu": "4"}}});
    prepare_create(kind("nodes"), &mut node);
    assert_eq!(node["status"]["capacity"]["cpu"], "4");
}

#[test]
fn an_update_keeps_the_status_and_a_status_update_keeps_the_rest() {
    let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
    let changed =
        json!({"metadata": {"labels": {"c": "d"}}, "spec": {"replicas": 2}, "status": {"replicas": 2}});
    let mut new = changed.clone();
    prepare_update(kind("deployments"), &mut new, &old);
    assert_eq!(
        new,
        json!({"metadata": {"labels": {"c": "d"}}, "spec": {"replicas": 2}, "status": {"replicas": 1}})
    );
    let mut new = changed;
    prepare_status_update(kind("deployments"), &mut new, &old);
    assert_eq!(
        new,
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}, "status": {"replicas": 2}})
    );
}

#[test]
fn a_job_gets_a_selector_from_its_uid() {
    let mut job =
        json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {}}}, "status": {}});
    prepare_create(kind("jobs"), &mut job);
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
}

#[test]
fn a_service_keeps_its_address_and_node_ports() {
    let old = json!({"metadata": {}, "spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}, "status": {"loadBalancer": {}}});
    let mut new =
        json!({"metadata": {}, "spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
    prepare_update(kind("services"), &mut new, &old);
    assert_eq!(new, old);
}

#[test]
fn a_service_gives_up_what_its_new_type_has_no_use_for() {
    let old = json!({"metadata": {}, "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "allocateLoadBalancerNodePorts": true,
        "loadBalancerClass": "x.example.com/y", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
        "ports": [{"port": 80, "nodePort": 30000}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let changed = |spec: Value| {
        let mut new = old.clone();
        new["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        prepare_update(kind("services"), &mut new, &old);
        new
    };
    let inside = changed(json!({"type": "ClusterIP"}));
    let spec = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]});
    assert_eq!(
        (&inside["spec"], &inside["status"]),
        (&spec, &json!({"loadBalancer": {}}))
    );
    let outside = changed(json!({"type": "ExternalName"}));
    assert_eq!(
        outside["spec"],
        json!({"type": "ExternalName", "ports": [{"port": 80}]})
    );
    // What the update itself asks for stays, to be refused.
    let asked = changed(json!({"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30009}]}));
    assert_eq!(asked["spec"]["ports"][0]["nodePort"], 30009);
}

#[test]
fn only_changes_of_the_wanted_state_raise_the_generation() {
    let old = json!({"metadata": {"labels": {}}, "spec": {"a": 1}, "status": {"b": 1}});
    let change = |pointer: &str| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = json!({"x": 2});
        changes_generation(kind("statefulsets"), &new, &old)
    };
    assert!(change("/spec") && !change("/status") && !change("/metadata/labels"));
    assert!(!has_generation(kind("configmaps")));
}
