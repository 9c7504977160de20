// What Argo CD reads of an object's annotations when it prunes and deletes, by its own function.
//
// Here because Argo CD itself is too large to be built for two annotations. Reads a JSON list of objects, writes for each
// the options that keep it. Must not know which objects should be kept.
package main

import (
	"encoding/json"
	"os"

	"github.com/argoproj/gitops-engine/pkg/sync/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotation and value, as controller/appcontroller.go and pkg/sync/sync_context.go of Argo CD ask for them.
var options = [][2]string{
	{"argocd.argoproj.io/sync-options", "Prune=false"},
	{"argocd.argoproj.io/sync-options", "Delete=false"},
	{"helm.sh/resource-policy", "keep"},
}

func main() {
	var objects []map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		panic(err)
	}
	kept := make([][]string, len(objects))
	for at, object := range objects {
		kept[at] = []string{}
		for _, option := range options {
			if resource.HasAnnotationOption(&unstructured.Unstructured{Object: object}, option[0], option[1]) {
				kept[at] = append(kept[at], option[1])
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(kept); err != nil {
		panic(err)
	}
}
