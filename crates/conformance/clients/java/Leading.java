import io.fabric8.kubernetes.api.model.coordination.v1.Lease;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElector;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Leader election by a Lease. */
final class Leading {
  /** Long enough for a holder on a loaded machine to renew in time. */
  private static final Duration LEASE = Duration.ofSeconds(5);

  private final Tour tour;

  Leading(Tour tour) {
    this.tour = tour;
  }

  /** Runs for the lease until it is told to stop. */
  private final class Contender implements AutoCloseable {
    private final CompletableFuture<Void> leads = new CompletableFuture<>();
    private final LeaderElector elector;
    private final CompletableFuture<?> running;

    Contender(String identity, boolean release) {
      var config = new LeaderElectionConfigBuilder()
          .withName(identity)
          .withLock(new LeaseLock(tour.namespace, "leader", identity))
          .withLeaseDuration(LEASE)
          .withRenewDeadline(LEASE.minusSeconds(1))
          .withRetryPeriod(LEASE.dividedBy(20))
          .withReleaseOnCancel(release)
          .withLeaderCallbacks(new LeaderCallbacks(() -> leads.complete(null), () -> { }, leader -> { }))
          .build();
      elector = tour.client.leaderElector().withConfig(config).build();
      running = elector.start();
    }

    void untilLeads() throws Exception {
      leads.get(Tour.PATIENCE, TimeUnit.SECONDS);
    }

    void die() {
      running.cancel(true);
    }

    /**
     * Gives the lease back; again if a renewal that was under way makes the first time a conflict. This client does so
     * with a merge patch that leaves the holder's name and shortens the lease to a second, on every server.
     */
    void release(Resource<Lease> lease) throws Exception {
      die();
      var end = Instant.now().plusSeconds(Tour.PATIENCE);
      while (lease.get().getSpec().getLeaseDurationSeconds() != 1) {
        Tour.same("released in time", Instant.now().isBefore(end), true);
        elector.release();
      }
    }

    @Override
    public void close() {
      die();
    }
  }

  /** One acquires and renews a lease and dies, two takes it over and gives it back, three has it then. */
  void election() throws Exception {
    Resource<Lease> lease = tour.client.leases().inNamespace(tour.namespace).withName("leader");
    try (var one = new Contender("one", false)) {
      one.untilLeads();
      try (var two = new Contender("two", true)) {
        var acquired = lease.get().getSpec();
        Tour.same("holder", acquired.getHolderIdentity(), "one");
        // Longer than the lease lasts: without renewals the second would have it by then.
        var later = acquired.getRenewTime().plus(LEASE.plusSeconds(1));
        var renewed = lease.waitUntilCondition(
            now -> now.getSpec().getRenewTime().isAfter(later), Tour.PATIENCE, TimeUnit.SECONDS);
        Tour.same("holder after renewals", renewed.getSpec().getHolderIdentity(), "one");
        one.die();
        two.untilLeads();
        var taken = lease.get().getSpec();
        Tour.same("holder after the take-over", taken.getHolderIdentity(), "two");
        two.release(lease);
      }
      try (var three = new Contender("three", true)) {
        three.untilLeads();
      }
    }
  }
}
