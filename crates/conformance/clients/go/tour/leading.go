package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseDuration is long enough for a holder on a loaded machine to renew in time.
const leaseDuration = 5 * time.Second

// A contender runs for the lease until it is told to stop.
type contender struct {
	leads, done chan struct{}
	stop        context.CancelFunc
}

func (t *tour) contend(ctx context.Context, identity string, release bool) (*contender, error) {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, t.namespace, "leader",
		t.typed.CoreV1(), t.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &contender{leads: make(chan struct{}), done: make(chan struct{}), stop: stop}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   leaseDuration * 4 / 5,
		RetryPeriod:     leaseDuration / 20,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.leads) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		defer close(c.done)
		elector.Run(ctx)
	}()
	return c, nil
}

// end stops a contender and waits until it has.
func (c *contender) end() {
	c.stop()
	<-c.done
}

func (c *contender) untilLeads(ctx context.Context) error {
	select {
	case <-c.leads:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("never leads: %w", ctx.Err())
	}
}

// leaderElection follows one lease: the first acquires and renews it and dies, the second takes it over when it has run
// out and gives it back, the third has it at once.
func (t *tour) leaderElection(ctx context.Context) error {
	events, err := t.typed.CoordinationV1().Leases(t.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=leader",
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	one, err := t.contend(ctx, "one", false)
	if err != nil {
		return err
	}
	defer one.end()
	if err := one.untilLeads(ctx); err != nil {
		return fmt.Errorf("one: %w", err)
	}
	two, err := t.contend(ctx, "two", true)
	if err != nil {
		return err
	}
	defer two.end()
	acquired, err := leaseUntil(events, func(lease *coordinationv1.Lease) bool { return true })
	if err != nil {
		return err
	}
	if err := same("holder", *acquired.Spec.HolderIdentity, "one"); err != nil {
		return err
	}
	// Longer than the lease lasts: without renewals the second would have it by then.
	renewed, err := leaseUntil(events, func(lease *coordinationv1.Lease) bool {
		return lease.Spec.RenewTime.Sub(acquired.Spec.RenewTime.Time) > leaseDuration+leaseDuration/4
	})
	if err != nil {
		return err
	}
	if err := same("holder after renewals", *renewed.Spec.HolderIdentity, "one"); err != nil {
		return err
	}
	one.end()
	if err := two.untilLeads(ctx); err != nil {
		return fmt.Errorf("two: %w", err)
	}
	taken, err := leaseUntil(events, func(lease *coordinationv1.Lease) bool { return *lease.Spec.HolderIdentity == "two" })
	if err != nil {
		return err
	}
	if err := same("transitions", *taken.Spec.LeaseTransitions, int32(1)); err != nil {
		return err
	}
	two.end()
	if err := t.untilReleased(ctx, "two"); err != nil {
		return err
	}
	three, err := t.contend(ctx, "three", true)
	if err != nil {
		return err
	}
	defer three.end()
	return three.untilLeads(ctx)
}

// untilReleased has the holder give the lease back, if it has not when it ended: a renewal that was under way then makes
// its release a conflict.
func (t *tour) untilReleased(ctx context.Context, holder string) error {
	for {
		lease, err := t.typed.CoordinationV1().Leases(t.namespace).Get(ctx, "leader", metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("never released: %w", err)
		}
		if *lease.Spec.HolderIdentity == "" {
			return nil
		}
		again, err := t.contend(ctx, holder, true)
		if err != nil {
			return err
		}
		err = again.untilLeads(ctx)
		again.end()
		if err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
}

func leaseUntil(events watch.Interface, wanted func(*coordinationv1.Lease) bool) (*coordinationv1.Lease, error) {
	event, err := until(events, func(event watch.Event) bool {
		lease, ok := event.Object.(*coordinationv1.Lease)
		return ok && wanted(lease)
	})
	if err != nil {
		return nil, err
	}
	return event.Object.(*coordinationv1.Lease), nil
}
