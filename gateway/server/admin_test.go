package server

import (
	"context"
	"errors"
	"net/http/httptest"
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
	w := httptest.NewRecorder()
	s.admin(prometheus.NewRegistry()).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestHealth(t *testing.T) {
	t.Parallel()
	own := certificates{
		{Domain: "good.example", Expires: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}, {Domain: "none.example", Problem: "no such host"},
	}
	const reported = `,"certificates":[{"domain":"good.example","expires":"2026-03-01T12:00:00Z"},{"domain":"none.example","problem":"no such host"}]}`
	away := errors.New("the store is away")
	for name, c := range map[string]struct {
		ready    error
		draining bool
		certs    certs.Source
		status   int
		want     string
	}{
		"ready":                           {nil, false, nil, 200, `{"status":"ready"}`},
		"not ready":                       {away, false, nil, 503, `{"status":"unready","reason":"the store is away"}`},
		"draining":                        {away, true, nil, 503, `{"status":"unready","reason":"stopping"}`},
		"with certificates from files":    {nil, false, own, 200, `{"status":"ready"}`},
		"with issued certificates":        {nil, false, &issued{certificates: own}, 200, `{"status":"ready"` + reported},
		"with issued ones, and not ready": {away, false, &issued{certificates: own}, 503, `{"status":"unready","reason":"the store is away"` + reported},
	} {
		o := options(&stub{ready: func(context.Context) error { return c.ready }}, &logtest.Buffer{})
		o.Certificates = c.certs
		s := newServer(o)
		s.draining.Store(c.draining)
		if w := ask(s, "GET", "/readyz"); w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: readyz %d %s, want %d %s", name, w.Code, w.Body, c.status, c.want)
		}
		if w := ask(s, "GET", "/healthz"); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"status":"alive"}` {
			t.Errorf("%s: healthz %d %s", name, w.Code, w.Body)
		}
		for method, path := range map[string]string{"POST": "/metrics", "GET": "/", "PUT": "/readyz", "DELETE": "/login"} {
			if w := ask(s, method, path); w.Code != 404 && w.Code != 405 {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
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
