package e2e

import (
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
	right    = `{"username":"alice","password":"wonderland"}`
)

// badInputs are requests to own endpoints, with the status of the answer. The
// tests of package gateway have all other malformed bodies.
var badInputs = map[string]struct {
	path, media, body string
	want              int
}{
	"login: nothing":                     {"/login", "", "", 401},
	"login: cut off":                     {"/login", typeJSON, `{"username":"alice","password":"wonder`, 400},
	"login: deep arrays":                 {"/login", typeJSON, strings.Repeat("[", 60_000), 400},
	"login: deep and closed":             {"/login", typeJSON, `{"a":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`, 400},
	"login: byte order mark":             {"/login", typeJSON, "\xef\xbb\xbf" + right, 400},
	"login: a NUL":                       {"/login", typeJSON, `{"username":"alice","password":"wonderland\u0000"}`, 401},
	"login: long password":               {"/login", typeJSON, `{"username":"alice","password":"` + strings.Repeat("x", 60_000) + `"}`, 401},
	"login: no media type":               {"/login", "", right, 415},
	"login: form with two names":         {"/login", typeForm, "username=bob&username=alice&password=wonderland", 400},
	"login: unknown mechanism":           {"/login?mechanism=basic", typeJSON, right, 400},
	"login: empty mechanism":             {"/login?mechanism=", typeJSON, right, 400},
	"login: two mechanisms":              {"/login?mechanism=session&mechanism=bearer", typeJSON, right, 400},
	"login: broken query":                {"/login?mechanism=%zz", typeJSON, right, 400},
	"refresh: member twice":              {"/refresh", typeJSON, `{"refresh_token":"x","refresh_token":"y"}`, 400},
	"refresh: not UTF-8":                 {"/refresh", typeJSON, "{\"refresh_token\":\"\xff\"}", 400},
	"refresh: long garbage":              {"/refresh", typeJSON, `{"refresh_token":"` + strings.Repeat("A", 60_000) + `"}`, 401},
	"refresh: a form":                    {"/refresh", typeForm, `refresh_token=x`, 415},
	"refresh: one byte more than 64 KiB": {"/refresh", typeJSON, strings.Repeat(" ", 64<<10+1), 413},
}

func basicOf(credential string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
}

// inputs has a route for each mechanism, and room for many failed logins.
const inputs = people + `
limits: {login_failures: 10000}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
`

// TestBadInput: bad input gets a clear error, sets no cookie, and ends no login.
func TestBadInput(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, inputs+app(up.url))
	c := g.stranger()
	before := g.signIn(c, "alice")
	for name, bad := range badInputs {
		t.Run(name, func(t *testing.T) {
			headers := []string{}
			if bad.media != "" {
				headers = []string{"Content-Type", bad.media}
			}
			a := g.do(c, "POST", bad.path, bad.body, headers...)
			wantProblem(t, a, bad.want)
			if got := a.header.Values("Set-Cookie"); len(got) > 0 {
				t.Errorf("it sets a cookie: %q", got)
			}
		})
	}
	up.none(t)
	stillThere(t, g, before)
}

// stillThere checks that a login from before and a new one work.
func stillThere(t *testing.T, g *instance, before signIn) {
	t.Helper()
	c := g.stranger()
	for _, s := range []signIn{before, g.signIn(c, "alice")} {
		for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
			if got := g.status(c, "GET", "/secure", credential...); got != http.StatusOK {
				t.Errorf("%s: %d", credential[0], got)
			}
		}
		if _, status, err := g.tryRefresh(c, s.refresh); err != nil || status != http.StatusOK {
			t.Errorf("refresh: %d, %v", status, err)
		}
	}
	if got := g.status(c, "GET", "/basic", "Authorization", basicService); got != http.StatusOK {
		t.Errorf("Basic: %d", got)
	}
}

// TestHugeBodies: 413 over HTTP/1.1 and HTTP/2, with and without a length.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	g := start(t, inputs+app(record(t).url))
	before := g.signIn(g.stranger(), "alice")
	huge := strings.Repeat("x", 10<<20)
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		for _, authorization := range []string{"", basicOf("alice:wonderland")} {
			for kind, body := range map[string]io.Reader{"length": strings.NewReader(huge), "no length": io.MultiReader(strings.NewReader(huge))} {
				t.Run(protocol+" "+authorization+" "+kind, func(t *testing.T) {
					request, err := http.NewRequest("POST", g.base+"/login", body)
					if err != nil {
						t.Fatal(err)
					}
					request.Header.Set("Content-Type", typeJSON)
					if authorization != "" {
						request.Header.Set("Authorization", authorization)
					}
					response, err := c.Do(request)
					if err != nil {
						t.Fatal(err)
					}
					defer response.Body.Close()
					content, err := io.ReadAll(response.Body)
					if err != nil {
						t.Fatal(err)
					}
					wantProblem(t, answer{status: response.StatusCode, header: response.Header, body: string(content)}, http.StatusRequestEntityTooLarge)
				})
			}
		}
	}
	stillThere(t, g, before)
}

// TestHugeHeaders: 431.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, inputs+app(up.url))
	before := g.signIn(g.stranger(), "alice")
	for name, header := range map[string]string{
		"one value":  "X-Large: " + strings.Repeat("x", 1<<20) + "\n",
		"many lines": strings.Repeat("X-Large: "+strings.Repeat("x", 1000)+"\n", 1000),
		"a cookie":   "Cookie: session_id=" + strings.Repeat("x", 1<<20) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			if a := g.raw(t, "GET /basic HTTP/1.1\nHost: localhost\n"+header+"\n"); a.status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("HTTP/1.1: %d", a.status)
			}
		})
	}
	t.Run("the target", func(t *testing.T) {
		if a := g.raw(t, "GET /"+strings.Repeat("x", 1<<20)+" HTTP/1.1\nHost: localhost\n\n"); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("HTTP/1.1: %d", a.status)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		status, err := g.get2(t, "/basic", slices.Repeat([]field{{"x-large", strings.Repeat("x", 100)}}, 500)...)
		if err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d, %v", status, err)
		}
	})
	up.none(t)
	stillThere(t, g, before)
}
