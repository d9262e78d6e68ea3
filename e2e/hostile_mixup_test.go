package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// issuerParameter: where a response has iss, it must be the issuer that the
// browser was sent to. Where the provider has announced iss, it must be there
// (RFC 9207, section 2.4). The tests of gateway/provider have all other values.
func issuerParameter(t *testing.T, s *stage, plain, naming *hostile) {
	for name, test := range map[string]struct {
		h    *hostile
		iss  []string
		want int
	}{
		"named as promised":             {naming, []string{naming.issuer}, 302},
		"not named as promised":         {naming, nil, 400},
		"another instead of promised":   {naming, []string{plain.issuer}, 400},
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

		login = s.begin(t, c, test.h) // the same rule holds for an error
		response = url.Values{"error": {"access_denied"}, "error_description": {"Call 0900 now."}, "state": {login.request.Get("state")}, "iss": test.iss}
		if a := login.back(c, response); a.status != 400 || strings.Contains(a.body, "0900") {
			t.Errorf("%s, an error: %d %s", name, a.status, a.body)
		}
	}
}

// codeOfAnother: the gateway sends the code to the provider of the state, also
// when another provider has issued it.
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
