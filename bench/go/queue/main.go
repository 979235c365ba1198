// Command queue puts the load of skopos-bench's queue benchmark on client-go's workqueue and prints figures as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

func main() {
	adds := flag.Int("adds", 2_000_000, "how many adds")
	workers := flag.Int("workers", 4, "how many workers")
	distinct := flag.Int("distinct", 1_000, "how many distinct keys")
	kind := flag.String("keys", "string", "string or namespaced")
	flag.Parse()

	var seconds float64
	var processed uint64
	before := cpu()
	switch *kind {
	case "string":
		seconds, processed = race(*adds, *workers, *distinct, func(namespace, name string) string {
			return namespace + "/" + name
		})
	case "namespaced":
		seconds, processed = race(*adds, *workers, *distinct, func(namespace, name string) types.NamespacedName {
			return types.NamespacedName{Namespace: namespace, Name: name}
		})
	default:
		fmt.Fprintln(os.Stderr, "-keys is string or namespaced")
		os.Exit(2)
	}
	figures := map[string]any{"seconds": seconds, "processed": processed, "cpu": cpu() - before}
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func race[T comparable](adds, workers, distinct int, key func(namespace, name string) T) (float64, uint64) {
	keys := make([]T, distinct)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("app-%d", i))
	}
	queue := workqueue.NewTyped[T]()
	var processed atomic.Uint64
	var running sync.WaitGroup
	for range workers {
		running.Add(1)
		go func() {
			defer running.Done()
			var mine uint64
			for {
				item, closed := queue.Get()
				if closed {
					processed.Add(mine)
					return
				}
				queue.Done(item)
				mine++
			}
		}()
	}
	begun := time.Now()
	for i := range adds {
		queue.Add(keys[i%distinct])
	}
	queue.ShutDown()
	running.Wait()
	return time.Since(begun).Seconds(), processed.Load()
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
