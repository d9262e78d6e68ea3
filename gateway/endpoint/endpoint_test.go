package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// rows are two endpoints, of which one has a label of its own.
func rows() []Row {
	return []Row{
		{Name: "login", Method: http.MethodGet}, {Name: "login", Method: http.MethodPost},
		{Name: "backchannel-logout/small", Label: "backchannel-logout", Method: http.MethodPost, Anew: true},
	}
}

func options() *Options {
	return &Options{Site: &web.Site{Service: &web.Service{}, Places: &places.Places{Prefix: "/auth/"}}}
}

// A name without an endpoint is an error: a configuration that promises an
// endpoint, and refuses routes at its path, does not start without it.
func TestNewRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing", "", "Login", "backchannel-logout/stranger"} {
		if _, err := New(options(), []string{"login", name}, rows()); err == nil ||
			!strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A rule about the user of a row that needs no session would be kept by nothing.
func TestNewRefusesRulesWithoutSessions(t *testing.T) {
	t.Parallel()
	may := func(*policy.Identity) error { return nil }
	for name, row := range map[string]Row{
		"fresh": {Name: "login", Fresh: time.Minute}, "may": {Name: "login", May: may},
	} {
		if _, err := New(options(), []string{"login"}, []Row{row}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		row.Sessions = true
		if _, err := New(options(), []string{"login"}, []Row{row}); err != nil {
			t.Errorf("%s, with Sessions: %v", name, err)
		}
	}
}

// The rows of a name are one endpoint. Labels are values of metrics, so they do not name
// what the configuration chooses. Without a route that needs a sign-in, errors do not
// offer one, but for those of a sign-in itself.
func TestRowsOfAName(t *testing.T) {
	t.Parallel()
	endpoints, err := New(options(), []string{"login", "backchannel-logout/small"}, rows())
	if err != nil || len(endpoints) != 2 {
		t.Fatalf("%v, %v", endpoints, err)
	}
	both, logout := endpoints["/auth/login"], endpoints["/auth/backchannel-logout/small"]
	if both == nil || len(both.rows) != 2 || both.label != "authgate/login" || both.signIn != nil {
		t.Errorf("%+v", both)
	}
	if logout == nil || len(logout.rows) != 1 || logout.label != "authgate/backchannel-logout" || logout.signIn == nil ||
		!logout.signIn.Always {
		t.Errorf("%+v", logout)
	}
}
