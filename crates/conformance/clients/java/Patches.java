import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.util.List;
import java.util.Map;

/** Every type of patch. */
final class Patches {
  private final Tour tour;

  Patches(Tour tour) {
    this.tour = tour;
  }

  private GenericKubernetesResource patch(String name, PatchType type, String patch) {
    return tour.apps.withName(name).patch(PatchContext.of(type), patch);
  }

  void json() throws Exception {
    tour.create("json");
    var test = "{\"op\": \"test\", \"path\": \"/spec/image\", \"value\": \"nginx\"}";
    var replace = "{\"op\": \"replace\", \"path\": \"/spec/image\", \"value\": \"httpd\"}";
    var app = patch("json", PatchType.JSON, "[" + test + ", " + replace + "]");
    Tour.same("image", Tour.part(app, "spec").get("image"), "httpd");
    Tour.refused("a test that fails", 422, "Invalid", () -> patch("json", PatchType.JSON, "[" + test + "]"));
    tour.createMap("json", Map.of("a", "1"));
    var changes = "[{\"op\": \"add\", \"path\": \"/data/b\", \"value\": \"2\"}, {\"op\": \"remove\", \"path\": \"/data/a\"}]";
    var map = tour.maps.withName("json").patch(PatchContext.of(PatchType.JSON), changes);
    Tour.same("data", map.getData(), Map.of("b", "2"));
  }

  void merge() {
    tour.create("merge");
    patch("merge", PatchType.JSON_MERGE, "{\"spec\": {\"strategy\": \"Rolling\", \"replicas\": 2}}");
    var app = patch("merge", PatchType.JSON_MERGE, "{\"spec\": {\"strategy\": null}}");
    Tour.same("spec", Tour.part(app, "spec"), Map.of("image", "nginx", "replicas", 2));
    tour.createMap("merge", Map.of("a", "1", "b", "2"));
    var changes = "{\"data\": {\"a\": null, \"c\": \"3\"}}";
    var map = tour.maps.withName("merge").patch(PatchContext.of(PatchType.JSON_MERGE), changes);
    Tour.same("data", map.getData(), Map.of("b", "2", "c", "3"));
  }

  private List<String> patchContainers(String containers) {
    var patch = "{\"spec\": {\"template\": {\"spec\": {\"containers\": " + containers + "}}}}";
    var deployments = tour.client.apps().deployments().inNamespace(tour.namespace);
    var changed = deployments.withName("strategic").patch(PatchContext.of(PatchType.STRATEGIC_MERGE), patch);
    return changed.getSpec().getTemplate().getSpec().getContainers().stream()
        .map(container -> container.getName() + "=" + container.getImage()).toList();
  }

  void strategicMerge() throws Exception {
    tour.createDeployment("strategic");
    var merged = patchContainers(
        "[{\"name\": \"side\", \"image\": \"side:1\"}, {\"name\": \"web\", \"image\": \"nginx:1.28\"}]");
    Tour.same("merged containers", merged, List.of("side=side:1", "web=nginx:1.28"));
    var left = patchContainers("[{\"name\": \"side\", \"$patch\": \"delete\"}]");
    Tour.same("containers that remain", left, List.of("web=nginx:1.28"));
    tour.create("strategic");
    Tour.refused("a strategic patch of a custom resource", 415, "UnsupportedMediaType",
        () -> patch("strategic", PatchType.STRATEGIC_MERGE, "{\"spec\": {\"image\": \"a\"}}"));
  }

  private static PatchContext applyBy(String manager, boolean force) {
    return new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY)
        .withFieldManager(manager).withForce(force).build();
  }

  private GenericKubernetesResource apply(String manager, boolean force, Map<String, Object> spec) {
    var app = Tour.application("applied");
    app.setAdditionalProperty("spec", spec);
    return tour.apps.resource(app).patch(applyBy(manager, force));
  }

  void serverSideApply() throws Exception {
    var ours = List.of(Map.of("name", "A", "value", "1"));
    var theirs = List.of(Map.of("name", "B", "value", "2"));
    apply("one", false, Map.of("image", "a", "strategy", "Rolling", "env", ours));
    var both = apply("two", false, Map.of("image", "a", "env", theirs));
    Tour.same("env", Tour.part(both, "spec").get("env"), List.of(ours.get(0), theirs.get(0)));
    var causes = Tour.refused("another's field", 409, "Conflict",
        () -> apply("two", false, Map.of("image", "b", "env", theirs)));
    Tour.same("causes", causes, List.of("FieldManagerConflict .spec.image"));
    var forced = apply("two", true, Map.of("image", "b", "env", theirs));
    Tour.same("forced", Tour.part(forced, "spec").get("image"), "b");
    var left = apply("one", false, Map.of("env", ours));
    Tour.same("strategy", Tour.part(left, "spec").get("strategy"), null);
    Tour.same("image", Tour.part(left, "spec").get("image"), "b");
    var managers = left.getMetadata().getManagedFields().stream()
        // Entries are in the order of their times, in seconds.
        .map(entry -> entry.getManager() + " " + entry.getOperation()).sorted().toList();
    Tour.same("managers", managers, List.of("one Apply", "two Apply"));
    var map = new ConfigMapBuilder().withNewMetadata().withName("applied").endMetadata().withData(Map.of("a", "1")).build();
    var made = tour.maps.resource(map).patch(applyBy("one", false));
    var again = tour.maps.resource(map).patch(applyBy("one", false));
    Tour.same("version after the same apply",
        again.getMetadata().getResourceVersion(), made.getMetadata().getResourceVersion());
  }
}
