package redis

import (
	"net/http"
	"testing"
	"time"

	"authgate/e2e/world"
)

// TestRedisStreamsEnd: a logout on one instance ends the streams on the other
// within a second, and the other's audit log has each of them. A busy machine
// gets more chances for the measurement.
func TestRedisStreamsEnd(t *testing.T) {
	up := world.ServeStreams(t)
	redis := world.StartRedis(t)
	a, b := world.Prepare(t), world.Prepare(t)
	b.Public = a.Base
	for _, g := range []*world.Instance{a, b} {
		g.Configure(world.People + "token: {secret: \"01234567890123456789012345678901\"}\n" + world.App(up.URL) +
			world.OnRedis(redis.Address) + "routes: [{match: /, upstream: app, auth: [session, bearer]}]\n")
		g.Run()
	}
	opened := 0
	for _, name := range []string{"Cookie", "Authorization"} {
		took := time.Hour
		for try := 0; try < 5 && took >= time.Second; try++ {
			in := a.SignIn(a.Stranger(), "alice")
			credential := map[string]string{"Cookie": in.Session, "Authorization": in.Access}[name]
			took = up.End(t, b, name, credential, func() {
				world.WantStatus(t, "logout", a.Do(a.Stranger(), "POST", "/logout", "", name, credential), http.StatusOK)
			})
			opened += world.StreamsOpened
			t.Logf("%s: the last stream on B ended %v after the logout on A", name, took.Round(time.Millisecond))
		}
		if took >= time.Second {
			t.Errorf("%s: the last stream ended %v after the logout", name, took)
		}
	}
	world.Until(t, "all streams in the audit log", func() bool {
		ended := 0
		for _, entry := range b.Log.Records(t, "audit") {
			if entry["event"] == "stream_ended" && entry["subject"] == "local:alice" {
				ended++
			}
		}
		return ended == opened
	})
}
