package own_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// TestReference checks that docs/http.md lists each endpoint with each of its
// methods, and no other.
func TestReference(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	page := string(must.Get(os.ReadFile("../../../docs/http.md"))(t))
	for _, row := range regexp.MustCompile("(?m)^\\| (`(?:GET|POST) /.*?) \\|").FindAllStringSubmatch(page, -1) {
		for _, request := range strings.Split(row[1], ", ") {
			documented[strings.Trim(request, "`")] = true
		}
	}
	delete(documented, "GET /") // the start page, if no route matches
	withApp := rig.Edit(t, rig.Base, "auth: [session]}", "auth: [session], app: {title: Wiki}}")
	r := rig.NewProvider(t).Rig(withApp, "session: {csrf_token: true}\noauth: {enabled: true}\n")
	for _, name := range r.Config.OwnEndpoints() {
		var methods []string
		switch {
		case name == "account/people": // only those who look after accounts get an answer of it, and below
			methods = []string{"GET"}
		case strings.HasPrefix(name, "account/people/"):
			methods = []string{"POST"}
		default:
			allowed := r.Want(405, "PATCH", "/"+name, "").Header().Get("Allow")
			methods = strings.Split(strings.Replace(allowed, "GET, HEAD", "GET", 1), ", ")
		}
		for _, method := range methods {
			if method == "OPTIONS" { // for preflights of browsers
				continue
			}
			request := method + " /" + strings.Replace(name, "small", "PROVIDER", 1)
			if !documented[request] {
				t.Errorf("docs/http.md does not list %s", request)
			}
			delete(documented, request)
		}
	}
	for request := range documented {
		t.Errorf("docs/http.md lists %s, which does not exist", request)
	}
}
