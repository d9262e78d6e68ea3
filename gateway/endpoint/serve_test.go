package endpoint_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"authgate/gateway/proxy/web"
	"authgate/internal/test/rig"
)

// Own endpoints accept bodies up to 64 KiB, even if they do not use them.
func TestOwnBody(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	fits := strings.Repeat(" ", web.MaxBody-len(rig.Alice)) + rig.Alice
	unknownLength := func(body io.Reader) *http.Request {
		q := rig.Request("POST", "/login", "", rig.JSON)
		q.Body, q.ContentLength = io.NopCloser(body), -1
		return q
	}
	r.WantOf(200, rig.Request("POST", "/login", fits, rig.JSON))
	r.WantOf(200, unknownLength(strings.NewReader(fits)))
	r.WantOf(413, rig.Request("POST", "/login", " "+fits, rig.JSON))
	r.WantOf(413, unknownLength(strings.NewReader(" "+fits)))
	r.WantOf(413, rig.Request("POST", "/logout", " "+fits))
	r.WantOf(413, rig.Request("GET", "/me", " "+fits))
	r.WantOf(413, rig.Request("POST", "/login", " "+fits, rig.Basic("alice", "wonderland")))
	r.WantOf(400, unknownLength(io.MultiReader(strings.NewReader(`{"username":`), iotest.ErrReader(io.ErrUnexpectedEOF))))
}

// Own endpoints that change something are protected with all kinds of credentials.
func TestSameOriginOnOwnEndpoints(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	for _, site := range rig.Sites {
		for _, c := range []struct {
			method, target, body, media string
			want                        int
		}{
			{"POST", "/login", rig.Alice, rig.JSON, 200},
			{"POST", "/login", "username=alice&password=wonderland", rig.Form, 200},
			{"POST", "/logout", "", "", 200},
			{"POST", "/refresh", rig.RefreshBody("x"), rig.JSON, 401},
			{"GET", "/signin", "", "", 200},
			{"GET", "/login", "", "", 302},
		} {
			if site.Foreign && c.method == "POST" {
				c.want = 403
			}
			if w := r.Want(c.want, c.method, c.target, c.body, append(site.Headers, c.media)...); c.want == 403 &&
				w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s %s, %q: a cookie comes with it", c.method, c.target, site.Headers)
			}
		}
	}
}
