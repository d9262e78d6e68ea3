package endpoint

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"authgate/gateway/must"
	"authgate/gateway/provider"
	"authgate/gateway/web"
)

func options(names ...string) Options {
	return Options{Names: names, Site: &web.Site{Service: &web.Service{}, Prefix: "/auth/"}}
}

// A name without an endpoint is an error: a configuration that promises an
// endpoint, and refuses routes at its path, does not start without it.
func TestNewRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing", "", "Login", "backchannel-logout/stranger"} {
		if _, err := New(options("login", name)); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Labels are values of metrics, so they do not name what the configuration
// chooses.
func TestLabels(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"login": "authgate/login", "callback": "authgate/callback", "auth/callback": "authgate/callback", "callback/small": "authgate/callback",
		".well-known/jwks.json":    "authgate/.well-known/jwks.json",
		"backchannel-logout/small": "authgate/backchannel-logout", "frontchannel-logout/small": "authgate/frontchannel-logout",
	} {
		if got := label(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	endpoints, err := New(options("login"))
	if err != nil || len(endpoints) != 1 || endpoints["/auth/login"] == nil {
		t.Errorf("%v, %v", endpoints, err)
	}
}

// TestReference checks that docs/http.md lists each endpoint with each of its
// methods, and no other.
func TestReference(t *testing.T) {
	t.Parallel()
	page := string(must.Get(os.ReadFile("../../docs/http.md"))(t))
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`(?:GET|POST) /.*?) \\|").FindAllStringSubmatch(page, -1) {
		for _, request := range strings.Split(row[1], ", ") {
			documented[strings.Trim(request, "`")] = true
		}
	}
	o := options()
	o.Federation.Providers = []*Provider{{Provider: provider.New(provider.Options{Name: "PROVIDER"})}}
	delete(documented, "GET /") // the start page, if no route matches
	for name, row := range o.rows(o.account()) {
		for method := range row.actions {
			request := method + " /" + name
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
