package main

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// same says what differs; what names the value.
func same(what string, got, want any) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s is %v, not %v", what, got, want)
}

// field compares a field of an object; numbers in objects are int64.
func field(object *unstructured.Unstructured, want any, path ...string) error {
	got, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		return err
	}
	return same(fmt.Sprint(path), got, want)
}

// refused checks that a call failed with a code and a reason.
func refused(what string, err error, code int32, reason metav1.StatusReason) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Errorf("%s: %v instead of a refusal with %d %s", what, err, code, reason)
	}
	got := status.Status()
	if got.Code != code || got.Reason != reason {
		return fmt.Errorf("%s: %d %s (%s) instead of %d %s", what, got.Code, got.Reason, got.Message, code, reason)
	}
	return nil
}

// notFound checks that an object is gone.
func notFound(err error) error {
	return refused("get after delete", err, http.StatusNotFound, metav1.StatusReasonNotFound)
}

// causes returns the fields that a refusal names.
func causes(err error) []string {
	var status apierrors.APIStatus
	var fields []string
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, fmt.Sprintf("%s %s", cause.Type, cause.Field))
		}
	}
	return fields
}
