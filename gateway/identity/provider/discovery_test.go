package provider

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDiscoveryDocuments(t *testing.T) {
	const authorization, token = "authorization_endpoint", "token_endpoint"
	testLogins(t, "/token", []loginTest{
		{"complete", unchanged, ""},
		{"with endpoints on loopback", announced("end_session_endpoint", "http://[::1]:1/logout"), ""},
		{"of another issuer", announced("issuer", "https://evil.example"), "did not match the issuer"},
		{"of the issuer with a slash", func(f *fake) { f.discovery["issuer"] = f.idp + "/" }, "did not match the issuer"},
		{"without authorization_endpoint", announced(authorization, nil), "authorization_endpoint is missing"},
		{"without token_endpoint", announced(token, nil), "token_endpoint is missing"},
		{"without jwks_uri", announced("jwks_uri", nil), "jwks_uri is missing"},
		{"token endpoint in the clear", announced(token, "http://id.example.org/token"), "is not https"},
		{"keys in the clear", announced("jwks_uri", "http://id.example.org/keys"), "is not https"},
		{"userinfo in the clear", announced("userinfo_endpoint", "http://id.example.org/keys"), "is not https"},
		{"revocation in the clear", announced("revocation_endpoint", "http://127.0.0.1.example.org/"), "is not https"},
		{"an endpoint that is a script", announced(authorization, "javascript:alert(1)"), "not the address of an endpoint"},
		{"an endpoint of another scheme", announced(authorization, "ftp://id.example.org/"), "is not https"},
		{"an endpoint with a password", announced(token, "https://a:b@id.example.org/"), "not the address of an endpoint"},
		{"an endpoint with a fragment", announced(token, "https://id.example.org/#x"), "not the address of an endpoint"},
		{"an endpoint that is a number", announced(token, 1), "decode"},
		{"a member that appears twice", func(f *fake) {
			f.instead[discoveryPath] = sayJSON(strings.ReplaceAll(`{"issuer":"ID","issuer":"ID"}`, "ID", f.idp))
		}, `"issuer" appears twice`},
		{"no JSON", answers(discoveryPath, say(200, "text/html", "<h1>the-code</h1>")), "text/html"},
		{"not there", answers(discoveryPath, say(404, "text/plain", "the-code")), "404 Not Found"},
		{"nesting without end", answers(discoveryPath, sayJSON(strings.Repeat("[", 1<<20))), "exceeded max depth"},
	})
	for issuer, text := range map[string]string{"http://id.example.org": "is not https", "": "the issuer is missing"} {
		_, err := newFake(t).provider(func(o *Options) { o.Issuer = issuer }).AuthorizationURL(t.Context(), testAttempt)
		wantError(t, err, ErrFault, text)
	}
}

// A provider elsewhere cannot lead the gateway to services on its own machine.
func TestEndpointsHereAreForIssuersHere(t *testing.T) {
	for _, issuer := range []string{
		"https://id.example.org", "https://10.0.0.1", "https://169.254.0.1", "https://localhost", "https://[::1]",
	} {
		for _, name := range []string{
			"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri",
			"end_session_endpoint", "revocation_endpoint", "introspection_endpoint",
		} {
			for _, address := range []string{"http://127.0.0.1:1/x", "HTTP://localhost/x", "http://[::1]/x"} {
				f := newFake(t)
				f.idp = issuer
				f.discovery[name] = address
				text := name + ` "` + address + `" is on the gateway's machine`
				if strings.Contains(issuer, "localhost") || strings.Contains(issuer, "::1") {
					text = ""
				}
				_, err := f.provider(nil).AuthorizationURL(t.Context(), testAttempt)
				wantError(t, err, ErrFault, text)
			}
		}
	}
}

// New makes no call, and concurrent first logins fetch metadata and keys once.
func TestConcurrentFirstLogins(t *testing.T) {
	f := newFake(t)
	p := f.provider(nil)
	f.wantCalled(t, discoveryPath, 0)
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
	for path, want := range map[string]int{discoveryPath: 1, "/keys": 1, "/token": logins, "/userinfo": logins} {
		f.wantCalled(t, path, want)
	}
}

// wantAt compares the seconds at which discovery was called.
func (f *fake) wantAt(t *testing.T, want ...int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.calls[discoveryPath]); diff != "" {
		t.Errorf("calls of discovery (-want +got):\n%s", diff)
	}
}

