"""What people do with the Python client, on the server that KUBECONFIG names: tour.py CRD_FILE

Every check prints one line, "ok <check>" or "not ok <check>: why". The names are those of the other clients; the test
that runs this program knows them.
"""

import copy
import json
import os
import sys
import threading
import traceback

import yaml
from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

GROUP, VERSION, PLURAL = "myapps.example.com", "v1", "applications"
NAMESPACE = f"python-{os.getpid()}"
PLACE = (GROUP, VERSION, NAMESPACE, PLURAL)
# The limit of one wait: nothing here needs it, on a loaded machine either.
PATIENCE = 60
CHECKS = []


def check(run):
    CHECKS.append(run)
    return run


def same(what, got, want):
    assert got == want, f"{what} is {got!r}, not {want!r}"


def refused(code, reason, call, *args, **kwargs):
    """Checks that a call is refused with a code and a reason, and returns the Status."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        status = json.loads(error.body)
        same(call.__name__, (error.status, status.get("reason")), (code, reason))
        return status
    raise AssertionError(f"{call.__name__} was not refused with {code}")


def causes(status):
    return [f"{cause['reason']} {cause['field']}" for cause in status["details"]["causes"]]


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
        api.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=PATIENCE
    ):
        conditions = event["object"].status.conditions or []
        if any(c.type == "Established" and c.status == "True" for c in conditions):
            return
    raise AssertionError("the definition is never established")


def application(name, **metadata):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Application",
        "metadata": {"name": name, **metadata},
        "spec": {"image": "nginx"},
    }


def create(name, **metadata):
    return client.CustomObjectsApi().create_namespaced_custom_object(*PLACE, application(name, **metadata))


def create_map(name, data):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)
    return client.CoreV1Api().create_namespaced_config_map(NAMESPACE, body)


def create_deployment(name):
    """Makes one without pods: nothing runs them here."""
    container = client.V1Container(name="web", image="nginx:1.27")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": name}), spec=client.V1PodSpec(containers=[container])
    )
    selector = client.V1LabelSelector(match_labels={"app": name})
    spec = client.V1DeploymentSpec(replicas=0, selector=selector, template=template)
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)
    return client.AppsV1Api().create_namespaced_deployment(NAMESPACE, body)


def patch(name, body, content_type, **options):
    """Patches a custom resource with a patch of that type."""
    return client.CustomObjectsApi().patch_namespaced_custom_object(
        *PLACE, name, body, _content_type=content_type, **options
    )


MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


@check
def custom_resource_crud():
    api = client.CustomObjectsApi()
    made = create("crud")
    same("default", made["spec"]["replicas"], 1)
    refused(409, "AlreadyExists", create, "crud")
    wrong = dict(application("wrong"), spec={"image": ""})
    status = refused(422, "Invalid", api.create_namespaced_custom_object, *PLACE, wrong)
    same("causes", causes(status), ["FieldValueInvalid spec.image"])
    same("what was read", api.get_namespaced_custom_object(*PLACE, "crud"), made)
    made["spec"]["replicas"] = 3
    made = api.replace_namespaced_custom_object(*PLACE, "crud", made)
    same("generation", made["metadata"]["generation"], 2)
    api.delete_namespaced_custom_object(*PLACE, "crud")
    refused(404, "NotFound", api.get_namespaced_custom_object, *PLACE, "crud")


@check
def built_in_crud():
    core = client.CoreV1Api()
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="made-"), data={"a": "1"})
    made = core.create_namespaced_config_map(NAMESPACE, body)
    name = made.metadata.name
    same("length of the name", len(name), len("made-12345"))
    made.data["b"] = "2"
    core.replace_namespaced_config_map(name, NAMESPACE, made)
    same("data", core.read_namespaced_config_map(name, NAMESPACE).data, {"a": "1", "b": "2"})
    core.delete_namespaced_config_map(name, NAMESPACE)
    refused(404, "NotFound", core.read_namespaced_config_map, name, NAMESPACE)


@check
def json_patch():
    create("json")
    test = {"op": "test", "path": "/spec/image", "value": "nginx"}
    changes = [test, {"op": "replace", "path": "/spec/image", "value": "httpd"}]
    same("image", patch("json", changes, JSON)["spec"]["image"], "httpd")
    refused(422, "Invalid", patch, "json", [test], JSON)
    create_map("json", {"a": "1"})
    # A list is taken as a JSON patch without being told.
    changes = [{"op": "add", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/a"}]
    same("data", client.CoreV1Api().patch_namespaced_config_map("json", NAMESPACE, changes).data, {"b": "2"})


@check
def merge_patch():
    create("merge")
    patch("merge", {"spec": {"strategy": "Rolling", "replicas": 2}}, MERGE)
    same("spec", patch("merge", {"spec": {"strategy": None}}, MERGE)["spec"], {"image": "nginx", "replicas": 2})
    create_map("merge", {"a": "1", "b": "2"})
    changed = client.CoreV1Api().patch_namespaced_config_map(
        "merge", NAMESPACE, {"data": {"a": None, "c": "3"}}, _content_type=MERGE
    )
    same("data", changed.data, {"b": "2", "c": "3"})


@check
def strategic_merge_patch():
    create_deployment("strategic")

    def containers(changes):
        body = {"spec": {"template": {"spec": {"containers": changes}}}}
        changed = client.AppsV1Api().patch_namespaced_deployment(
            "strategic", NAMESPACE, body, _content_type=STRATEGIC
        )
        return [f"{c.name}={c.image}" for c in changed.spec.template.spec.containers]

    merged = containers([{"name": "side", "image": "side:1"}, {"name": "web", "image": "nginx:1.28"}])
    same("merged containers", merged, ["side=side:1", "web=nginx:1.28"])
    same("containers that remain", containers([{"name": "side", "$patch": "delete"}]), ["web=nginx:1.28"])
    create("strategic")
    refused(415, "UnsupportedMediaType", patch, "strategic", {"spec": {"image": "a"}}, STRATEGIC)


@check
def server_side_apply():
    def apply(manager, spec, force=False):
        body = dict(application("applied"), spec=spec)
        return patch("applied", body, APPLY, field_manager=manager, force=force)

    apply("one", {"image": "a", "strategy": "Rolling", "env": [{"name": "A", "value": "1"}]})
    theirs = {"image": "a", "env": [{"name": "B", "value": "2"}]}
    both = apply("two", theirs)
    same("env", [item["name"] for item in both["spec"]["env"]], ["A", "B"])
    theirs["image"] = "b"
    status = refused(409, "Conflict", apply, "two", theirs)
    same("causes", causes(status), ["FieldManagerConflict .spec.image"])
    same("forced", apply("two", theirs, force=True)["spec"]["image"], "b")
    left = apply("one", {"env": [{"name": "A", "value": "1"}]})
    same("strategy", left["spec"].get("strategy"), None)
    same("image", left["spec"]["image"], "b")
    # Entries are in the order of their times, in seconds.
    managers = [f"{entry['manager']} {entry['operation']}" for entry in left["metadata"]["managedFields"]]
    same("managers", sorted(managers), ["one Apply", "two Apply"])
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    call = lambda: client.CoreV1Api().patch_namespaced_config_map(
        "applied", NAMESPACE, body, _content_type=APPLY, field_manager="one"
    )
    same("version after the same apply", call().metadata.resource_version, call().metadata.resource_version)


@check
def status_subresource():
    api = client.CustomObjectsApi()
    body = dict(create("status"), status={"phase": "Running"}, spec={"image": "other"})
    made = api.replace_namespaced_custom_object_status(*PLACE, "status", body)
    same("phase", made["status"]["phase"], "Running")
    same("image written through status", made["spec"]["image"], "nginx")
    same("generation", made["metadata"]["generation"], 1)
    made["status"]["phase"] = "Lost"
    made = api.replace_namespaced_custom_object(*PLACE, "status", made)
    same("phase written past status", made["status"]["phase"], "Running")
    deployment = create_deployment("status")
    deployment.status.observed_generation = 1
    deployment = client.AppsV1Api().replace_namespaced_deployment_status("status", NAMESPACE, deployment)
    same("observed generation", deployment.status.observed_generation, 1)


@check
def scale_subresource():
    api, apps = client.CustomObjectsApi(), client.AppsV1Api()
    create("scale")
    scale = api.get_namespaced_custom_object_scale(*PLACE, "scale")
    same("kind", scale["kind"], "Scale")
    scale["spec"]["replicas"] = 5
    api.replace_namespaced_custom_object_scale(*PLACE, "scale", scale)
    same("replicas", api.get_namespaced_custom_object(*PLACE, "scale")["spec"]["replicas"], 5)
    create_deployment("scale")
    wanted = apps.read_namespaced_deployment_scale("scale", NAMESPACE)
    wanted.spec.replicas = 2
    apps.replace_namespaced_deployment_scale("scale", NAMESPACE, wanted)
    same("replicas", apps.read_namespaced_deployment("scale", NAMESPACE).spec.replicas, 2)


def names(**query):
    found = client.CustomObjectsApi().list_namespaced_custom_object(*PLACE, **query)
    return [item["metadata"]["name"] for item in found["items"]]


@check
def pages_and_selectors():
    api = client.CustomObjectsApi()
    for number in range(5):
        create(f"page-{number}", labels={"check": "pages", "tier": ["front", "back"][number % 2]})
    pages, versions, more = [], set(), {}
    while True:
        page = api.list_namespaced_custom_object(*PLACE, limit=2, label_selector="check=pages", **more)
        pages.append([item["metadata"]["name"] for item in page["items"]])
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue")
        if not token:
            break
        more = {"_continue": token}
    same("pages", pages, [["page-0", "page-1"], ["page-2", "page-3"], ["page-4"]])
    same("versions of the pages", len(versions), 1)
    same("in", names(label_selector="check=pages,tier in (back, middle)"), ["page-1", "page-3"])
    both = names(label_selector="check=pages,tier notin (back)", field_selector="metadata.name!=page-4")
    same("notin", both, ["page-0", "page-2"])
    same("none", names(label_selector="check,!tier"), [])
    same("by name", names(field_selector="metadata.name=page-3"), ["page-3"])
    refused(400, "BadRequest", names, limit=2, _continue="nonsense")
    api.delete_collection_namespaced_custom_object(*PLACE, label_selector="check=pages")
    same("after the collection is deleted", names(label_selector="check=pages"), [])


@check
def stale_update_conflicts():
    api = client.CustomObjectsApi()
    ours = create("stale")
    theirs = copy.deepcopy(ours)
    theirs["spec"]["image"] = "theirs"
    api.replace_namespaced_custom_object(*PLACE, "stale", theirs)
    ours["spec"]["replicas"] = 2
    refused(409, "Conflict", api.replace_namespaced_custom_object, *PLACE, "stale", ours)
    ours = api.get_namespaced_custom_object(*PLACE, "stale")
    ours["spec"]["replicas"] = 2
    ours = api.replace_namespaced_custom_object(*PLACE, "stale", ours)
    same("spec", ours["spec"], {"image": "theirs", "replicas": 2})


@check
def finalizer_holds_deletion():
    api = client.CustomObjectsApi()
    made = create("held", finalizers=["myapps.example.com/cleanup"])
    delete = lambda uid: api.delete_namespaced_custom_object(
        *PLACE, "held", body=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=uid))
    )
    refused(409, "Conflict", delete, "another")
    delete(made["metadata"]["uid"])
    held = api.get_namespaced_custom_object(*PLACE, "held")
    assert held["metadata"].get("deletionTimestamp"), "it is not marked as being deleted"
    more = {"metadata": {"finalizers": ["myapps.example.com/cleanup", "myapps.example.com/late"]}}
    refused(422, "Invalid", patch, "held", more, MERGE)
    patch("held", {"metadata": {"finalizers": None}}, MERGE)
    refused(404, "NotFound", api.get_namespaced_custom_object, *PLACE, "held")


def events(version, **query):
    """Events of custom resources since a version."""
    stream = watch.Watch().stream(
        client.CustomObjectsApi().list_namespaced_custom_object,
        *PLACE, resource_version=version, timeout_seconds=PATIENCE, **query,
    )
    for event in stream:
        # A watch of dictionaries gives an error that is not 410 as an event.
        assert event["type"] != "ERROR", event
        yield event


@check
def watch_resumes():
    version = client.CustomObjectsApi().list_namespaced_custom_object(*PLACE)["metadata"]["resourceVersion"]
    create("watched", labels={"check": "watch"})
    first = next(events(version, label_selector="check=watch"))
    # Nobody watches while these happen.
    patch("watched", {"spec": {"replicas": 2}}, MERGE)
    client.CustomObjectsApi().delete_namespaced_custom_object(*PLACE, "watched")
    seen = [first]
    for event in events(first["object"]["metadata"]["resourceVersion"], label_selector="check=watch"):
        seen.append(event)
        if event["type"] == "DELETED":
            break
    told = [(event["type"], event["object"]["spec"]["replicas"]) for event in seen]
    same("events", told, [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)])


@check
def watch_from_expired_version():
    """Everything since the first revision, which no server has any more; then anew from a list."""
    create("anew")
    try:
        event = next(events("1"))
        raise AssertionError(f"{event['type']} instead of 410")
    except ApiException as error:
        same("code", error.status, 410)
        assert error.reason.startswith("Expired: "), error.reason
    listed = client.CustomObjectsApi().list_namespaced_custom_object(*PLACE)
    client.CustomObjectsApi().delete_namespaced_custom_object(*PLACE, "anew")
    event = next(events(listed["metadata"]["resourceVersion"]))
    same("event", (event["type"], event["object"]["metadata"]["name"]), ("DELETED", "anew"))


@check
def dynamic_client():
    kinds = dynamic.DynamicClient(client.ApiClient()).resources
    resource = kinds.get(api_version=f"{GROUP}/{VERSION}", kind="Application")
    assert resource.namespaced and resource.name == PLURAL
    resource.create(body=application("dynamic"), namespace=NAMESPACE)
    resource.patch(name="dynamic", namespace=NAMESPACE, body={"spec": {"image": "b"}}, content_type=MERGE)
    same("image", resource.get(name="dynamic", namespace=NAMESPACE).spec.image, "b")
    resource.delete(name="dynamic", namespace=NAMESPACE)


class Contender:
    """Runs for the lease; dies when told to, without giving it back: the library has no release."""

    def __init__(self, identity):
        self.leads, self.dies, self.done = threading.Event(), threading.Event(), threading.Event()

        def lead():
            self.leads.set()
            self.dies.wait()
            raise RuntimeError(f"{identity} dies, as the check wants")

        lock = LeaseLock("leader", NAMESPACE, identity)
        # The library takes no shorter times than these.
        settings = electionconfig.Config(
            lock, lease_duration=3, renew_deadline=2, retry_period=1,
            onstarted_leading=lead, onstopped_leading=self.done.set,
        )
        threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()

    def die(self):
        self.dies.set()
        assert self.done.wait(PATIENCE), "it never stops"


@check
def leader_election():
    """One acquires and renews a lease and dies, two takes it over and gives it back, three has it at once."""
    api = client.CoordinationV1Api()
    seen = watch.Watch().stream(
        api.list_namespaced_lease, NAMESPACE, field_selector="metadata.name=leader", timeout_seconds=PATIENCE
    )

    def until(wanted):
        for event in seen:
            if wanted(event["object"].spec):
                return event["object"]
        raise AssertionError("the watch ended first")

    one = Contender("one")
    assert one.leads.wait(PATIENCE), "one never leads"
    two = Contender("two")
    acquired = until(lambda spec: True).spec
    same("holder", acquired.holder_identity, "one")
    # Longer than the lease lasts: without renewals the second would have it by then.
    renewed = until(lambda spec: (spec.renew_time - acquired.renew_time).total_seconds() > 3.5)
    same("holder after renewals", renewed.spec.holder_identity, "one")
    assert not two.leads.is_set(), "two leads"
    one.die()
    assert two.leads.wait(PATIENCE), "two never leads"
    until(lambda spec: spec.holder_identity == "two")
    two.die()
    lease = api.read_namespaced_lease("leader", NAMESPACE)
    lease.spec.holder_identity = None
    api.replace_namespaced_lease("leader", NAMESPACE, lease)
    three = Contender("three")
    assert three.leads.wait(PATIENCE), "three never leads"
    three.die()


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    define(sys.argv[1])
    failed = False
    for run in CHECKS:
        try:
            run()
            print("ok", run.__name__, flush=True)
        except Exception as error:
            failed = True
            traceback.print_exc()
            why = " ".join(str(error).split()) or type(error).__name__
            print(f"not ok {run.__name__}: {why}", flush=True)
    core.delete_namespace(NAMESPACE)
    sys.exit(failed)


main()
