package upstream

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/upstream/http1"
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
		if rest == nil {
			return response != nil
		}
		late, err := rest.RoundTrip(&http.Request{Method: "GET", URL: &url.URL{Opaque: "/"}, Host: "app", Header: http.Header{}}) // on a slow machine
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
	way.protocols.Store("two.invalid", alpnHTTP2)
	way.protocols.Store("one.invalid", alpnHTTP1)
	for target, want := range map[string]*http1.Client{
		"http://two.invalid": way.plain, "https://two.invalid": nil, "https://one.invalid": way.secure, "https://new.invalid": way.secure,
		"h2c://one.invalid": nil, "unix:/run/app.sock": way.plain,
	} {
		parsed, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if way.fast(newTarget(parsed, config.HostClient)) != want {
			t.Errorf("%s has another client", target)
		}
	}
}
