package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
)

func (t *tour) patchApplication(ctx context.Context, name string, kind types.PatchType, patch string) (
	*unstructured.Unstructured, error,
) {
	return t.apps.Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{})
}

func (t *tour) patchMap(ctx context.Context, name string, kind types.PatchType, patch string) (
	*corev1.ConfigMap, error,
) {
	return t.typed.CoreV1().ConfigMaps(t.namespace).Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{})
}

func (t *tour) createMap(ctx context.Context, name string, data map[string]string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := t.typed.CoreV1().ConfigMaps(t.namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

func (t *tour) jsonPatch(ctx context.Context) error {
	if _, err := t.createApplication(ctx, "json"); err != nil {
		return err
	}
	app, err := t.patchApplication(ctx, "json", types.JSONPatchType, `[
		{"op": "test", "path": "/spec/image", "value": "nginx"},
		{"op": "replace", "path": "/spec/image", "value": "httpd"},
		{"op": "add", "path": "/spec/env", "value": [{"name": "A", "value": "1"}]}]`)
	if err != nil {
		return err
	}
	if err := field(app, "httpd", "spec", "image"); err != nil {
		return err
	}
	_, err = t.patchApplication(ctx, "json", types.JSONPatchType,
		`[{"op": "test", "path": "/spec/image", "value": "nginx"}, {"op": "remove", "path": "/spec/env"}]`)
	if err := refused("a test that fails", err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid); err != nil {
		return err
	}
	if err := t.createMap(ctx, "json", map[string]string{"a": "1"}); err != nil {
		return err
	}
	object, err := t.patchMap(ctx, "json", types.JSONPatchType,
		`[{"op": "add", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/a"}]`)
	if err != nil {
		return err
	}
	return same("data", object.Data, map[string]string{"b": "2"})
}

func (t *tour) mergePatch(ctx context.Context) error {
	if _, err := t.createApplication(ctx, "merge"); err != nil {
		return err
	}
	_, err := t.patchApplication(ctx, "merge", types.MergePatchType, `{"spec": {"strategy": "Rolling", "replicas": 2}}`)
	if err != nil {
		return err
	}
	app, err := t.patchApplication(ctx, "merge", types.MergePatchType, `{"spec": {"strategy": null}}`)
	if err != nil {
		return err
	}
	want := map[string]any{"image": "nginx", "replicas": int64(2)}
	if err := field(app, want, "spec"); err != nil {
		return err
	}
	if err := t.createMap(ctx, "merge", map[string]string{"a": "1", "b": "2"}); err != nil {
		return err
	}
	object, err := t.patchMap(ctx, "merge", types.MergePatchType, `{"data": {"a": null, "c": "3"}}`)
	if err != nil {
		return err
	}
	return same("data", object.Data, map[string]string{"b": "2", "c": "3"})
}

func (t *tour) strategicMergePatch(ctx context.Context) error {
	if _, err := t.createDeployment(ctx, "strategic"); err != nil {
		return err
	}
	patch := func(containers string) ([]string, error) {
		text := fmt.Appendf(nil, `{"spec": {"template": {"spec": {"containers": %s}}}}`, containers)
		deployments := t.typed.AppsV1().Deployments(t.namespace)
		deployment, err := deployments.Patch(ctx, "strategic", types.StrategicMergePatchType, text, metav1.PatchOptions{})
		if err != nil {
			return nil, err
		}
		var images []string
		for _, container := range deployment.Spec.Template.Spec.Containers {
			images = append(images, container.Name+"="+container.Image)
		}
		return images, nil
	}
	images, err := patch(`[{"name": "side", "image": "side:1"}, {"name": "web", "image": "nginx:1.28"}]`)
	if err != nil {
		return err
	}
	if err := same("merged containers", images, []string{"side=side:1", "web=nginx:1.28"}); err != nil {
		return err
	}
	images, err = patch(`[{"name": "side", "$patch": "delete"}]`)
	if err != nil {
		return err
	}
	if err := same("containers that remain", images, []string{"web=nginx:1.28"}); err != nil {
		return err
	}
	if _, err := t.createApplication(ctx, "strategic"); err != nil {
		return err
	}
	_, err = t.patchApplication(ctx, "strategic", types.StrategicMergePatchType, `{"spec": {"image": "a"}}`)
	const reason = metav1.StatusReasonUnsupportedMediaType
	return refused("a strategic patch of a custom resource", err, http.StatusUnsupportedMediaType, reason)
}

func (t *tour) serverSideApply(ctx context.Context) error {
	apply := func(manager, spec string, force bool) (*unstructured.Unstructured, error) {
		text := fmt.Appendf(nil, `{"apiVersion": "myapps.example.com/v1", "kind": "Application",
			"metadata": {"name": "applied"}, "spec": %s}`, spec)
		options := metav1.PatchOptions{FieldManager: manager, Force: &force}
		return t.apps.Patch(ctx, "applied", types.ApplyPatchType, text, options)
	}
	if _, err := apply("one", `{"image": "a", "strategy": "Rolling", "env": [{"name": "A", "value": "1"}]}`, false); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	both, err := apply("two", `{"image": "a", "env": [{"name": "B", "value": "2"}]}`, false)
	if err != nil {
		return fmt.Errorf("beside: %w", err)
	}
	names := func(app *unstructured.Unstructured) (names []any) {
		list, _, _ := unstructured.NestedSlice(app.Object, "spec", "env")
		for _, item := range list {
			names = append(names, item.(map[string]any)["name"])
		}
		return names
	}
	if err := same("env", names(both), []any{"A", "B"}); err != nil {
		return err
	}
	_, err = apply("two", `{"image": "b", "env": [{"name": "B", "value": "2"}]}`, false)
	if err := refused("another's field", err, http.StatusConflict, metav1.StatusReasonConflict); err != nil {
		return err
	}
	if err := same("causes", causes(err), []string{"FieldManagerConflict .spec.image"}); err != nil {
		return err
	}
	forced, err := apply("two", `{"image": "b", "env": [{"name": "B", "value": "2"}]}`, true)
	if err != nil {
		return fmt.Errorf("force: %w", err)
	}
	if err := field(forced, "b", "spec", "image"); err != nil {
		return err
	}
	left, err := apply("one", `{"env": [{"name": "A", "value": "1"}]}`, false)
	if err != nil {
		return fmt.Errorf("give up: %w", err)
	}
	if err := field(left, nil, "spec", "strategy"); err != nil {
		return fmt.Errorf("given up by its only owner: %w", err)
	}
	if err := field(left, "b", "spec", "image"); err != nil {
		return err
	}
	var managers []string
	for _, entry := range left.GetManagedFields() {
		managers = append(managers, fmt.Sprintf("%s %s", entry.Manager, entry.Operation))
	}
	// Entries are in the order of their times, in seconds.
	slices.Sort(managers)
	if err := same("managers", managers, []string{"one Apply", "two Apply"}); err != nil {
		return err
	}
	maps := t.typed.CoreV1().ConfigMaps(t.namespace)
	object := coreapply.ConfigMap("applied", t.namespace).WithData(map[string]string{"a": "1"})
	made, err := maps.Apply(ctx, object, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return fmt.Errorf("built-in: %w", err)
	}
	again, err := maps.Apply(ctx, object, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return fmt.Errorf("built-in, again: %w", err)
	}
	return same("version after the same apply", again.ResourceVersion, made.ResourceVersion)
}
