package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// issuerParameter: a response that says who it is from must be from who was
// asked, and must say so where that was promised (RFC 9207, section 2.4).
func issuerParameter(t *testing.T, s *stage, plain, naming *hostile) {
	for name, test := range map[string]struct {
		h    *hostile
		iss  []string
		want int
	}{
		"named as promised":             {naming, []string{naming.issuer}, 302},
		"not named as promised":         {naming, nil, 400},
		"empty instead of promised":     {naming, []string{""}, 400},
		"another instead of promised":   {naming, []string{plain.issuer}, 400},
		"with a slash":                  {naming, []string{naming.issuer + "/"}, 400},
		"not promised, not named":       {plain, nil, 302},
		"not promised, named":           {plain, []string{plain.issuer}, 302},
		"not promised, empty":           {plain, []string{""}, 400},
		"not promised, another":         {plain, []string{naming.issuer}, 400},
		"not promised, named and twice": {plain, []string{plain.issuer, plain.issuer}, 400},
	} {
		c := s.visitor()
		login := s.begin(t, c, test.h)
		g := login.agree(lie{})
		response := g.response()
		response["iss"] = test.iss
		a := login.back(c, response, "Accept", "text/html")
		if a.status != test.want || (g.exchanges() > 0) != (test.want == 302) {
			t.Errorf("%s: %d, expected %d, and the code came to the token endpoint %d times", name, a.status, test.want, g.exchanges())
		}
		if test.want == 302 {
			s.lives(t, s.sessionOf(t, c))
			continue
		}
		s.refused(t, c, test.h, a, test.want)

		login = s.begin(t, c, test.h) // and an error is no better
		response = url.Values{"error": {"access_denied"}, "error_description": {"Call 0900 now."}, "state": {login.request.Get("state")}, "iss": test.iss}
		if a := login.back(c, response); a.status != 400 || strings.Contains(a.body, "0900") {
			t.Errorf("%s, an error: %d %s", name, a.status, a.body)
		}
	}
}

// codeOfAnother: the code goes to the provider that the state belongs to,
// whoever issued it.
func codeOfAnother(t *testing.T, s *stage, h, other *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	stolen := s.begin(t, c, other).agree(lie{})
	response := url.Values{"code": {stolen.code}, "state": {login.request.Get("state")}}
	s.refused(t, c, h, login.back(c, response), http.StatusUnauthorized)
	if stolen.exchanges() != 0 {
		t.Error("the code came to the provider that issued it")
	}
}