// ask needs the metadata, and returns what they say.
func ask(t *testing.T, p *Provider) string {
	t.Helper()
	got, err := p.AuthorizationURL(t.Context(), testAttempt)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return got
}

// Discovery that failed is repeated in the background with growing pauses, until it
// succeeds or Close is called.
func TestDiscoveryIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake, p *Provider) {
		f.fail(discoveryPath)
		_, err := p.AuthorizationURL(t.Context(), testAttempt)
		wantError(t, err, ErrFault, "503")
		time.Sleep(250 * time.Second)
		f.wantAt(t, 0, 1, 3, 7, 15, 31, 63, 123, 183, 243)
		f.mend(discoveryPath)
		time.Sleep(55 * time.Second)
		ask(t, p)
		time.Sleep(30 * time.Minute)
		f.wantAt(t, 0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303)
	})
	inBubble(t, func(t *testing.T, f *fake, p *Provider) {
		f.fail(discoveryPath)
		if _, err := p.AuthorizationURL(t.Context(), testAttempt); err == nil {
			t.Error("no error")
		}
		p.Close()
		time.Sleep(time.Hour)
		f.wantAt(t, 0)
	})
}

// For a second after a failure callers get it at once; later ones try.
func TestDiscoveryFailureIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake, p *Provider) {
		f.fail(discoveryPath)
		for range 100 {
			_, err := p.AuthorizationURL(t.Context(), testAttempt)
			wantError(t, err, ErrFault, "503")
		}
		f.wantAt(t, 0)
		time.Sleep(5 * time.Second) // retries at 1 and 3, the next at 7
		f.mend(discoveryPath)
		ask(t, p)
		time.Sleep(10 * time.Minute)
		f.wantAt(t, 0, 1, 3, 5)
	})
}

// An old document serves while it is renewed, even where that fails.
func TestDiscoveryIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake, p *Provider) {
		ask(t, p)
		time.Sleep(metadataLifetime)
		ask(t, p)
		f.wantAt(t, 0)
		time.Sleep(time.Second)
		f.fail(discoveryPath)
		ask(t, p)
		ask(t, p)
		time.Sleep(2 * time.Second) // tried at once, and after a second
		ask(t, p)
		f.wantAt(t, 0, 3601, 3602)
		f.mend(discoveryPath)
		f.change(func() { f.discovery["authorization_endpoint"] = "https://moved.example/authorize" })
		time.Sleep(time.Minute)
		if got := ask(t, p); !strings.HasPrefix(got, "https://moved.example/authorize?") {
			t.Errorf("leads to %s, want the new place", got)
		}
	})
}

// A caller that has seen an older state gets the newer one, without a fetch.
func TestCachedTriesOnceForAll(t *testing.T) {
	fetches, failure, down := 0, error(nil), errors.New("down")
	c := cached[int]{now: time.Now, background: newBackground()}
	defer c.background.close()
	c.fetch = func(context.Context) (int, error) { fetches++; return fetches, failure }
	want := func(what string, seen, value, tries int, failed error) {
		t.Helper()
		got, err := c.renew(t.Context(), seen)
		if err != nil || got.value != value || got.tries != tries || got.err != failed || fetches != tries {
			t.Errorf("%s: got %+v, %v after %d fetches; want %d, %v after %d", what, got, err, fetches, value, failed, tries)
		}
	}
	want("first", 0, 1, 1, nil)
	want("with old knowledge", 0, 1, 1, nil)
	failure = down
	want("after a failure", 1, 1, 2, down)
	c.permitted = func() bool { return false }
	want("not permitted", 2, 1, 2, down)
}

// Of two that wait, one may go away, and the other gets the answer.
func TestCachedOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cached[string]{now: time.Now, background: newBackground()}
		c.fetch = func(ctx context.Context) (string, error) {
			if !sleep(ctx, time.Minute) {
				return "", ctx.Err()
			}
			return "found", nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			if _, err := c.renew(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the first: %v", err)
			}
		}()
		time.Sleep(time.Millisecond)
		if got, err := c.renew(t.Context(), 0); err != nil || got.value != "found" {
			t.Errorf("the second: %+v, %v", got, err)
		}
		c.background.close()
		if _, err := c.renew(t.Context(), 1); !errors.Is(err, errClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}
