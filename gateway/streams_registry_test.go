package gateway

import (
	"cmp"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/conn"
	"authgate/gateway/streams"
	"authgate/policy"
)

// Every request over HTTP/1.1 is a stream: its client may leave unnoticed. Over HTTP/2 those
// are whose login may end.
func TestWhatIsAStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, served := range []bool{true, false} { // as HTTP/1.1 is, and not as HTTP/2 is
		for _, id := range []*policy.Identity{nil, {}} {
			q := request("GET", "/public/", "")
			if served {
				q = q.WithContext(conn.Context(q.Context(), nil))
			}
			ex := r.begin(httptest.NewRecorder(), q)
			ex.Identity = id
			_, release := ex.cancelable(q)
			release()
			if is := ex.cancelUpstream != nil; is != (served || id != nil) {
				t.Errorf("HTTP/1.1: %t, identity: %v: a stream: %t", served, id, is)
			}
			ex.finish()
		}
	}
}

// An answer that is written when its login ends must not seem whole, even if
// nothing else cuts it off.
func TestEndedAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, baseConfig)
		ex := r.begin(httptest.NewRecorder(), request("GET", "/session/", ""))
		if err := cmp.Or(ex.read(), ex.find()); err != nil {
			t.Fatal(err)
		}
		ex.Identity, ex.cancelUpstream = &policy.Identity{}, func() {} // whose credentials the route does not accept
		r.streams.Add(&ex.stream, ex)
		_, _ = ex.Write([]byte("all of it"))
		time.Sleep(streams.CheckEvery)
		synctest.Wait()
		aborted(t, ex.finish)
		if line := r.log.Last(t, "request"); line["reason"] != "the login has ended: the route does not accept the credentials any more" {
			t.Errorf("logged %v", line)
		}
	})
}
