// Command contend runs for a lease as client-go's leader election does, on the server that KUBECONFIG names:
// contend NAMESPACE NAME IDENTITY LEASE_SECONDS
//
// It prints "leads" when it does and "lost" when it no longer does. When its standard input ends it gives the lease back.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: KUBECONFIG=<file> contend NAMESPACE NAME IDENTITY LEASE_SECONDS")
		os.Exit(2)
	}
	if err := contend(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func contend(namespace, name, identity, leaseSeconds string) error {
	seconds, err := strconv.Atoi(leaseSeconds)
	if err != nil {
		return fmt.Errorf("lease seconds: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, name,
		clients.CoreV1(), clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return err
	}
	duration := time.Duration(seconds) * time.Second
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   duration,
		RenewDeadline:   duration * 4 / 5,
		RetryPeriod:     duration / 20,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leads") },
			OnStoppedLeading: func() { fmt.Println("lost") },
		},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	elector.Run(ctx)
	return nil
}
