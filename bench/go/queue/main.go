// Command queue puts the load of skopos-bench's queue benchmark on client-go's workqueue, or on controller-runtime's
// priority queue, and prints figures as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	adds     = flag.Int("adds", 2_000_000, "how many adds")
	workers  = flag.Int("workers", 4, "how many workers")
	distinct = flag.Int("distinct", 1_000, "how many distinct keys")
	kind     = flag.String("keys", "string", "string or namespaced (client-go), priority (controller-runtime)")
	pattern  = flag.String("pattern", "flood", "flood, drain or paced")
	perMs    = flag.Int("per-ms", 200, "how many adds a millisecond, if paced")
)

func main() {
	flag.Parse()
	var figures map[string]any
	switch *kind {
	case "string":
		figures = race(plain[string](),
			func(namespace, name string) string { return namespace + "/" + name },
			func(key string) string { return key })
	case "namespaced":
		figures = race(plain[types.NamespacedName](),
			func(namespace, name string) types.NamespacedName {
				return types.NamespacedName{Namespace: namespace, Name: name}
			},
			func(key types.NamespacedName) string { return key.Name })
	case "priority":
		figures = race(prioritised(),
			func(namespace, name string) reconcile.Request {
				return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
			},
			func(key reconcile.Request) string { return key.Name })
	default:
		fmt.Fprintln(os.Stderr, "-keys is string, namespaced or priority")
		os.Exit(2)
	}
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// queue is what both have, with an add that says whether it is a change or part of an initial list, and an end that
// still hands out what waits.
type queue[T comparable] struct {
	workqueue.TypedInterface[T]
	add func(key T, change bool)
	end func()
}

func plain[T comparable]() queue[T] {
	q := workqueue.NewTyped[T]()
	return queue[T]{q, func(key T, _ bool) { q.Add(key) }, q.ShutDown}
}

func prioritised() queue[reconcile.Request] {
	q := priorityqueue.New[reconcile.Request]("bench")
	// As its own handlers do it.
	low, change := -100, 0
	return queue[reconcile.Request]{q, func(key reconcile.Request, changed bool) {
		priority := &low
		if changed {
			priority = &change
		}
		q.AddWithOpts(priorityqueue.AddOpts{Priority: priority}, key)
	}, func() {
		// Its ShutDown lets go of what waits.
		for q.Len() > 0 {
			time.Sleep(50 * time.Microsecond)
		}
		q.ShutDown()
	}}
}

func race[T comparable](queue queue[T], key func(namespace, name string) T, name func(T) string) map[string]any {
	keys := make([]T, *distinct)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("app-%d", i))
	}
	added := added{begun: time.Now(), at: make([]atomic.Int64, *distinct)}
	if *pattern == "drain" {
		produce(queue, keys, &added)
	}
	before := cpu()
	begun := time.Now()
	var processed uint64
	var waits []int64
	var results sync.Mutex
	var running sync.WaitGroup
	for range *workers {
		running.Add(1)
		go func() {
			defer running.Done()
			n, seen := work(queue, name, &added)
			results.Lock()
			defer results.Unlock()
			processed += n
			waits = append(waits, seen...)
		}()
	}
	if *pattern != "drain" {
		produce(queue, keys, &added)
	}
	queue.end()
	running.Wait()
	figures := map[string]any{"seconds": time.Since(begun).Seconds(), "processed": processed, "cpu": cpu() - before}
	if len(waits) > 0 {
		slices.Sort(waits)
		figures["median_us"] = float64(waits[len(waits)*50/100]) / 1e3
		figures["worst_us"] = float64(waits[len(waits)*99/100]) / 1e3
	}
	return figures
}

func produce[T comparable](queue queue[T], keys []T, added *added) {
	begun := time.Now()
	for i := range *adds {
		at := i % *distinct
		if *pattern == "paced" {
			if i%*perMs == 0 {
				time.Sleep(time.Until(begun.Add(time.Duration(i / *perMs) * time.Millisecond)))
			}
			added.note(at)
		}
		queue.add(keys[at], i%8 == 0)
	}
}

func work[T comparable](queue queue[T], name func(T) string, added *added) (uint64, []int64) {
	var n uint64
	var waits []int64
	for {
		item, closed := queue.Get()
		if closed {
			return n, waits
		}
		if *pattern == "paced" {
			_, number, _ := strings.Cut(name(item), "app-")
			if at, err := strconv.Atoi(number); err == nil {
				if wait, ok := added.wait(at); ok {
					waits = append(waits, wait)
				}
			}
		}
		queue.Done(item)
		n++
	}
}

// added tells when each key was first added since it was last processed: one more than the nanoseconds since the
// beginning, zero if it does not wait.
type added struct {
	begun time.Time
	at    []atomic.Int64
}

func (a *added) now() int64 { return int64(time.Since(a.begun)) + 1 }

func (a *added) note(key int) { a.at[key].CompareAndSwap(0, a.now()) }

func (a *added) wait(key int) (int64, bool) {
	at := a.at[key].Swap(0)
	return a.now() - at, at > 0
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
