package streams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A login has at most its number of streams, and all logins together theirs. A place that is left serves another.
func TestPlaces(t *testing.T) {
	t.Parallel()
	var p Places
	var held []func()
	full := func(err error) bool { return errors.Is(err, ErrFull) }
	loginFull := func(err error) bool {
		e, ok := errors.AsType[*LoginFullError](err)
		return ok && e.Limit == 2
	}
	granted := func(err error) bool { return err == nil }
	for i, c := range []struct {
		login string
		as    func(error) bool
	}{
		{"alice", granted}, {"alice", granted}, {"alice", loginFull}, {"", granted}, {"", granted}, {"", granted},
		{"bob", granted}, {"bob", full}, {"", full}, {"alice", loginFull},
	} {
		leave, err := p.Take(c.login, 6, 2)
		if !c.as(err) || (leave != nil) != (err == nil) {
			t.Errorf("%d: %q gets a place: %t, %v", i, c.login, leave != nil, err)
		}
		if err == nil {
			held = append(held, leave)
		}
	}
	if p.Taken() != 6 {
		t.Errorf("%d are open, want 6", p.Taken())
	}
	held[0]()
	leave, err := p.Take("alice", 6, 2)
	if err != nil {
		t.Errorf("after one of alice's has ended: %v", err)
	}
	for _, leave := range append(held[1:], leave) {
		leave()
	}
	if p.Taken() != 0 || len(p.logins) > 0 {
		t.Errorf("after all have ended, %d are open, of %d logins", p.Taken(), len(p.logins))
	}
}

// That a login has too many streams is news once a minute.
func TestLoginFullIsNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Places
		if _, err := p.Take("alice", 9, 1); err != nil {
			t.Fatal(err)
		}
		news := 0
		for range 3 * 60 {
			if _, err := p.Take("alice", 9, 1); err.(*LoginFullError).First {
				news++
			}
			time.Sleep(time.Second)
		}
		if news != 3 {
			t.Errorf("it is news %d times in three minutes", news)
		}
	})
}
