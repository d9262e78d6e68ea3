package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/certs"
	"authgate/gateway/logtest"
)

// ask sends a request to the admin listener of a server.
func ask(s *Server, method, path string) *httptest.ResponseRecorder {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer"}, func() float64 { return 42 }))
	w := httptest.NewRecorder()
	s.admin(registry).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// askHealth sends a probe and returns what the answer says.
func askHealth(t *testing.T, s *Server, path string) (int, health) {
	t.Helper()
	w := ask(s, "GET", path)
	var h health
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %v, %q", path, err, w.Header())
	}
	return w.Code, h
}

func TestHealth(t *testing.T) {
	t.Parallel()
	ends := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	own := certificates{{Domain: "good.example", Expires: ends}, {Domain: "none.example", Problem: "no such host"}}
	reported := []certificateReport{{Domain: "good.example", Expires: &ends}, {Domain: "none.example", Problem: "no such host"}}
	away := errors.New("the store is away")
	for name, c := range map[string]struct {
		ready    error
		draining bool
		certs    certs.Source
		status   int
		want     health
	}{
		"ready":                           {nil, false, nil, 200, health{Status: "ready"}},
		"not ready":                       {away, false, nil, 503, health{Status: "unready", Reason: away.Error()}},
		"draining":                        {away, true, nil, 503, health{Status: "unready", Reason: "stopping"}},
		"with certificates from files":    {nil, false, own, 200, health{Status: "ready"}},
		"with issued certificates":        {nil, false, &issued{certificates: own}, 200, health{"ready", "", reported}},
		"with issued ones, and not ready": {away, false, &issued{certificates: own}, 503, health{"unready", away.Error(), reported}},
	} {
		o := options(&stub{ready: func(context.Context) error { return c.ready }}, &logtest.Buffer{})
		o.Certificates = c.certs
		s := newServer(o)
		s.draining.Store(c.draining)
		if status, got := askHealth(t, s, "/readyz"); status != c.status || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: readyz %d %+v, want %d %+v", name, status, got, c.status, c.want)
		}
		if status, got := askHealth(t, s, "/healthz"); status != 200 || !reflect.DeepEqual(got, health{Status: "alive"}) {
			t.Errorf("%s: healthz %d %+v", name, status, got)
		}
	}
}

// A readiness check takes readyTime at most.
func TestReadyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(options(&stub{ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}, &logtest.Buffer{}))
		start := time.Now()
		if reason := s.unready(t.Context()); reason == "" || time.Since(start) != readyTime {
			t.Errorf("%q after %v", reason, time.Since(start))
		}
	})
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	s := newServer(options(&stub{}, &logtest.Buffer{}))
	if w := ask(s, "GET", "/metrics"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "\nanswer 42\n") {
		t.Errorf("/metrics: %d %s", w.Code, w.Body)
	}
	for method, path := range map[string]string{"POST": "/metrics", "GET": "/", "PUT": "/readyz", "DELETE": "/login"} {
		if w := ask(s, method, path); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %d", method, path, w.Code)
		}
	}
}
