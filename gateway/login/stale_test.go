package login

import (
	"testing"
	"time"
)

// behind returns another instance whose reads can be stale.
func (m *mechanisms) behind(tb testing.TB) *mechanisms {
	tb.Helper()
	return newMechanisms(tb, func(other *mechanisms) {
		other.clock, other.keys, other.store = m.clock, m.keys, &recordingStore{Store: m.store}
	})
}

// freezeFamily makes the present family of token stale.
func (s *recordingStore) freezeFamily(tb testing.TB, token string) {
	tb.Helper()
	parsed, ok := parseRefresh(token)
	if !ok {
		tb.Fatalf("%q is no refresh token", token)
	}
	s.freeze(tb, parsed.key())
}

// An instance that has not seen another instance's rotations still accepts a valid token,
// and still finds a stolen one.
func TestRotateOnAnInstanceThatLagsBehind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rotations int // that b has not seen
		present   int // index of the token, counted from the login
		after     time.Duration
		check     func(t *testing.T, b *mechanisms, s *signedIn, token string)
	}{
		"the newest":           {1, 1, 0, goodAt},
		"the newest of many":   {5, 5, time.Hour, goodAt},
		"used just now":        {2, 1, testLeeway, justUsedAt},
		"stolen":               {2, 1, testLeeway + 1, stolenAt},
		"stolen, before a lot": {maxRotations + 2, 1, 0, stolenAt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newMechanisms(t, nil)
			b := a.behind(t)
			s := a.signIn(t, "alice")
			b.store.freezeFamily(t, s.refresh)
			tokens := []string{s.refresh}
			for range test.rotations {
				tokens = append(tokens, a.wantRotated(t, tokens[len(tokens)-1]))
			}
			a.clock.advance(test.after)
			s.refresh = tokens[test.rotations]
			test.check(t, b, s, tokens[test.present])
		})
	}
}

func goodAt(t *testing.T, b *mechanisms, s *signedIn, token string) {
	s.refresh = b.wantRotated(t, token)
	s.refresh = b.wantRotated(t, s.refresh)
}

func justUsedAt(t *testing.T, b *mechanisms, s *signedIn, token string) {
	b.wantBadRefresh(t, token, "used again within the leeway")
	b.wantRotated(t, s.refresh)
}

func stolenAt(t *testing.T, b *mechanisms, s *signedIn, token string) {
	if reuse := b.wantReuse(t, token); reuse.Login == nil || reuse.Login.ID != s.login.ID {
		t.Errorf("got %+v, want the login that ended", reuse.Login)
	}
	b.wantBadRefresh(t, s.refresh, "its login has ended")
}

// If the store cannot tell whether a token was used, or if its reads stay stale, there is
// no answer and nothing ends.
func TestRotateThatNeverSeesTheFamily(t *testing.T) {
	t.Parallel()
	a := newMechanisms(t, nil)
	b := a.behind(t)
	s := a.signIn(t, "alice")
	b.store.freezeFamily(t, s.refresh)
	s.refresh = a.wantRotated(t, s.refresh)

	b.store.fails("swap refresh:")
	_, err := b.rotate(t, s.refresh)
	wantNoAnswer(t)(nil, err)
	b.store.fails("")
	b.store.always = true
	b.store.freezeFamily(t, s.refresh)
	s.refresh = a.wantRotated(t, s.refresh)
	b.store.takeCalls()
	_, err = b.rotate(t, s.refresh)
	wantNoAnswer(t)(nil, err)
	if calls := len(b.store.takeCalls()); calls > 3*maxStaleReads {
		t.Errorf("the store was asked %d times", calls)
	}
	a.wantAlive(t, s)
	a.wantRotated(t, s.refresh)
}

// An instance that has not seen another instance's renewal does not use the old refresh
// token again.
func TestRenewalOnAnInstanceThatLagsBehind(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		lagging := *d
		lagging.store = &recordingStore{Store: d.store}
		other := lagging.instance(nil)
		s := d.signIn(t, d.grant("user"))
		d.answersAfter(0, "auditor")
		lagging.store.freeze(t, loginPrefix+s.login.ID)
		time.Sleep(15 * time.Minute)
		if _, err := d.by(t, s); err != nil {
			t.Error(err)
		}
		d.wantAsked(t, 1)
		if _, err := other.by(t, s); err != nil {
			t.Error(err)
		}
		d.wantAsked(t, 1)
		d.wantReported(t, s, false)
		d.wantIn(t, s, "auditor")
		other.wantIn(t, s, "auditor")
	})
}
