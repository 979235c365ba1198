import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Watches and the informer. */
final class Watching {
  private static final PatchContext MERGE = PatchContext.of(PatchType.JSON_MERGE);
  private final Tour tour;

  Watching(Tour tour) {
    this.tour = tour;
  }

  /** What a watch tells, one thing after the other: an event, or how it closed. */
  private static final class Told implements Watcher<GenericKubernetesResource> {
    final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
    String version;

    @Override
    public void eventReceived(Action action, GenericKubernetesResource app) {
      version = app.getMetadata().getResourceVersion();
      queue.add(action + " " + app.getMetadata().getName() + " " + Tour.part(app, "spec").get("replicas"));
    }

    @Override
    public void onClose(WatcherException cause) {
      queue.add(cause);
    }
  }

  private Watch watch(String version, Told told) {
    return tour.apps.watch(new ListOptionsBuilder().withResourceVersion(version).build(), told);
  }

  private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
    var next = queue.poll(Tour.PATIENCE, TimeUnit.SECONDS);
    if (next == null) {
      throw new AssertionError("nothing is told");
    }
    return next;
  }

  private String version() {
    return tour.apps.list().getMetadata().getResourceVersion();
  }

  void resumes() throws Exception {
    var before = new Told();
    var after = new Told();
    try (var first = watch(version(), before)) {
      tour.create("watched");
      Tour.same("event", next(before.queue), "ADDED watched 1");
    }
    // Nobody watches while these happen.
    tour.apps.withName("watched").patch(MERGE, "{\"spec\": {\"replicas\": 2}}");
    tour.apps.withName("watched").delete();
    try (var second = watch(before.version, after)) {
      Tour.same("event", next(after.queue), "MODIFIED watched 2");
      Tour.same("event", next(after.queue), "DELETED watched 2");
    }
  }

  /** Everything since the first revision, which no server has any more; then anew from a list. */
  void fromExpiredVersion() throws Exception {
    tour.create("anew");
    var told = new Told();
    try (var expired = watch("1", told)) {
      var closed = next(told.queue);
      Tour.same("closed as gone", closed instanceof WatcherException && ((WatcherException) closed).isHttpGone(), true);
    }
    var anew = new Told();
    try (var again = watch(version(), anew)) {
      tour.apps.withName("anew").delete();
      Tour.same("event", next(anew.queue), "DELETED anew 1");
    }
  }

  /** Queues what the informer tells of two objects. */
  private static ResourceEventHandler<GenericKubernetesResource> recorder(BlockingQueue<String> events) {
    return new ResourceEventHandler<>() {
      private void add(String event, GenericKubernetesResource app) {
        if (List.of("before", "informed").contains(app.getMetadata().getName())) {
          events.add(event + " " + app.getMetadata().getName());
        }
      }

      @Override
      public void onAdd(GenericKubernetesResource app) {
        add("add", app);
      }

      @Override
      public void onUpdate(GenericKubernetesResource old, GenericKubernetesResource app) {
        add("update", app);
      }

      @Override
      public void onDelete(GenericKubernetesResource app, boolean finalStateUnknown) {
        add("delete", app);
      }
    };
  }

  void informerFollows() throws Exception {
    tour.create("before");
    var events = new LinkedBlockingQueue<String>();
    try (var informer = tour.apps.inform(recorder(events))) {
      Tour.same("event", next(events), "add before");
      Tour.same("cached", informer.getIndexer().getByKey(tour.namespace + "/before") != null, true);
      tour.create("informed");
      tour.apps.withName("informed").patch(MERGE, "{\"spec\": {\"replicas\": 2}}");
      tour.apps.withName("informed").delete();
      for (var want : List.of("add informed", "update informed", "delete informed")) {
        Tour.same("event", next(events), want);
      }
    }
  }
}
