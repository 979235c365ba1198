import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceList;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/** Objects: create, read, update, delete, subresources, lists. */
final class Writes {
  private final Tour tour;

  Writes(Tour tour) {
    this.tour = tour;
  }

  void customResourceCrud() throws Exception {
    var made = tour.create("crud");
    Tour.same("default", Tour.part(made, "spec").get("replicas"), 1);
    Tour.refused("create again", 409, "AlreadyExists", () -> tour.create("crud"));
    var wrong = Tour.application("wrong");
    wrong.setAdditionalProperty("spec", Map.of("image", ""));
    var causes = Tour.refused("wrong", 422, "Invalid", () -> tour.apps.resource(wrong).create());
    Tour.same("causes", causes, List.of("FieldValueInvalid spec.image"));
    var read = tour.apps.withName("crud").get();
    Tour.same("what was read", read, made);
    Tour.part(read, "spec").put("replicas", 3);
    var changed = tour.apps.resource(read).update();
    Tour.same("generation", changed.getMetadata().getGeneration(), 2L);
    tour.apps.withName("crud").delete();
    Tour.same("after delete", tour.apps.withName("crud").get(), null);
  }

  void builtInCrud() {
    var map = new ConfigMapBuilder().withNewMetadata().withGenerateName("made-").endMetadata().withData(Map.of("a", "1"));
    var made = tour.maps.resource(map.build()).create();
    var name = made.getMetadata().getName();
    Tour.same("length of the name", name.length(), "made-12345".length());
    tour.maps.resource(new ConfigMapBuilder(made).addToData("b", "2").build()).update();
    Tour.same("data", tour.maps.withName(name).get().getData(), Map.of("a", "1", "b", "2"));
    tour.maps.withName(name).delete();
    Tour.same("after delete", tour.maps.withName(name).get(), null);
  }

  void statusSubresource() {
    var made = tour.create("status");
    made.setAdditionalProperty("status", Map.of("phase", "Running"));
    Tour.part(made, "spec").put("image", "other");
    var changed = tour.apps.resource(made).updateStatus();
    Tour.same("phase", Tour.part(changed, "status").get("phase"), "Running");
    Tour.same("image written through status", Tour.part(changed, "spec").get("image"), "nginx");
    Tour.same("generation", changed.getMetadata().getGeneration(), 1L);
    Tour.part(changed, "status").put("phase", "Lost");
    changed = tour.apps.resource(changed).update();
    Tour.same("phase written past status", Tour.part(changed, "status").get("phase"), "Running");
    var deployment = tour.createDeployment("status");
    deployment.getStatus().setObservedGeneration(1L);
    deployment = tour.client.resource(deployment).updateStatus();
    Tour.same("observed generation", deployment.getStatus().getObservedGeneration(), 1L);
  }

  void scaleSubresource() {
    tour.create("scale");
    var scale = tour.apps.withName("scale").scale();
    Tour.same("kind", scale.getApiVersion() + " " + scale.getKind(), "autoscaling/v1 Scale");
    scale.getSpec().setReplicas(5);
    tour.apps.withName("scale").scale(scale);
    Tour.same("replicas", Tour.part(tour.apps.withName("scale").get(), "spec").get("replicas"), 5);
    tour.createDeployment("scale");
    var deployment = tour.client.apps().deployments().inNamespace(tour.namespace).withName("scale");
    var wanted = deployment.scale();
    wanted.getSpec().setReplicas(2);
    deployment.scale(wanted);
    Tour.same("replicas", deployment.get().getSpec().getReplicas(), 2);
  }

  void pagesAndSelectors() throws Exception {
    for (int number = 0; number < 5; number++) {
      var app = Tour.application("page-" + number);
      app.getMetadata().setLabels(Map.of("check", "pages", "tier", number % 2 == 0 ? "front" : "back"));
      tour.apps.resource(app).create();
    }
    var pages = new ArrayList<List<String>>();
    var versions = new HashSet<String>();
    var options = new ListOptionsBuilder().withLimit(2L).withLabelSelector("check=pages");
    String more;
    do {
      var page = tour.apps.list(options.build());
      pages.add(names(page));
      versions.add(page.getMetadata().getResourceVersion());
      more = page.getMetadata().getContinue();
      options.withContinue(more);
    } while (more != null && !more.isEmpty());
    Tour.same("pages", pages, List.of(List.of("page-0", "page-1"), List.of("page-2", "page-3"), List.of("page-4")));
    Tour.same("versions of the pages", versions.size(), 1);
    var tiers = tour.apps.withLabel("check", "pages").withLabelIn("tier", "back", "middle");
    Tour.same("in", names(tiers.list()), List.of("page-1", "page-3"));
    var others = tour.apps.withLabel("check", "pages").withLabelNotIn("tier", "back");
    Tour.same("notin", names(others.withoutField("metadata.name", "page-4").list()), List.of("page-0", "page-2"));
    Tour.same("none", names(tour.apps.withLabel("check").withoutLabel("tier").list()), List.of());
    Tour.same("by name", names(tour.apps.withField("metadata.name", "page-3").list()), List.of("page-3"));
    var nonsense = new ListOptionsBuilder().withLimit(2L).withContinue("nonsense").build();
    Tour.refused("a nonsense page", 400, "BadRequest", () -> tour.apps.list(nonsense));
  }

  private static List<String> names(GenericKubernetesResourceList list) {
    return list.getItems().stream().map(item -> item.getMetadata().getName()).toList();
  }

  void staleUpdateConflicts() throws Exception {
    var ours = tour.create("stale");
    var theirs = tour.apps.withName("stale").get();
    Tour.part(theirs, "spec").put("image", "theirs");
    tour.apps.resource(theirs).update();
    Tour.part(ours, "spec").put("replicas", 2);
    Tour.refused("stale update", 409, "Conflict", () -> tour.apps.resource(ours).update());
    GenericKubernetesResource fresh = tour.apps.withName("stale").get();
    Tour.part(fresh, "spec").put("replicas", 2);
    fresh = tour.apps.resource(fresh).update();
    Tour.same("spec", Tour.part(fresh, "spec"), Map.of("image", "theirs", "replicas", 2));
  }

  void finalizerHoldsDeletion() throws Exception {
    var held = Tour.application("held");
    held.getMetadata().setFinalizers(List.of("myapps.example.com/cleanup"));
    var made = tour.apps.resource(held).create();
    Tour.refused("delete of another version", 409, "Conflict",
        () -> tour.apps.withName("held").lockResourceVersion("1").delete());
    tour.apps.withName("held").lockResourceVersion(made.getMetadata().getResourceVersion()).delete();
    var marked = tour.apps.withName("held").require();
    Tour.same("marked as being deleted", marked.getMetadata().getDeletionTimestamp() != null, true);
    var merge = PatchContext.of(PatchType.JSON_MERGE);
    var late = "{\"metadata\": {\"finalizers\": [\"myapps.example.com/cleanup\", \"myapps.example.com/late\"]}}";
    Tour.refused("a late finalizer", 422, "Invalid", () -> tour.apps.withName("held").patch(merge, late));
    tour.apps.withName("held").patch(merge, "{\"metadata\": {\"finalizers\": null}}");
    Tour.same("after the finalizer", tour.apps.withName("held").get(), null);
  }
}
