// Command tour does with client-go what its users do, on the server that KUBECONFIG names: tour CRD_FILE
//
// Every check prints one line, "ok <check>" or "not ok <check>: why". The names are those of the other clients; the
// test that runs this program knows them.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// patience is the limit of one check: nothing here needs it, on a loaded machine either.
const patience = 60 * time.Second

var applications = schema.GroupVersionResource{Group: "myapps.example.com", Version: "v1", Resource: "applications"}

// A tour has a namespace of its own and the clients that the checks use.
type tour struct {
	config    *rest.Config
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	apps      dynamic.ResourceInterface
	namespace string
}

type check struct {
	name string
	run  func(*tour, context.Context) error
}

var checks = []check{
	{"custom_resource_crud", (*tour).customResourceCRUD},
	{"built_in_crud", (*tour).builtInCRUD},
	{"json_patch", (*tour).jsonPatch},
	{"merge_patch", (*tour).mergePatch},
	{"strategic_merge_patch", (*tour).strategicMergePatch},
	{"server_side_apply", (*tour).serverSideApply},
	{"status_subresource", (*tour).statusSubresource},
	{"scale_subresource", (*tour).scaleSubresource},
	{"pages_and_selectors", (*tour).pagesAndSelectors},
	{"stale_update_conflicts", (*tour).staleUpdateConflicts},
	{"finalizer_holds_deletion", (*tour).finalizerHoldsDeletion},
	{"watch_resumes", (*tour).watchResumes},
	{"watch_from_expired_version", (*tour).watchFromExpiredVersion},
	{"informer_follows", (*tour).informerFollows},
	{"leader_election", (*tour).leaderElection},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: KUBECONFIG=<file> tour CRD_FILE")
		os.Exit(2)
	}
	ctx := context.Background()
	t, err := arrive(ctx, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot begin:", err)
		os.Exit(1)
	}
	failed := false
	for _, check := range checks {
		limited, cancel := context.WithTimeout(ctx, patience)
		if err := check.run(t, limited); err != nil {
			failed = true
			fmt.Printf("not ok %s: %v\n", check.name, err)
		} else {
			fmt.Println("ok", check.name)
		}
		cancel()
	}
	if err := t.typed.CoreV1().Namespaces().Delete(ctx, t.namespace, metav1.DeleteOptions{}); err != nil {
		failed = true
		fmt.Fprintln(os.Stderr, "delete the namespace:", err)
	}
	if failed {
		os.Exit(1)
	}
}

// arrive connects, makes the namespace and installs the definition.
func arrive(ctx context.Context, crdFile string) (*tour, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	// The limit of a polite client would only slow the checks down.
	config.QPS, config.Burst = 1000, 1000
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace := fmt.Sprintf("go-%d", os.Getpid())
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := typed.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := define(ctx, config, crdFile); err != nil {
		return nil, fmt.Errorf("define the custom resource: %w", err)
	}
	apps := untyped.Resource(applications).Namespace(namespace)
	return &tour{config: config, typed: typed, dynamic: untyped, apps: apps, namespace: namespace}, nil
}

// define installs the definition and waits until it is established.
func define(ctx context.Context, config *rest.Config, file string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return err
	}
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, &definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Without a version the watch begins with what there is.
	events, err := crds.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + definition.Name})
	if err != nil {
		return err
	}
	defer events.Stop()
	_, err = until(events, func(event watch.Event) bool {
		crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		return ok && established(crd)
	})
	return err
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// until reads events up to the first that is wanted.
func until(events watch.Interface, wanted func(watch.Event) bool) (watch.Event, error) {
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return event, apierrors.FromObject(event.Object)
		}
		if wanted(event) {
			return event, nil
		}
	}
	return watch.Event{}, fmt.Errorf("the watch ended first")
}
