package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Active checks run from the start and after a reload, and end with the upstream and
// the gateway.
func TestActiveChecks(t *testing.T) {
	t.Parallel()
	var checked [2]atomic.Int64
	var reused atomic.Bool
	var status atomic.Int64
	status.Store(http.StatusOK)
	application := func(i int) string {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI == "/base/healthz" {
				checked[i].Add(1)
				reused.Store(reused.Load() || !r.Close)
				w.WriteHeader(int(status.Load()))
			}
		}))
		t.Cleanup(app.Close)
		return app.URL + "/base"
	}
	first, second := application(0), application(1)
	synctest.Test(t, func(t *testing.T) { // the applications are outside of it
		with := func(url string) string {
			return edit(t, baseConfig, `url: "http://app.invalid"`,
				fmt.Sprintf("url: %q, health: {path: /healthz, interval: 1s, timeout: 30s}", url))
		}
		r := newRig(t, with(first))
		wantUp := func(want float64) {
			t.Helper()
			time.Sleep(3 * time.Second) // checks, of which two decide
			synctest.Wait()
			if got := r.sample("authgate_upstream_target_up", "upstream=app"); got != want {
				t.Errorf("up: %v, want %v", got, want)
			}
		}
		wantUp(1)
		status.Store(http.StatusBadGateway)
		wantUp(0)
		if r.sample("authgate_upstream_checks_total", "upstream=app", "result=failure") < 2 {
			t.Error("failed checks are not counted")
		}
		status.Store(http.StatusNoContent)
		wantUp(1)
		if err := r.reload(with(second)); err != nil {
			t.Fatal(err)
		}
		ended := checked[0].Load()
		wantUp(1)
		if n := checked[0].Load(); n > ended || checked[1].Load() < 2 {
			t.Errorf("after the reload: %d checks of a target that was removed, %d of the new one", n-ended, checked[1].Load())
		}
		r.Close()
		ended = checked[1].Load()
		time.Sleep(time.Minute)
		if n := checked[1].Load(); n > ended {
			t.Errorf("%d checks after Close", n-ended)
		}
	})
	if reused.Load() {
		t.Error("a check uses a connection that another may use")
	}
}
