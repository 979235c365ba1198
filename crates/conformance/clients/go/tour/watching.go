package main

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

func (t *tour) pagesAndSelectors(ctx context.Context) error {
	for number := range 5 {
		app := application(fmt.Sprintf("page-%d", number))
		tier := []string{"front", "back"}[number%2]
		app.SetLabels(map[string]string{"check": "pages", "tier": tier})
		if _, err := t.apps.Create(ctx, app, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	options := metav1.ListOptions{LabelSelector: "check=pages", Limit: 2}
	var pages [][]string
	versions := map[string]bool{}
	for {
		page, err := t.apps.List(ctx, options)
		if err != nil {
			return err
		}
		pages = append(pages, namesOf(page))
		versions[page.GetResourceVersion()] = true
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	want := [][]string{{"page-0", "page-1"}, {"page-2", "page-3"}, {"page-4"}}
	if err := same("pages", pages, want); err != nil {
		return err
	}
	if err := same("versions of the pages", len(versions), 1); err != nil {
		return err
	}
	for _, by := range []struct {
		labels, fields string
		want           []string
	}{
		{"check=pages,tier in (back, middle)", "", []string{"page-1", "page-3"}},
		{"check=pages,tier notin (back)", "metadata.name!=page-4", []string{"page-0", "page-2"}},
		{"check,!tier", "", nil},
		{"", "metadata.name=page-3", []string{"page-3"}},
	} {
		found, err := t.apps.List(ctx, metav1.ListOptions{LabelSelector: by.labels, FieldSelector: by.fields})
		if err != nil {
			return err
		}
		if err := same(by.labels+" "+by.fields, namesOf(found), by.want); err != nil {
			return err
		}
	}
	_, err := t.apps.List(ctx, metav1.ListOptions{Limit: 2, Continue: "nonsense"})
	return refused("a nonsense page", err, http.StatusBadRequest, metav1.StatusReasonBadRequest)
}

func namesOf(list *unstructured.UnstructuredList) (names []string) {
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names
}

func (t *tour) watchResumes(ctx context.Context) error {
	list, err := t.apps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	options := metav1.ListOptions{LabelSelector: "check=watch", ResourceVersion: list.GetResourceVersion()}
	first, err := t.apps.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer first.Stop()
	app := application("watched")
	app.SetLabels(map[string]string{"check": "watch"})
	if _, err := t.apps.Create(ctx, app, metav1.CreateOptions{}); err != nil {
		return err
	}
	event, err := until(first, func(watch.Event) bool { return true })
	if err != nil {
		return err
	}
	first.Stop()
	seen := []string{kindOf(event)}
	// Nobody watches while these happen.
	if _, err := t.patchApplication(ctx, "watched", types.MergePatchType, `{"spec": {"replicas": 2}}`); err != nil {
		return err
	}
	if err := t.apps.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	options.ResourceVersion = event.Object.(*unstructured.Unstructured).GetResourceVersion()
	second, err := t.apps.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer second.Stop()
	_, err = until(second, func(event watch.Event) bool {
		seen = append(seen, kindOf(event))
		return event.Type == watch.Deleted
	})
	if err != nil {
		return err
	}
	return same("events", seen, []string{"ADDED watched 1", "MODIFIED watched 2", "DELETED watched 2"})
}

func kindOf(event watch.Event) string {
	app := event.Object.(*unstructured.Unstructured)
	replicas, _, _ := unstructured.NestedInt64(app.Object, "spec", "replicas")
	return fmt.Sprintf("%s %s %d", event.Type, app.GetName(), replicas)
}

// watchFromExpiredVersion asks for everything since the first revision, which no server has any more, and begins anew
// where the list says.
func (t *tour) watchFromExpiredVersion(ctx context.Context) error {
	if _, err := t.createApplication(ctx, "anew"); err != nil {
		return err
	}
	events, err := t.apps.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err == nil {
		_, err = until(events, func(watch.Event) bool { return true })
		events.Stop()
	}
	if err := refused("watch from 1", err, http.StatusGone, metav1.StatusReasonExpired); err != nil {
		return err
	}
	if !apierrors.IsResourceExpired(err) {
		return fmt.Errorf("client-go does not take it as expired: %w", err)
	}
	list, err := t.apps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=anew"})
	if err != nil {
		return err
	}
	again, err := t.apps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer again.Stop()
	if err := t.apps.Delete(ctx, "anew", metav1.DeleteOptions{}); err != nil {
		return err
	}
	event, err := until(again, func(watch.Event) bool { return true })
	if err != nil {
		return err
	}
	return same("event", kindOf(event), "DELETED anew 1")
}

// informerFollows runs the informers of both factories: one lists and watches custom resources, the other built-ins.
func (t *tour) informerFollows(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	if _, err := t.createApplication(ctx, "before"); err != nil {
		cancel()
		return err
	}
	custom := dynamicinformer.NewFilteredDynamicSharedInformerFactory(t.dynamic, 0, t.namespace, nil)
	builtIn := informers.NewSharedInformerFactoryWithOptions(t.typed, 0, informers.WithNamespace(t.namespace))
	defer custom.Shutdown()
	defer builtIn.Shutdown()
	defer cancel()
	events := make(chan string, 100)
	apps := custom.ForResource(applications)
	if _, err := apps.Informer().AddEventHandler(record(events, "before", "informed")); err != nil {
		return err
	}
	maps := builtIn.Core().V1().ConfigMaps()
	if _, err := maps.Informer().AddEventHandler(record(events, "informed")); err != nil {
		return err
	}
	custom.Start(ctx.Done())
	builtIn.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), apps.Informer().HasSynced, maps.Informer().HasSynced) {
		return fmt.Errorf("the caches never filled")
	}
	if err := expectEvents(ctx, events, "add *unstructured.Unstructured before"); err != nil {
		return err
	}
	if _, err := apps.Lister().ByNamespace(t.namespace).Get("before"); err != nil {
		return fmt.Errorf("the lister: %w", err)
	}
	if _, err := t.createApplication(ctx, "informed"); err != nil {
		return err
	}
	if _, err := t.patchApplication(ctx, "informed", types.MergePatchType, `{"spec": {"replicas": 2}}`); err != nil {
		return err
	}
	if err := t.apps.Delete(ctx, "informed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	const app = "*unstructured.Unstructured informed"
	if err := expectEvents(ctx, events, "add "+app, "update "+app, "delete "+app); err != nil {
		return err
	}
	if err := t.createMap(ctx, "informed", map[string]string{"a": "1"}); err != nil {
		return err
	}
	if err := expectEvents(ctx, events, "add *v1.ConfigMap informed"); err != nil {
		return err
	}
	object, err := maps.Lister().ConfigMaps(t.namespace).Get("informed")
	if err != nil {
		return fmt.Errorf("the lister: %w", err)
	}
	return same("data", object.Data, map[string]string{"a": "1"})
}

// record sends the events of the named objects, in order.
func record(events chan<- string, names ...string) cache.ResourceEventHandler {
	send := func(kind string, object any) {
		if accessor, ok := object.(metav1.Object); ok {
			for _, name := range names {
				if accessor.GetName() == name {
					events <- fmt.Sprintf("%s %T %s", kind, object, name)
				}
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send("add", object) },
		UpdateFunc: func(_, object any) { send("update", object) },
		DeleteFunc: func(object any) { send("delete", object) },
	}
}

func expectEvents(ctx context.Context, events <-chan string, wanted ...string) error {
	for _, want := range wanted {
		select {
		case got := <-events:
			if err := same("event", got, want); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("no %s: %w", want, ctx.Err())
		}
	}
	return nil
}
