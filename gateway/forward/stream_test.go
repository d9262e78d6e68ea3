package forward

import (
	"net/http/httptest"
	"testing"

	"authgate/gateway/conn"
	"authgate/gateway/web"
	"authgate/policy"
)

// Every request over HTTP/1.1 is a stream: its client may leave unnoticed. Over HTTP/2 those
// are whose login may end. A request that asks to become a WebSocket is one in any case.
func TestWhatIsAStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, urlKey("http://app.invalid"))
	for _, served := range []bool{true, false} { // as HTTP/1.1 is, and not as HTTP/2 is
		for _, id := range []*policy.Identity{nil, &alice} {
			for _, upgrade := range []bool{true, false} {
				in := request("GET", "/public/")
				if served {
					in = in.WithContext(conn.Context(in.Context(), nil))
				}
				if upgrade {
					in.Header.Set("Upgrade", "websocket")
				}
				ex := &web.Exchange{}
				ex.Init(r.site, httptest.NewRecorder(), in)
				ex.Identity = id
				q := &Request{Exchange: ex, Route: r.routes[0], Login: r}
				_, release := q.cancelable(in)
				release()
				if is := q.cancel != nil; is != (served || upgrade || id != nil) {
					t.Errorf("HTTP/1.1: %t, upgrade: %t, identity: %v: a stream: %t", served, upgrade, id, is)
				}
				q.Done()
			}
		}
	}
}
