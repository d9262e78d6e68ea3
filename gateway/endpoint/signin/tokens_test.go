package signin_test

import (
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// A refresh token comes in JSON, or in its cookie if cookies deliver tokens. The body
// comes before the cookie.
func TestRefreshBody(t *testing.T) {
	t.Parallel()
	byBody, byCookie := rig.New(t, rig.Base), rig.New(t, rig.CookieDelivery)
	for _, c := range []struct {
		body         string
		header       []string
		body1, cook1 int // what the two kinds of delivery answer
	}{
		{"", nil, 415, 401},
		{"", []string{rig.JSON}, 400, 401},
		{"{}", []string{rig.JSON}, 400, 401},
		{rig.RefreshBody("garbage"), []string{rig.JSON}, 401, 401},
		{rig.RefreshBody(""), []string{rig.JSON}, 401, 401},
		{`{"refresh_token":7}`, []string{rig.JSON}, 400, 400},
		{`{"refresh_token":null}`, []string{rig.JSON}, 400, 400},
		{`{"refresh_token":"a","refresh_token":"a"}`, []string{rig.JSON}, 400, 400},
		{"x", []string{rig.JSON}, 400, 400},
		{"refresh_token=x", []string{rig.Form}, 415, 415},
		{"{}", []string{rig.JSON, "Cookie: refresh_token=x"}, 400, 401},
		{"{}", []string{rig.JSON, "Cookie: refresh_token=x; refresh_token=y"}, 400, 400},
	} {
		for rig, want := range map[*rig.Rig]int{byBody: c.body1, byCookie: c.cook1} {
			if w := rig.Want(want, "POST", "/refresh", c.body, c.header...); w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s with %q sets %q", c.body, c.header, w.Header()["Set-Cookie"])
			}
		}
	}
	byBody.Want(400, "POST", "/refresh", "{}", rig.JSON, "Cookie: refresh_token="+byBody.Login(rig.Alice).Refresh)
	refresh := rig.JarOf(byCookie.Do("POST", "/login", rig.Alice, rig.JSON)).Line("refresh_token")
	byCookie.Want(401, "POST", "/refresh", rig.RefreshBody("x"), rig.JSON, refresh)
	byCookie.Want(200, "POST", "/refresh", rig.RefreshBody(strings.TrimPrefix(refresh, "Cookie: refresh_token=")),
		rig.JSON)
}
