package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
)

// The fast path takes the addresses in turn too, and does not count as a turn if it
// sends nothing.
func TestStartTakesTurns(t *testing.T) {
	t.Parallel()
	apps := []*application{newApplication(t, ok), newApplication(t, ok)}
	f := newFixture(t, time.Minute, apps[0].URL, apps[1].URL)
	way := f.Transport(0)
	start := func() bool {
		response, rest := way.Start(t.Context(), &http1.Plain{Method: "GET", Path: "/", Host: "app"})
		if response != nil {
			response.Close()
		}
		if response != nil || rest == way {
			return response != nil
		}
		late, err := rest.RoundTrip(&http.Request{ // on a slow machine
			Method: "GET", URL: &url.URL{Opaque: "/"}, Host: "app", Header: http.Header{},
		})
		if err != nil {
			t.Fatal(err)
		}
		late.Body.Close()
		return true
	}
	for range apps { // now both have an idle connection
		if start() {
			t.Error("sent without a connection")
		}
		if _, err := f.send(t.Context(), "GET", nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * len(apps) {
		if !start() {
			t.Error("not sent")
		}
	}
	for i, a := range apps {
		if n := a.requests.Load(); n != 3 {
			t.Errorf("address %d got %d requests, want 3", i, n)
		}
	}
	if n := f.took.Load(); n != 6 {
		t.Errorf("%d durations were observed, want 6", n)
	}
}

// A target that chose HTTP/2 has no fast path.
func TestFastPathProtocols(t *testing.T) {
	t.Parallel()
	way := newFixture(t, time.Minute, "http://a.invalid").Transport(0).transport
	way.chose("two.invalid", alpnHTTP2)
	way.chose("one.invalid", alpnHTTP1)
	for target, want := range map[string]*http1.Client{
		"http://two.invalid": way.plain, "https://two.invalid": nil,
		"https://one.invalid": way.secure, "https://new.invalid": way.secure,
		"h2c://one.invalid": nil, "unix:/run/app.sock": way.plain, "unix+h2c:/run/app.sock": nil,
	} {
		parsed, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if way.fast(newTarget(parsed, forwarding.HostClient)) != want {
			t.Errorf("%s has another client", target)
		}
	}
}

// plainly sends a request by the fast path, or the other way if that sends nothing,
// and returns the body of the response.
func plainly(ctx context.Context, way *Transport, path string) (string, error) {
	response, rest := way.Start(ctx, &http1.Plain{Method: "GET", Path: path, Host: "app"})
	if response != nil {
		defer response.Close()
		return string(response.Body), nil
	}
	r := &http.Request{Method: "GET", URL: &url.URL{Opaque: path}, Host: "app", Header: http.Header{}}
	late, err := rest.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer late.Body.Close()
	body, err := io.ReadAll(late.Body)
	return string(body), err
}

// Requests at the same time go to different addresses.
func TestStartSpreads(t *testing.T) {
	t.Parallel()
	var way *Transport
	serve := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, name) // a client that is gone fails the test
			if r.URL.Path == "/twice" {
				other, err := plainly(r.Context(), way, "/")
				if err != nil {
					t.Error(err)
				}
				_, _ = io.WriteString(w, other)
			}
		}
	}
	f := newFixture(t, time.Minute, newApplication(t, serve("a")).URL, newApplication(t, serve("b")).URL)
	way = f.Transport(0)
	for range 2 { // now both have an idle connection
		if _, err := f.send(t.Context(), "GET", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := plainly(t.Context(), way, "/twice"); got != "ba" && got != "ab" || err != nil {
		t.Errorf("two requests at once went to %q, %v", got, err)
	}
}

// If an address closes the connection without a response, and accepts no other, the
// request goes to the next address, as by RoundTrip.
func TestStartFailsOver(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(*Transport) (string, error){
		"fast":  func(way *Transport) (string, error) { return plainly(t.Context(), way, "/") },
		"other": func(way *Transport) (string, error) { return plainly(t.Context(), way, "//") },
	} {
		var dying *application
		dying = newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
			if dying.requests.Load() == 1 {
				return
			}
			dying.Listener.Close()
			panic(http.ErrAbortHandler)
		})
		other := newApplication(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other") })
		f := newFixture(t, time.Minute, other.URL, dying.URL)
		for range 2 { // now both have an idle connection
			if _, err := f.send(t.Context(), "GET", nil); err != nil {
				t.Fatal(err)
			}
		}
		got, err := send(f.Transport(0))
		if got != "other" || err != nil || f.took.Load() != 3 {
			t.Errorf("%s: %q, %v, %d durations were observed", name, got, err, f.took.Load())
		}
	}
}

// A request that is sent again may find that the address has begun to speak HTTP/2.
func TestStartFindsHTTP2(t *testing.T) {
	t.Parallel()
	var modern atomic.Bool
	a := &application{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.requests.Add(1) == 2 {
			modern.Store(true)
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	a.EnableHTTP2 = true
	a.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := a.TLS.Clone()
		if !modern.Load() {
			config.NextProtos = []string{alpnHTTP1}
		}
		return config, nil
	}}
	a.StartTLS()
	t.Cleanup(a.Close)
	f := newFixture(t, time.Minute, a.URL)
	way := f.Transport(0)
	way.transport.config.RootCAs = a.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		if got, err := plainly(t.Context(), way, "/"); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
