package web

import (
	"net/http"
	"slices"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/places"
)

// staleCookies are the cookies of a request that were found to be no longer valid. The answer
// clears them, if it may.
type staleCookies struct {
	cookies  *Cookies
	received *Received
	names    []string
	cleared  int  // how many of them Clear has cleared
	ended    bool // one of them was that of a session that has ended by time
}

// add notes the cookie of a rejection.
func (s *staleCookies) add(rejection *auth.Rejection) {
	if name := s.cookies.Names.Name(rejection.Cookie); !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	s.ended = s.ended || rejection.Ended
}

// Any reports whether a cookie was found to be no longer valid.
func (s *staleCookies) Any() bool { return len(s.names) > 0 }

// Clear makes the browser forget the cookies, if the answer w may do that. It clears each once.
//
// A browser deletes a cookie by its name, whatever its value is by now. A request that a page makes
// in the background may be answered after a new login has set the cookie again. So only page loads
// clear cookies, and programs, which do not tell their mode.
func (s *staleCookies) Clear(w http.ResponseWriter) {
	names := s.clearable()
	for _, name := range names[min(s.cleared, len(names)):] {
		s.cookies.Clear(w, name)
	}
	s.cleared = len(names)
}

// ClearIn is Clear for the header of an upstream's response.
func (s *staleCookies) ClearIn(h http.Header) {
	for _, name := range s.clearable() {
		for _, cookie := range s.cookies.cleared(name) {
			h.Add("Set-Cookie", cookie.String())
		}
	}
}

// clearable returns the names of the cookies that the answer clears.
func (s *staleCookies) clearable() []string {
	if len(s.names) == 0 || s.received.ByScript() {
		return nil
	}
	return s.names
}

// SessionEnded reports whether the request has a cookie of a session that has ended by time, or
// the one that tells so when the browser has dropped the former.
func (ex *Exchange) SessionEnded() bool {
	creds := &ex.Credentials
	return ex.Stale.ended || creds.Ended != "" && ex.site.EndedByTime != nil &&
		ex.site.EndedByTime(&ex.Store, creds.Ended, creds.Scope)
}

// TellEnd returns a place where a user signs in. It tells them if their session has ended by
// time. Of any other cookie it says nothing; without a Referer, the page there does not take
// them for users who have just signed in, and whose browser keeps no cookies.
func (ex *Exchange) TellEnd(place string) string {
	if ex.SessionEnded() {
		return places.WithParameter(place, places.ReasonField, places.ReasonEnded)
	}
	if ex.Stale.Any() {
		ex.Header().Set("Referrer-Policy", "no-referrer")
	}
	return place
}
