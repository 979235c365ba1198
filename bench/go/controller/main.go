// Command controller is a controller of controller-runtime, driven line by line by `skopos-bench controller`.
//
// It says "ready", begins at "start", says "begun" at its first reconcile, "all" once every object was reconciled,
// and "changed" when it reconciles the object that asks for MARK replicas.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

var application = schema.GroupVersionKind{Group: "myapps.example.com", Version: "v1", Kind: "Application"}

type reconciler struct {
	client  client.Client
	task    string
	objects int
	mark    int64
	mutex   sync.Mutex
	begun   bool
	done    map[types.NamespacedName]struct{}
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: controller KUBECONFIG read|status|slow OBJECTS MARK")
	}
	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	// As the other clients: no limit of its own.
	config.QPS = -1
	objects, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	mark, err := strconv.ParseInt(os.Args[4], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(application)
	err = ctrl.NewControllerManagedBy(manager).
		Named("applications").
		For(kind, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(&reconciler{
			client:  manager.GetClient(),
			task:    os.Args[2],
			objects: objects,
			mark:    mark,
			done:    map[types.NamespacedName]struct{}{},
		})
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for lines.Scan() {
		if lines.Text() != "start" {
			log.Fatal("unknown command ", lines.Text())
		}
		go func() {
			if err := manager.Start(context.Background()); err != nil {
				log.Fatal(err)
			}
		}()
	}
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(application)
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.begins(object)
	switch r.task {
	case "status":
		phase := fmt.Sprintf("phase-%d", r.mark)
		if err := unstructured.SetNestedField(object.Object, phase, "status", "phase"); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.client.Status().Update(ctx, object); err != nil {
			return ctrl.Result{}, err
		}
	case "slow":
		time.Sleep(5 * time.Millisecond)
	}
	r.ends(request.NamespacedName)
	return ctrl.Result{}, nil
}

func (r *reconciler) begins(object *unstructured.Unstructured) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.begun {
		r.begun = true
		fmt.Println("begun")
	}
	if replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); replicas == r.mark {
		fmt.Println("changed")
	}
}

func (r *reconciler) ends(key types.NamespacedName) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.done[key] = struct{}{}
	if len(r.done) == r.objects {
		fmt.Println("all")
	}
}
