// Command envtest has controller-runtime's envtest start the programs that TEST_ASSET_KUBE_APISERVER and TEST_ASSET_ETCD
// name, and runs a small controller there: envtest CRD_FILE
//
// The controller keeps a ConfigMap for each Application, and holds the Application until it has cleaned up.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// patience is the limit of one wait: nothing here needs it, on a loaded machine either.
	patience  = 60 * time.Second
	finalizer = "myapps.example.com/cleanup"
)

var (
	application = schema.GroupVersionKind{Group: "myapps.example.com", Version: "v1", Kind: "Application"}
	key         = client.ObjectKey{Namespace: "default", Name: "web"}
)

func newApplication() *unstructured.Unstructured {
	app := &unstructured.Unstructured{}
	app.SetGroupVersionKind(application)
	return app
}

// A reconciler keeps a ConfigMap with the image of each Application.
type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	app := newApplication()
	if err := r.Get(ctx, request.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app.GetNamespace(), Name: app.GetName()}}
	if app.GetDeletionTimestamp() != nil {
		if err := r.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(app, finalizer)
		return ctrl.Result{}, r.Update(ctx, app)
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		return ctrl.Result{}, r.Update(ctx, app)
	}
	image, _, _ := unstructured.NestedString(app.Object, "spec", "image")
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, object, func() error {
		object.Data = map[string]string{"image": image}
		return controllerutil.SetControllerReference(app, object, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := app.DeepCopy()
	_ = unstructured.SetNestedField(app.Object, "Running", "status", "phase")
	return ctrl.Result{}, r.Status().Patch(ctx, app, client.MergeFrom(before))
}

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: envtest CRD_FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(definition string) (err error) {
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{definition},
		ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() {
		if stopped := environment.Stop(); err == nil && stopped != nil {
			err = fmt.Errorf("stop: %w", stopped)
		}
	}()
	operator, err := ctrl.NewManager(config, manager.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	controller := ctrl.NewControllerManagedBy(operator).For(newApplication()).Owns(&corev1.ConfigMap{})
	if err := controller.Complete(reconciler{operator.GetClient()}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- operator.Start(ctx) }()
	// A client of its own: the manager's reads from its cache.
	direct, err := client.New(config, client.Options{Scheme: operator.GetScheme()})
	if err == nil {
		err = follow(ctx, direct)
	}
	cancel()
	if stopped := <-done; err == nil {
		err = stopped
	}
	return err
}

// follow changes the objects as a user does, and waits for what the controller makes of it.
func follow(ctx context.Context, user client.Client) error {
	app := newApplication()
	app.SetNamespace(key.Namespace)
	app.SetName(key.Name)
	_ = unstructured.SetNestedField(app.Object, "nginx", "spec", "image")
	if err := user.Create(ctx, app); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := untilImage(ctx, user, "nginx"); err != nil {
		return fmt.Errorf("after the create: %w", err)
	}
	if err := until(ctx, func(ctx context.Context) (bool, error) {
		err := user.Get(ctx, key, app)
		phase, _, _ := unstructured.NestedString(app.Object, "status", "phase")
		return phase == "Running", err
	}); err != nil {
		return fmt.Errorf("the status: %w", err)
	}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec": {"image": "httpd"}}`))
	if err := user.Patch(ctx, app, patch); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if err := untilImage(ctx, user, "httpd"); err != nil {
		return fmt.Errorf("after the patch: %w", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := user.Delete(ctx, object); err != nil {
		return fmt.Errorf("delete what it owns: %w", err)
	}
	if err := untilImage(ctx, user, "httpd"); err != nil {
		return fmt.Errorf("after the delete of what it owns: %w", err)
	}
	if err := user.Delete(ctx, app); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	gone := func(object client.Object) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			err := user.Get(ctx, key, object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
	}
	if err := until(ctx, gone(app)); err != nil {
		return fmt.Errorf("the finalizer: %w", err)
	}
	if err := until(ctx, gone(&corev1.ConfigMap{})); err != nil {
		return fmt.Errorf("the clean-up: %w", err)
	}
	return nil
}

func untilImage(ctx context.Context, user client.Client, want string) error {
	return until(ctx, func(ctx context.Context) (bool, error) {
		var object corev1.ConfigMap
		err := user.Get(ctx, key, &object)
		return object.Data["image"] == want, client.IgnoreNotFound(err)
	})
}

func until(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, condition)
}
