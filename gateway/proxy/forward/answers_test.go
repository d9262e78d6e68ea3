package forward

import (
	"net/http"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// An application cannot widen what a service worker gets to see. A browser that has a script
// in its cache asks again if it is for a service worker, and not only for that.
func TestServiceWorkersOfAnswers(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base+"  - {match: /open-app/, upstream: app, auth: [none], service_workers: allow}\n")
	media, vary := "", ""
	r.app.Answer = func(q *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {media}, "Service-Worker-Allowed": {"/"}}
		if vary != "" {
			h.Set("Vary", vary)
		}
		return ownrig.Response(q, 200, h, "code"), nil
	}
	for _, c := range []struct{ media, vary, refused, allowed string }{
		{"text/javascript", "", "Service-Worker", ""},
		{"Text/JavaScript; charset=utf-8", "Accept-Encoding", "Accept-Encoding, Service-Worker", "Accept-Encoding"},
		{"application/x-ecmascript", "", "Service-Worker", ""},
		{"text/jscript", "", "Service-Worker", ""}, {"text/livescript", "", "Service-Worker", ""},
		{"text/javascript1.5", "", "Service-Worker", ""},
		{"text/html", "Accept", "Accept", "Accept"}, {"text/css", "", "", ""},
	} {
		media, vary = c.media, c.vary
		for target, want := range map[string]string{"/public/x.js": c.refused, "/open-app/x.js": c.allowed} {
			h := r.Want(200, "GET", target, "").Header()
			if got := strings.Join(h["Vary"], ", "); got != want {
				t.Errorf("%s as %s: Vary: %q, want %q", target, media, got, want)
			}
			if got := h.Get("Service-Worker-Allowed"); (got != "") != (target == "/open-app/x.js") {
				t.Errorf("%s: Service-Worker-Allowed: %q", target, got)
			}
		}
	}
}

// tls.hsts replaces what the upstream says (RFC 6797, section 8.1).
func TestHSTS(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Edit(t, ownrig.Base, "store:", "tls: {hsts: 48h}\nstore:"))
	r.app.Answer = func(q *http.Request) (*http.Response, error) {
		return ownrig.Response(q, 200, http.Header{"Strict-Transport-Security": {"max-age=1"}}, ""), nil
	}
	for target, status := range map[string]int{"/public/": 200, "/session/": 200} {
		if got := r.Want(status, "GET", target, "").Header()["Strict-Transport-Security"]; len(got) != 1 ||
			got[0] != "max-age=172800" {
			t.Errorf("%s: %q", target, got)
		}
	}
	off := newStub(t, ownrig.Base)
	off.app.Answer = r.app.Answer
	if got := off.Want(200, "GET", "/public/", "").Header().Get("Strict-Transport-Security"); got != "max-age=1" {
		t.Errorf("off: %q, want what the upstream says", got)
	}
}

// With listen.http3, every response leads to HTTP/3, whatever the upstream says of its
// own ports (RFC 7838).
func TestAltSvc(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Edit(t, ownrig.Base, "store:", "listen: {https: ':8443', http3: ':444'}\nstore:"))
	r.app.Answer = func(q *http.Request) (*http.Response, error) {
		return ownrig.Response(q, 200, http.Header{"Alt-Svc": {`h3=":1"`}}, ""), nil
	}
	for target, status := range map[string]int{"/public/": 200, "/session/": 200} {
		if got := r.Want(status, "GET", target, "").Header()["Alt-Svc"]; len(got) != 1 ||
			got[0] != `h3=":444"; ma=86400` {
			t.Errorf("%s: %q", target, got)
		}
	}
	off := newStub(t, ownrig.Base)
	off.app.Answer = r.app.Answer
	if got := off.Want(200, "GET", "/public/", "").Header().Get("Alt-Svc"); got != `h3=":1"` {
		t.Errorf("off: %q, want what the upstream says", got)
	}
}
