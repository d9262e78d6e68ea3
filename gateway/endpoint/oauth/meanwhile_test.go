package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// outcome says in a word what an answer is.
func outcome(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Header().Get("Location") == "" {
		return fmt.Sprint(w.Code)
	}
	place, answer := answerOf(t, w)
	switch {
	case answer.Has("code"):
		return "code"
	case answer.Has("error"):
		return answer.Get("error")
	}
	return strings.TrimPrefix(place, "/")
}

// A login, or a consent, that ends while a user lets an application in: the answer is that of a
// moment before or after, and never a failure of the gateway.
func TestEndsMeanwhile(t *testing.T) {
	t.Parallel()
	own := []string{"Origin: " + issuer, "Sec-Fetch-Site: same-origin", rig.Browser, rig.Form}
	quiet := ask("client_id", "quiet", "redirect_uri", "https://quiet.example.net/cb")
	get := func(s *server, change ...string) *http.Request {
		s.code(t, ask())
		return rig.Request("GET", "/oauth/authorize?"+ask(change...).Encode(), "", rig.Browser, s.cookie)
	}
	allow := func(s *server, page *httptest.ResponseRecorder) *http.Request {
		form := formOf(t, page)
		form.fields.Set("decision", "allow")
		return rig.Request("POST", form.action, form.fields.Encode(), append(slices.Clone(own), s.cookie)...)
	}
	logout := func(s *server) { s.Want(200, "POST", "/logout", "", s.cookie) }
	withdraw := func(client string) func(*server) {
		return func(s *server) {
			s.Do("POST", "/account/clients/revoke", `{"client_id":"`+client+`"}`, rig.JSON, s.cookie)
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(*server)
		request   func(*server) *http.Request
		want      string // before or after
	}{
		"logout, no consent page": {logout, func(s *server) *http.Request {
			return rig.Request("GET", "/oauth/authorize?"+quiet.Encode(), "", rig.Browser, s.cookie)
		}, "code signin"},
		"logout": {logout, func(s *server) *http.Request { return get(s) }, "code signin"},
		"logout, silently": {logout, func(s *server) *http.Request {
			return get(s, "prompt", "none")
		}, "code login_required"},
		"logout, allowed": {logout, func(s *server) *http.Request {
			return allow(s, s.authorize(ask("prompt", "consent")))
		}, "code signin 403"},
		"logout, device": {logout, func(s *server) *http.Request {
			return allow(s, s.enter(s.device(t).User))
		}, "200 401"},
		"consent": {withdraw("wiki"), func(s *server) *http.Request { return get(s) }, "code 200"},
		"consent, silently": {withdraw("wiki"), func(s *server) *http.Request {
			return get(s, "prompt", "none")
		}, "code consent_required"},
		"consent, allowed": {withdraw("wiki"), func(s *server) *http.Request {
			return allow(s, s.authorize(ask("prompt", "consent")))
		}, "code"},
		"consent, device": {withdraw("tv"), func(s *server) *http.Request {
			return allow(s, s.enter(s.device(t).User))
		}, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, configuration)
			rig.EachMoment(s.Client, s.Store, func() { c.meanwhile(s) },
				func(during func(*http.Request) *httptest.ResponseRecorder) {
					s.cookie = s.Login(rig.Alice).Cookie
					got := outcome(t, during(c.request(s)))
					if !slices.Contains(strings.Fields(c.want), got) {
						t.Errorf("the answer is %s, want one of %s; the log has %v", got, c.want, s.Log.Last(t, "request"))
					}
				})
		})
	}
}
