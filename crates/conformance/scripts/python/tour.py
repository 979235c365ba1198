"""What people do with the Python client, on the server that KUBECONFIG names: tour.py CRD_FILE"""

import datetime
import os
import sys
import threading

import yaml
from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

GROUP, VERSION, PLURAL = "myapps.example.com", "v1", "applications"
NAMESPACE = f"python-{os.getpid()}"


def refused(code, call, *args, **kwargs):
    """Checks that a call is refused with a code, and returns the error."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == code, f"{error.status} instead of {code}: {error.body}"
        return error
    raise AssertionError(f"{call.__name__} was not refused with {code}")


def define(path):
    api = client.ApiextensionsV1Api()
    with open(path, encoding="utf-8") as file:
        body = yaml.safe_load(file)
    try:
        api.create_custom_resource_definition(body)
    except ApiException as error:
        assert error.status == 409, error.body
    name = body["metadata"]["name"]
    for event in watch.Watch().stream(
        api.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=60
    ):
        conditions = event["object"].status.conditions or []
        if any(c.type == "Established" and c.status == "True" for c in conditions):
            return
    raise AssertionError("the definition is never established")


def built_in_kinds():
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    made = core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="made-"), data={"a": "1"})
    )
    assert made.metadata.name.startswith("made-")
    name = made.metadata.name
    made.data["b"] = "2"
    changed = core.replace_namespaced_config_map(name, NAMESPACE, made)
    assert changed.metadata.resource_version != made.metadata.resource_version
    refused(409, core.replace_namespaced_config_map, name, NAMESPACE, made)
    patched = core.patch_namespaced_config_map(name, NAMESPACE, {"data": {"a": None, "c": "3"}})
    assert patched.data == {"b": "2", "c": "3"}, patched.data
    patched = core.patch_namespaced_config_map(name, NAMESPACE, [{"op": "replace", "path": "/data/b", "value": "4"}])
    assert patched.data["b"] == "4"
    listed = core.list_namespaced_config_map(NAMESPACE, field_selector=f"metadata.name={name}")
    assert [item.metadata.name for item in listed.items] == [name]
    core.delete_namespaced_config_map(name, NAMESPACE)
    refused(404, core.read_namespaced_config_map, name, NAMESPACE)

    container = client.V1Container(name="web", image="nginx:1.27")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    spec = client.V1DeploymentSpec(replicas=0, selector=selector, template=template)
    apps.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    deployment = apps.patch_namespaced_deployment("web", NAMESPACE, side)
    assert {c.name for c in deployment.spec.template.spec.containers} == {"web", "side"}
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 2}})
    assert scale.spec.replicas == 2
    apps.delete_namespaced_deployment("web", NAMESPACE)


def custom_kinds():
    api = client.CustomObjectsApi()
    place = (GROUP, VERSION, NAMESPACE, PLURAL)
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Application",
        "metadata": {"name": "web"},
        "spec": {"image": "nginx", "env": [{"name": "A", "value": "1"}]},
    }
    made = api.create_namespaced_custom_object(*place, body)
    assert made["spec"]["replicas"] == 1, made
    refused(409, api.create_namespaced_custom_object, *place, body)
    wrong = dict(body, metadata={"name": "wrong"}, spec={"image": ""})
    error = refused(422, api.create_namespaced_custom_object, *place, wrong)
    assert "spec.image" in error.body
    made["spec"]["replicas"] = 3
    made = api.replace_namespaced_custom_object(*place, "web", made)
    assert made["metadata"]["generation"] == 2
    status = dict(made, status={"phase": "Running"})
    made = api.replace_namespaced_custom_object_status(*place, "web", status)
    assert made["status"]["phase"] == "Running" and made["metadata"]["generation"] == 2
    made = api.patch_namespaced_custom_object(*place, "web", {"spec": {"strategy": "Rolling"}})
    assert made["spec"]["strategy"] == "Rolling"
    pages, token = 0, None
    for number in range(4):
        api.create_namespaced_custom_object(*place, dict(body, metadata={"name": f"many-{number}"}))
    while True:
        page = api.list_namespaced_custom_object(*place, limit=2, **({"_continue": token} if token else {}))
        pages += 1
        token = page["metadata"].get("continue")
        if not token:
            break
    assert pages == 3, pages
    api.delete_collection_namespaced_custom_object(*place)
    assert api.list_namespaced_custom_object(*place)["items"] == []


def dynamic_client():
    resource = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version=f"{GROUP}/{VERSION}", kind="Application")
    assert resource.namespaced and resource.name == PLURAL
    body = {"kind": "Application", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {"name": "dynamic"}, "spec": {"image": "a"}}
    resource.create(body=body, namespace=NAMESPACE)
    resource.patch(
        name="dynamic", namespace=NAMESPACE, body={"spec": {"image": "b"}}, content_type="application/merge-patch+json"
    )
    assert resource.get(name="dynamic", namespace=NAMESPACE).spec.image == "b"
    resource.delete(name="dynamic", namespace=NAMESPACE)


def watching():
    core = client.CoreV1Api()
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    seen = []

    def follow():
        stream = watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=60,
            label_selector="tour=watch",
        )
        for event in stream:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    meta = client.V1ObjectMeta(name="watched", labels={"tour": "watch"})
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta))
    core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"a": "1"}})
    core.delete_namespaced_config_map("watched", NAMESPACE)
    follower.join(timeout=60)
    assert seen == [("ADDED", "watched"), ("MODIFIED", "watched"), ("DELETED", "watched")], seen


def leading():
    """Two candidates for one lease: the second is refused, takes over after the first lets go."""
    api = client.CoordinationV1Api()
    now = lambda: datetime.datetime.now(datetime.timezone.utc)
    spec = client.V1LeaseSpec(holder_identity="one", lease_duration_seconds=15, acquire_time=now(), renew_time=now())
    lease = api.create_namespaced_lease(NAMESPACE, client.V1Lease(metadata=client.V1ObjectMeta(name="leader"), spec=spec))
    theirs = api.read_namespaced_lease("leader", NAMESPACE)
    lease.spec.renew_time = now()
    lease = api.replace_namespaced_lease("leader", NAMESPACE, lease)
    theirs.spec.holder_identity = "two"
    refused(409, api.replace_namespaced_lease, "leader", NAMESPACE, theirs)
    lease.spec.holder_identity = ""
    lease = api.replace_namespaced_lease("leader", NAMESPACE, lease)
    lease.spec.holder_identity, lease.spec.lease_transitions, lease.spec.renew_time = "two", 1, now()
    lease = api.replace_namespaced_lease("leader", NAMESPACE, lease)
    assert lease.spec.holder_identity == "two" and lease.spec.renew_time.microsecond is not None


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    define(sys.argv[1])
    for part in (built_in_kinds, custom_kinds, dynamic_client, watching, leading):
        print(part.__name__, flush=True)
        part()
    assert client.VersionApi().get_code().major
    core.delete_namespace(NAMESPACE)


main()
