package provider

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

func TestDiscoveryDocuments(t *testing.T) {
	testLogins(t, []loginTest{
		{"complete", func(f *fake) {}, ""},
		{"with endpoints on loopback", func(f *fake) { f.discovery["end_session_endpoint"] = "http://[::1]:1/logout" }, ""},
		{"of another issuer", func(f *fake) { f.discovery["issuer"] = "https://evil.example" }, "did not match the issuer"},
		{"of the issuer with a slash", func(f *fake) { f.discovery["issuer"] = f.idp + "/" }, "did not match the issuer"},
		{"without an issuer", func(f *fake) { f.discovery["issuer"] = nil }, "did not match the issuer"},
		{"without authorization_endpoint", func(f *fake) { f.discovery["authorization_endpoint"] = nil }, "authorization_endpoint is missing"},
		{"without token_endpoint", func(f *fake) { f.discovery["token_endpoint"] = nil }, "token_endpoint is missing"},
		{"without jwks_uri", func(f *fake) { f.discovery["jwks_uri"] = nil }, "jwks_uri is missing"},
		{"token endpoint in the clear", func(f *fake) { f.discovery["token_endpoint"] = "http://id.example.org/token" }, "is not https"},
		{"keys in the clear", func(f *fake) { f.discovery["jwks_uri"] = "http://id.example.org/keys" }, "is not https"},
		{"revocation in the clear", func(f *fake) { f.discovery["revocation_endpoint"] = "http://127.0.0.1.example.org/" }, "is not https"},
		{"an endpoint that is a script", func(f *fake) { f.discovery["authorization_endpoint"] = "javascript:alert(1)" }, "not the address of an endpoint"},
		{"an endpoint of another scheme", func(f *fake) { f.discovery["authorization_endpoint"] = "ftp://id.example.org/" }, "is not https"},
		{"an endpoint with a password", func(f *fake) { f.discovery["token_endpoint"] = "https://a:b@id.example.org/" }, "not the address of an endpoint"},
		{"an endpoint that is a number", func(f *fake) { f.discovery["token_endpoint"] = 1 }, "decode"},
		{"a member that appears twice", func(f *fake) {
			f.instead[discoveryPath] = say(200, "application/json", strings.Replace(`{"issuer":"ID","issuer":"ID"}`, "ID", f.idp, 2))
		}, `"issuer" appears twice`},
		{"no JSON", func(f *fake) { f.instead[discoveryPath] = say(200, "text/html", "<h1>the-code</h1>") }, "text/html"},
		{"not there", func(f *fake) { f.instead[discoveryPath] = say(404, "text/plain", "the-code") }, "404 Not Found"},
		{"nesting without end", func(f *fake) {
			f.instead[discoveryPath] = say(200, "application/json", strings.Repeat("[", 1<<20))
		}, "exceeded max depth"},
	})
	for issuer, text := range map[string]string{"http://id.example.org": "is not https", "": "the issuer is missing"} {
		_, err := newFake(t, clocktest.New().Now).provider(func(o *Options) { o.Issuer = issuer }).AuthorizationURL(t.Context(), testAttempt)
		wantError(t, err, ErrFault, text)
	}
}

// New makes no call, and concurrent first logins fetch metadata and keys once.
func TestConcurrentFirstLogins(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	p := f.provider(nil)
	if len(f.calls) != 0 {
		t.Errorf("New called %v", f.calls)
	}
	const logins = 50
	var all sync.WaitGroup
	for range logins {
		all.Go(func() {
			if _, err := exchange(t, p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	want := map[string]int{discoveryPath: 1, "/keys": 1, "/token": logins, "/userinfo": logins}
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Error(diff)
	}
}

// timedFake counts the calls of discovery by the second since the start.
func timedFake(t *testing.T) (f *fake, p *Provider, calls func() []int) {
	f = newFake(t, time.Now)
	var mu sync.Mutex
	var at []int
	started := time.Now()
	o := f.options()
	o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == discoveryPath {
			mu.Lock()
			at = append(at, int(time.Since(started).Seconds()))
			mu.Unlock()
		}
		return f.RoundTrip(r)
	})
	p = New(o)
	t.Cleanup(p.Close)
	return f, p, func() []int {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Discovery that failed is repeated in the background with growing pauses, until it
// succeeds.
func TestDiscoveryIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, calls := timedFake(t)
		f.change(func() { f.instead[discoveryPath] = say(503, "text/plain", "") })
		_, err := p.AuthorizationURL(t.Context(), testAttempt)
		wantError(t, err, ErrFault, "503")

		time.Sleep(250 * time.Second)
		if diff := cmp.Diff([]int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}, calls()); diff != "" {
			t.Error(diff)
		}
		f.change(func() { delete(f.instead, discoveryPath) })
		time.Sleep(55 * time.Second)
		if got := len(calls()); got != 11 {
			t.Errorf("%d calls, want one more", got)
		}
		if _, err := p.AuthorizationURL(t.Context(), testAttempt); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Minute)
		if got := len(calls()); got != 11 {
			t.Errorf("%d calls, though the document is at hand", got)
		}
	})
}

// For a second after a failure callers get it at once; later ones try.
func TestDiscoveryFailureIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, calls := timedFake(t)
		f.change(func() { f.instead[discoveryPath] = say(503, "text/plain", "") })
		for range 100 {
			_, err := p.AuthorizationURL(t.Context(), testAttempt)
			wantError(t, err, ErrFault, "503")
		}
		if diff := cmp.Diff([]int{0}, calls()); diff != "" {
			t.Error(diff)
		}
		time.Sleep(5 * time.Second) // retries at 1 and 3, the next at 7
		f.change(func() { delete(f.instead, discoveryPath) })
		if _, err := p.AuthorizationURL(t.Context(), testAttempt); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff([]int{0, 1, 3, 5}, calls()); diff != "" {
			t.Error(diff)
		}
	})
}

// An old document serves while it is renewed, even where that fails.
func TestDiscoveryIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, calls := timedFake(t)
		ask := func() string {
			t.Helper()
			got, err := p.AuthorizationURL(t.Context(), testAttempt)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return got
		}
		ask()
		time.Sleep(59 * time.Minute)
		ask()
		if got := len(calls()); got != 1 {
			t.Errorf("%d calls within the hour", got)
		}
		time.Sleep(2 * time.Minute)
		f.change(func() { f.instead[discoveryPath] = say(503, "text/plain", "") })
		ask()
		ask()
		time.Sleep(2 * time.Second) // tried at once, and after a second
		ask()
		if diff := cmp.Diff([]int{0, 3660, 3661}, calls()); diff != "" {
			t.Error(diff)
		}
		f.change(func() {
			delete(f.instead, discoveryPath)
			f.discovery["authorization_endpoint"] = "https://moved.example/authorize"
		})
		time.Sleep(time.Minute)
		if got := ask(); !strings.HasPrefix(got, "https://moved.example/authorize?") {
			t.Errorf("leads to %s, want the new place", got)
		}
	})
}

// Close ends retries, however often they would go on.
func TestCloseEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, calls := timedFake(t)
		f.change(func() { f.instead[discoveryPath] = say(503, "text/plain", "") })
		if _, err := p.AuthorizationURL(t.Context(), testAttempt); err == nil {
			t.Error("no error")
		}
		p.Close()
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]int{0}, calls()); diff != "" {
			t.Error(diff)
		}
	})
}
