package main

import (
	"context"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

func application(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "myapps.example.com/v1",
		"kind":       "Application",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"image": "nginx"},
	}}
}

func (t *tour) createApplication(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return t.apps.Create(ctx, application(name), metav1.CreateOptions{})
}

// createDeployment makes one without pods: nothing runs them here.
func (t *tour) createDeployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	labels := map[string]string{"app": name}
	containers := []corev1.Container{{Name: "web", Image: "nginx:1.27"}}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: containers},
			},
		},
	}
	return t.typed.AppsV1().Deployments(t.namespace).Create(ctx, deployment, metav1.CreateOptions{})
}

func (t *tour) customResourceCRUD(ctx context.Context) error {
	made, err := t.createApplication(ctx, "crud")
	if err != nil {
		return err
	}
	if err := field(made, int64(1), "spec", "replicas"); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	_, err = t.createApplication(ctx, "crud")
	if err := refused("create again", err, http.StatusConflict, metav1.StatusReasonAlreadyExists); err != nil {
		return err
	}
	wrong := application("wrong")
	wrong.Object["spec"] = map[string]any{"image": ""}
	_, err = t.apps.Create(ctx, wrong, metav1.CreateOptions{})
	if err := refused("wrong", err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid); err != nil {
		return err
	}
	if err := same("causes", causes(err), []string{"FieldValueInvalid spec.image"}); err != nil {
		return err
	}
	read, err := t.apps.Get(ctx, "crud", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := same("what was read", read.Object, made.Object); err != nil {
		return err
	}
	_ = unstructured.SetNestedField(read.Object, int64(3), "spec", "replicas")
	changed, err := t.apps.Update(ctx, read, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := same("generation", changed.GetGeneration(), int64(2)); err != nil {
		return err
	}
	if err := t.apps.Delete(ctx, "crud", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = t.apps.Get(ctx, "crud", metav1.GetOptions{})
	return notFound(err)
}

func (t *tour) builtInCRUD(ctx context.Context) error {
	maps := t.typed.CoreV1().ConfigMaps(t.namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"},
		Data:       map[string]string{"a": "1"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := same("length of the name", len(made.Name), len("made-12345")); err != nil {
		return err
	}
	made.Data["b"] = "2"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	read, err := maps.Get(ctx, made.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := same("data", read.Data, map[string]string{"a": "1", "b": "2"}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = maps.Get(ctx, made.Name, metav1.GetOptions{})
	return notFound(err)
}

func (t *tour) statusSubresource(ctx context.Context) error {
	made, err := t.createApplication(ctx, "status")
	if err != nil {
		return err
	}
	_ = unstructured.SetNestedField(made.Object, "Running", "status", "phase")
	_ = unstructured.SetNestedField(made.Object, "other", "spec", "image")
	changed, err := t.apps.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := field(changed, "Running", "status", "phase"); err != nil {
		return err
	}
	if err := field(changed, "nginx", "spec", "image"); err != nil {
		return fmt.Errorf("written through status: %w", err)
	}
	if err := same("generation", changed.GetGeneration(), int64(1)); err != nil {
		return err
	}
	_ = unstructured.SetNestedField(changed.Object, "Lost", "status", "phase")
	changed, err = t.apps.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := field(changed, "Running", "status", "phase"); err != nil {
		return fmt.Errorf("written past status: %w", err)
	}
	deployment, err := t.createDeployment(ctx, "status")
	if err != nil {
		return err
	}
	deployment.Status.ObservedGeneration = 1
	deployment, err = t.typed.AppsV1().Deployments(t.namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return same("observed generation", deployment.Status.ObservedGeneration, int64(1))
}

func (t *tour) scaleSubresource(ctx context.Context) error {
	if _, err := t.createApplication(ctx, "scale"); err != nil {
		return err
	}
	scale, err := t.apps.Get(ctx, "scale", metav1.GetOptions{}, "scale")
	if err != nil {
		return err
	}
	if err := same("kind", scale.GetAPIVersion()+" "+scale.GetKind(), "autoscaling/v1 Scale"); err != nil {
		return err
	}
	_ = unstructured.SetNestedField(scale.Object, int64(5), "spec", "replicas")
	if _, err := t.apps.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil {
		return err
	}
	app, err := t.apps.Get(ctx, "scale", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := field(app, int64(5), "spec", "replicas"); err != nil {
		return err
	}
	if _, err := t.createDeployment(ctx, "scale"); err != nil {
		return err
	}
	deployments := t.typed.AppsV1().Deployments(t.namespace)
	wanted, err := deployments.GetScale(ctx, "scale", metav1.GetOptions{})
	if err != nil {
		return err
	}
	wanted.Spec.Replicas = 2
	if _, err := deployments.UpdateScale(ctx, "scale", wanted, metav1.UpdateOptions{}); err != nil {
		return err
	}
	deployment, err := deployments.Get(ctx, "scale", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return same("replicas", *deployment.Spec.Replicas, int32(2))
}

func (t *tour) staleUpdateConflicts(ctx context.Context) error {
	ours, err := t.createApplication(ctx, "stale")
	if err != nil {
		return err
	}
	theirs := ours.DeepCopy()
	_ = unstructured.SetNestedField(theirs.Object, "theirs", "spec", "image")
	if _, err := t.apps.Update(ctx, theirs, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_ = unstructured.SetNestedField(ours.Object, int64(2), "spec", "replicas")
	_, err = t.apps.Update(ctx, ours, metav1.UpdateOptions{})
	if err := refused("stale update", err, http.StatusConflict, metav1.StatusReasonConflict); err != nil {
		return err
	}
	tries := 0
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if tries++; tries > 1 {
			if ours, err = t.apps.Get(ctx, "stale", metav1.GetOptions{}); err != nil {
				return err
			}
			_ = unstructured.SetNestedField(ours.Object, int64(2), "spec", "replicas")
		}
		ours, err = t.apps.Update(ctx, ours, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := same("tries", tries, 2); err != nil {
		return err
	}
	return field(ours, "theirs", "spec", "image")
}

func (t *tour) finalizerHoldsDeletion(ctx context.Context) error {
	held := application("held")
	held.SetFinalizers([]string{"myapps.example.com/cleanup"})
	held, err := t.apps.Create(ctx, held, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	other := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	err = t.apps.Delete(ctx, "held", other)
	if err := refused("delete of another uid", err, http.StatusConflict, metav1.StatusReasonConflict); err != nil {
		return err
	}
	ours := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(held.GetUID()))}
	if err := t.apps.Delete(ctx, "held", ours); err != nil {
		return err
	}
	held, err = t.apps.Get(ctx, "held", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("held: %w", err)
	}
	if held.GetDeletionTimestamp() == nil {
		return fmt.Errorf("it is not marked as being deleted")
	}
	more := []byte(`{"metadata":{"finalizers":["myapps.example.com/cleanup","myapps.example.com/late"]}}`)
	_, err = t.apps.Patch(ctx, "held", types.MergePatchType, more, metav1.PatchOptions{})
	if err := refused("a late finalizer", err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid); err != nil {
		return err
	}
	none := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := t.apps.Patch(ctx, "held", types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
		return err
	}
	_, err = t.apps.Get(ctx, "held", metav1.GetOptions{})
	return notFound(err)
}
