// Command informer is client-go's dynamic shared informer, driven line by line by `skopos-bench watch`.
//
// It says "ready", begins at "start", says "synced N" once cache and handler have N objects, and answers
// "count" with how many events its one handler has seen.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var applications = schema.GroupVersionResource{Group: "myapps.example.com", Version: "v1", Resource: "applications"}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: informer KUBECONFIG [strip]")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	strip := len(os.Args) > 2 && os.Args[2] == "strip"
	var seen atomic.Uint64
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for lines.Scan() {
		switch lines.Text() {
		case "start":
			go follow(client, &seen, strip)
		case "count":
			fmt.Println("count", seen.Load(), seen.Load())
		default:
			log.Fatal("unknown command ", lines.Text())
		}
	}
}

func follow(client dynamic.Interface, seen *atomic.Uint64, strip bool) {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(applications).Informer()
	if strip {
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			log.Fatal(err)
		}
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { seen.Add(1) },
		UpdateFunc: func(any, any) { seen.Add(1) },
		DeleteFunc: func(any) { seen.Add(1) },
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	go informer.RunWithContext(ctx)
	if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		fmt.Println("synced", len(informer.GetStore().ListKeys()))
	}
}

func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(*unstructured.Unstructured); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}
