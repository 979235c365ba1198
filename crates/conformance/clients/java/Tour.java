import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceList;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.StatusCause;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.NonNamespaceOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import java.io.File;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/**
 * What people do with the fabric8 client, on the server that KUBECONFIG names: Tour CRD_FILE.
 *
 * <p>Every check prints one line, "ok CHECK" or "not ok CHECK: why". The names are those of the other clients; the test
 * that runs this program knows them.
 */
final class Tour {
  /** The limit of one wait in seconds: nothing here needs it, on a loaded machine either. */
  static final long PATIENCE = 60;

  final KubernetesClient client;
  final String namespace = "java-" + ProcessHandle.current().pid();
  final NonNamespaceOperation<GenericKubernetesResource, GenericKubernetesResourceList, Resource<GenericKubernetesResource>> apps;
  final NonNamespaceOperation<ConfigMap, ?, Resource<ConfigMap>> maps;

  interface Check {
    void run() throws Exception;
  }

  private Tour(KubernetesClient client) {
    this.client = client;
    var kind = new ResourceDefinitionContext.Builder()
        .withGroup("myapps.example.com").withVersion("v1").withKind("Application").withPlural("applications")
        .withNamespaced(true).build();
    apps = client.genericKubernetesResources(kind).inNamespace(namespace);
    maps = client.configMaps().inNamespace(namespace);
  }

  public static void main(String[] arguments) throws Exception {
    // Refusals are what the checks look for: the client must not try again.
    var config = new ConfigBuilder().withRequestRetryBackoffLimit(0).build();
    boolean failed = false;
    try (var client = new KubernetesClientBuilder().withConfig(config).build()) {
      var tour = new Tour(client);
      tour.arrive(new File(arguments[0]));
      for (var check : tour.checks().entrySet()) {
        try {
          check.getValue().run();
          System.out.println("ok " + check.getKey());
        } catch (Exception | AssertionError error) {
          failed = true;
          error.printStackTrace();
          System.out.println("not ok " + check.getKey() + ": " + String.valueOf(error).replaceAll("\\s+", " "));
        }
      }
      client.namespaces().withName(tour.namespace).delete();
    }
    // Threads of the client that linger must not hold up the end.
    System.exit(failed ? 1 : 0);
  }

  private Map<String, Check> checks() {
    var objects = new Writes(this);
    var patches = new Patches(this);
    var watching = new Watching(this);
    var checks = new LinkedHashMap<String, Check>();
    checks.put("custom_resource_crud", objects::customResourceCrud);
    checks.put("built_in_crud", objects::builtInCrud);
    checks.put("json_patch", patches::json);
    checks.put("merge_patch", patches::merge);
    checks.put("strategic_merge_patch", patches::strategicMerge);
    checks.put("server_side_apply", patches::serverSideApply);
    checks.put("status_subresource", objects::statusSubresource);
    checks.put("scale_subresource", objects::scaleSubresource);
    checks.put("pages_and_selectors", objects::pagesAndSelectors);
    checks.put("stale_update_conflicts", objects::staleUpdateConflicts);
    checks.put("finalizer_holds_deletion", objects::finalizerHoldsDeletion);
    checks.put("watch_resumes", watching::resumes);
    checks.put("watch_from_expired_version", watching::fromExpiredVersion);
    checks.put("informer_follows", watching::informerFollows);
    checks.put("leader_election", new Leading(this)::election);
    return checks;
  }

  /** Makes the namespace, and installs the definition and waits until it is established. */
  private void arrive(File definition) {
    client.namespaces().resource(new NamespaceBuilder().withNewMetadata().withName(namespace).endMetadata().build()).create();
    var crds = client.apiextensions().v1().customResourceDefinitions();
    CustomResourceDefinition crd = crds.load(definition).item();
    try {
      crds.resource(crd).create();
    } catch (KubernetesClientException error) {
      same("code", error.getCode(), 409);
    }
    crds.withName(crd.getMetadata().getName()).waitUntilCondition(
        found -> found != null && found.getStatus() != null && found.getStatus().getConditions().stream()
            .anyMatch(condition -> condition.getType().equals("Established") && condition.getStatus().equals("True")),
        PATIENCE, TimeUnit.SECONDS);
  }

  static GenericKubernetesResource application(String name) {
    return new GenericKubernetesResourceBuilder()
        .withApiVersion("myapps.example.com/v1").withKind("Application")
        .withNewMetadata().withName(name).endMetadata()
        .addToAdditionalProperties("spec", new LinkedHashMap<>(Map.of("image", "nginx")))
        .build();
  }

  GenericKubernetesResource create(String name) {
    return apps.resource(application(name)).create();
  }

  ConfigMap createMap(String name, Map<String, String> data) {
    var map = new ConfigMapBuilder().withNewMetadata().withName(name).endMetadata().withData(data).build();
    return maps.resource(map).create();
  }

  /** Makes one without pods: nothing runs them here. */
  Deployment createDeployment(String name) {
    var labels = Map.of("app", name);
    var deployment = new DeploymentBuilder()
        .withNewMetadata().withName(name).endMetadata()
        .withNewSpec().withReplicas(0)
        .withNewSelector().withMatchLabels(labels).endSelector()
        .withNewTemplate().withNewMetadata().withLabels(labels).endMetadata()
        .withNewSpec().addNewContainer().withName("web").withImage("nginx:1.27").endContainer().endSpec()
        .endTemplate().endSpec().build();
    return client.apps().deployments().inNamespace(namespace).resource(deployment).create();
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> part(GenericKubernetesResource object, String name) {
    return (Map<String, Object>) object.getAdditionalProperties().get(name);
  }

  static void same(String what, Object got, Object want) {
    if (!Objects.equals(got, want)) {
      throw new AssertionError(what + " is " + got + ", not " + want);
    }
  }

  /** Checks that a call is refused with a code and a reason, and returns the fields that the refusal names. */
  static List<String> refused(String what, int code, String reason, Check call) throws Exception {
    try {
      call.run();
    } catch (KubernetesClientException error) {
      var status = error.getStatus();
      same(what, error.getCode() + " " + (status == null ? null : status.getReason()), code + " " + reason);
      return status.getDetails() == null ? List.of() : status.getDetails().getCauses().stream().map(Tour::cause).toList();
    }
    throw new AssertionError(what + " was not refused with " + code);
  }

  private static String cause(StatusCause cause) {
    return cause.getReason() + " " + cause.getField();
  }
}
