package cors

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// corsLines returns the CORS fields and Vary.
func corsLines(h http.Header) map[string]string {
	lines := map[string]string{}
	for name, values := range h {
		if name == "Vary" || strings.HasPrefix(name, "Access-Control-") {
			lines[strings.TrimPrefix(name, "Access-Control-")] = strings.Join(values, ", ")
		}
	}
	return lines
}

var (
	public = New(Options{Origins: []string{Any}, Headers: []string{Any}, Credentials: true, MaxAge: time.Minute})
	app    = New(Options{
		Origins: []string{"https://app.example", "https://other.example:8443"}, Methods: []string{"PUT", "DELETE"},
		Headers: []string{"X-Token"}, Expose: []string{"X-Total"}, Credentials: true, MaxAge: 10 * time.Minute,
	})
	plain = New(Options{Origins: []string{"https://app.example"}, Methods: []string{Any}})
)

// Responses say what the policy says, whatever the application said.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy  *Policy
		request string
		want    map[string]string
	}{
		{app, "Origin: https://app.example", map[string]string{
			"Allow-Origin": "https://app.example", "Allow-Credentials": "true",
			"Expose-Headers": "X-Total", "Vary": "Accept, Origin",
		}},
		{app, "Origin: https://other.example:8443", map[string]string{
			"Allow-Origin": "https://other.example:8443", "Allow-Credentials": "true",
			"Expose-Headers": "X-Total", "Vary": "Accept, Origin",
		}},
		{app, "Origin: https://other.example", map[string]string{"Vary": "Accept, Origin"}},
		{app, "Origin: https://app.example.evil.example", map[string]string{"Vary": "Accept, Origin"}},
		{app, "Origin: HTTPS://app.example", map[string]string{"Vary": "Accept, Origin"}},
		{app, "Origin: http://app.example", map[string]string{"Vary": "Accept, Origin"}},
		{app, "Origin: null", map[string]string{"Vary": "Accept, Origin"}},
		{app, "Accept: */*", map[string]string{"Vary": "Accept, Origin"}},
		{plain, "Origin: https://app.example", map[string]string{
			"Allow-Origin": "https://app.example", "Vary": "Accept, Origin",
		}},
		{public, "Origin: https://anywhere.example", map[string]string{"Allow-Origin": "*", "Vary": "Accept"}},
		{public, "Origin: null", map[string]string{"Allow-Origin": "*", "Vary": "Accept"}},
		{public, "Accept: */*", map[string]string{"Allow-Origin": "*", "Vary": "Accept"}},
	} {
		response := header("Vary: Accept")
		for _, field := range fields {
			response.Set(field, "of the application")
		}
		c.policy.SetFields(header(c.request), response)
		if diff := cmp.Diff(c.want, corsLines(response)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.request, diff)
		}
	}
	response := header("Access-Control-Allow-Origin: x", "Vary: Accept")
	(*Policy)(nil).SetFields(header("Origin: https://app.example"), response)
	if len(response) != 2 || response.Get("Access-Control-Allow-Origin") != "x" {
		t.Errorf("no policy changes the response to %v", response)
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	const vary = "Access-Control-Request-Method, Access-Control-Request-Headers"
	for name, c := range map[string]struct {
		policy  *Policy
		origin  string
		allowed bool
		want    map[string]string
	}{
		"named": {app, "https://app.example", true, map[string]string{
			"Allow-Origin": "https://app.example", "Allow-Credentials": "true", "Allow-Methods": "PUT, DELETE",
			"Allow-Headers": "X-Token", "Max-Age": "600", "Vary": vary + ", Origin",
		}},
		"other": {app, "https://evil.example", false, map[string]string{"Vary": vary + ", Origin"}},
		"any header": {public, "https://x.example", true, map[string]string{
			"Allow-Origin": "*", "Allow-Headers": "authorization,x-a", "Max-Age": "60", "Vary": vary,
		}},
		"any method": {plain, "https://app.example", true, map[string]string{
			"Allow-Origin": "https://app.example", "Allow-Methods": "PATCH", "Max-Age": "0", "Vary": vary + ", Origin",
		}},
	} {
		request := header("Origin: "+c.origin, "Access-Control-Request-Method: PATCH",
			"Access-Control-Request-Headers: authorization,x-a", "Access-Control-Request-Private-Network: true")
		response := http.Header{}
		if got := c.policy.Preflight(request, response); got != c.allowed {
			t.Errorf("%s: %t", name, got)
		}
		if diff := cmp.Diff(c.want, corsLines(response)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAllowsCredentials(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy *Policy
		lines  []string
		want   bool
	}{
		{app, []string{"Origin: https://app.example"}, true},
		{app, []string{"Origin: https://evil.example"}, false},
		{app, []string{"Origin: https://app.example", "Origin: https://app.example"}, false},
		{app, nil, false},
		{plain, []string{"Origin: https://app.example"}, false},
		{public, []string{"Origin: https://app.example"}, false},
		{nil, []string{"Origin: https://app.example"}, false},
	} {
		if got := c.policy.AllowsCredentials(header(c.lines...)); got != c.want {
			t.Errorf("%q: %t, want %t", c.lines, got, c.want)
		}
	}
}

func TestIsPreflight(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]bool{
		"OPTIONS|Origin: https://a.example|Access-Control-Request-Method: PUT":                                       true,
		"GET|Origin: https://a.example|Access-Control-Request-Method: PUT":                                           false,
		"OPTIONS|Origin: https://a.example":                                                                          false,
		"OPTIONS|Access-Control-Request-Method: PUT":                                                                 false,
		"OPTIONS|Origin: https://a.example|Access-Control-Request-Method: PUT|Access-Control-Request-Method: DELETE": false,
	} {
		parts := strings.Split(lines, "|")
		r := httptest.NewRequest(parts[0], "/", nil)
		r.Header = header(parts[1:]...)
		if got := IsPreflight(r); got != want {
			t.Errorf("%s: %t", lines, got)
		}
	}
}

func TestProvesNothing(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Origin": true, "User-Agent": true, "X-App-Token": true,
		"Authorization": false, "Cookie": false, "Proxy-Authorization": false, "Proxy_Authorization": false,
		"X-Gateway-Token": false, "X_gateway_token": false, "X-Http-Method-Override": false, "X_HTTP_Method_Override": false,
	} {
		if got := ProvesNothing(http.Header{"Accept": {"*/*"}, name: {"x"}}, "X-Gateway-Token"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if !ProvesNothing(http.Header{"X-Gateway-Token": {"x"}}, "") {
		t.Error("a header that nobody names is a credential")
	}
}

func TestCheckOrigin(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]string{
		"https://app.example": "", "https://app.example:8443": "", "http://localhost:5173": "",
		"http://[::1]:3000": "", "capacitor://localhost": "",
		"null": "sandboxed", "": "not an origin", "app.example": "not an origin", "https://": "not an origin",
		"https://app.example/": "not an origin", "https://user@app.example": "not an origin",
		"https://app.example?x": "not an origin", "https://app.example#": "not an origin",
		"https://*.example": "wildcard", "https://App.example": "lower case",
		"https://app.example:443": "default port", "http://app.example:80": "default port",
		"https://app.example:": "default port",
	} {
		if err := CheckOrigin(origin); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %q", origin, err, want)
		}
	}
}
