package chain_test

import (
	"slices"
	"testing"

	"authgate/internal/test/rig"
)

// A 401 carries one challenge for each mechanism of the route that has one.
func TestChallenges(t *testing.T) {
	t.Parallel()
	const basic, bearer = `Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`
	const invalid = `Bearer realm="authgate", error="invalid_token"`
	const notSignedIn, wrong = "Not signed in.", "Invalid username or password."
	const badToken = "The access token is invalid, expired or revoked."
	r := rig.New(t, rig.Base)
	for _, c := range []struct {
		method, target, header, detail string
		want                           []string
	}{
		{"GET", "/basic/", "", notSignedIn, []string{basic}},
		{"GET", "/basic/", rig.Basic("service", "x"), wrong, []string{basic}},
		{"GET", "/basic/", "Authorization: Basic ###", wrong, []string{basic}},
		{"GET", "/basic/", "Authorization: Bearer x", notSignedIn, []string{basic}},
		{"GET", "/session/", "Cookie: session_id=x", notSignedIn, nil},
		{"GET", "/session/", "Authorization: Bearer x", notSignedIn, nil},
		{"GET", "/bearer/", "", notSignedIn, []string{bearer}},
		{"GET", "/bearer/", "Authorization: Bearer", badToken, []string{invalid}},
		{"GET", "/any/", "Authorization: Bearer x", badToken, []string{basic, invalid}},
		{"GET", "/me", "", notSignedIn, []string{bearer}},
		{"GET", "/me", "Authorization: Bearer x", badToken, []string{invalid}},
		{"GET", "/me", rig.Basic("service", "s3rvice"), notSignedIn, []string{bearer}},
		{"POST", "/logout", "Authorization: Bearer x", badToken, []string{invalid}},
	} {
		w := r.Want(401, c.method, c.target, "", c.header)
		got := slices.Sorted(slices.Values(w.Header()["Www-Authenticate"]))
		if !slices.Equal(got, c.want) || rig.DetailOf(t, w) != c.detail {
			t.Errorf("%s with %q: %q %q, want %q %q", c.target, c.header, got, rig.DetailOf(t, w), c.want, c.detail)
		}
	}
	w := r.Want(401, "POST", "/refresh", rig.RefreshBody("x"), rig.JSON)
	if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, []string{invalid}) {
		t.Errorf("a refresh: %q", got)
	}
}
