package gateway

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
	"weak"
)

// A configuration that was replaced, and that no request uses, holds no memory: also
// right after the reload, and whatever the new one takes over from it.
func TestReloadFreesMemory(t *testing.T) {
	t.Parallel()
	const more = `tracing: {endpoint: "http://127.0.0.1:1"}
token: {trusted_issuers: [{name: issuer, issuer: "https://issuer.example", audience: [a]}]}
providers: [{name: small, issuer: "https://id.example", client_id: gateway}]
`
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	limited := edit(t, baseConfig, "/any/,", "/any/, rate: {requests: 10, per: 1s},")
	r := newRig(t, limited)
	var old []weak.Pointer[state]
	for range 3 {
		for _, yaml := range []string{limited, limited + more} {
			s := r.login(aliceIn)
			r.do("GET", "/session/", "", s.cookie)
			old = append(old, weak.Make(r.state.Load()))
			if err := r.reload(edit(t, yaml, "http://app.invalid", app.URL)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		held := 0
		for _, st := range old {
			if st.Value() != nil {
				held++
			}
		}
		if held == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d replaced states are still held", held, len(old))
		}
	}
}
