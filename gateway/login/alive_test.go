package login

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
)

// Alive is not activity: it stores nothing, and an idle session ends.
func TestAliveIsNoActivity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = 8 * time.Minute })
		s := m.signIn(t, "alice")
		creds := &auth.Credentials{Session: s.session}
		want := must(m.bySession(t, s.session))(t)
		m.store.takeCalls()
		for range 7 {
			m.clock.advance(time.Minute)
			if id, err := m.session.Alive(t.Context(), creds); id != want || err != nil {
				t.Fatalf("got %+v, %v, want what was proved", id, err)
			}
		}
		synctest.Wait()
		for _, call := range m.store.takeCalls() {
			if !strings.HasPrefix(call, "get ") {
				t.Errorf("Alive does %q", call)
			}
		}
		m.clock.advance(time.Minute)
		id, err := m.session.Alive(t.Context(), creds)
		wantRejected(t, id, err, auth.DetailNotSignedIn, "session")
	})
}

// Alive never asks a provider, however long ago a renewal was due.
func TestAliveRenewsNothing(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		s := d.signIn(t, d.grant("user"))
		d.answersAfter(0, "auditor")
		creds := &auth.Credentials{Delegated: s.session}
		for range 59 {
			time.Sleep(time.Minute)
			if id, err := d.session.Alive(t.Context(), creds); err != nil || id.Login != s.login.ID {
				t.Fatalf("got %+v, %v", id, err)
			}
		}
		d.wantAsked(t, 0)
		must(d.logins.End(t.Context(), s.login.ID))(t)
		id, err := d.session.Alive(t.Context(), creds)
		wantRejected(t, id, err, auth.DetailNotSignedIn, "session")
	})
}

// A chain uses the mechanism whose credentials are presented, as in Authenticate.
func TestAliveInAChain(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	chain := auth.Chain{NewBearerTokens(m.bearer, nil), m.session}
	both := &auth.Credentials{Scheme: "bearer", Value: s.access, Session: s.session}
	for range 2 {
		if id, err := chain.Alive(t.Context(), both); err != nil || id.Mechanism != "bearer" {
			t.Errorf("got %+v, %v", id, err)
		}
	}
	m.clock.advance(15 * time.Minute)
	id, err := chain.Alive(t.Context(), both)
	wantRejected(t, id, err, auth.DetailBadToken, "expired")
	if id, err := chain.Alive(t.Context(), &auth.Credentials{Session: s.session}); err != nil || id.Mechanism != "session" {
		t.Errorf("got %+v, %v", id, err)
	}
	if id, err := chain.Alive(t.Context(), &auth.Credentials{}); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("got %+v, %v", id, err)
	}
}

// Alive never waits for the issuer of a token. It asks in the background, with pauses,
// and uses the answer afterwards.
func TestAliveOfTrustedTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newIssuers(t, nil)
		token, creds := "opaque", &auth.Credentials{Scheme: "bearer", Value: "opaque"}
		good := o.access("one")
		answers := func(after time.Duration, err error) {
			o.asked.answers(func(context.Context, string) (*provider.AccessToken, error) {
				time.Sleep(after)
				return &good, err
			})
		}
		answers(0, nil)
		must(o.by(t, token))(t)
		alive := func(good bool, questions int) {
			t.Helper()
			id, err := o.bearers.Alive(t.Context(), creds)
			if good && (err != nil || id.Username != "carol") {
				t.Errorf("got %+v, %v", id, err)
			}
			if !good {
				wantNoAnswer(t, id, err)
			}
			synctest.Wait()
			if got := o.asked.questions(); got != questions {
				t.Errorf("asked %d times, want %d", got, questions)
			}
		}
		alive(true, 1)
		o.clock.advance(opaqueFresh) // the issuer must be asked again
		answers(time.Second, nil)
		alive(false, 2)
		alive(false, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		alive(true, 2)

		o.clock.advance(opaqueFresh)
		answers(0, providerFails(provider.ErrFault))
		alive(false, 3)
		alive(false, 3) // there is a pause
		o.clock.advance(againPause)
		alive(false, 4)
		o.clock.advance(againPause)
		answers(0, providerFails(provider.ErrInvalid))
		alive(false, 5)
		id, err := o.bearers.Alive(t.Context(), creds)
		wantRejected(t, id, err, auth.DetailBadToken, "not active")

		// After a reload the cache is empty.
		next := o.instance(t)
		answers(0, nil)
		id, err = next.bearers.Alive(t.Context(), creds)
		wantNoAnswer(t, id, err)
		synctest.Wait()
		if id, err := next.bearers.Alive(t.Context(), creds); err != nil || id.Username != "carol" {
			t.Errorf("got %+v, %v", id, err)
		}
		must(next.bearers.Revoke(t.Context(), token))(t)
		next.clock.advance(opaqueFresh)
		id, err = next.bearers.Alive(t.Context(), creds)
		wantRejected(t, id, err, auth.DetailBadToken, "revoked")
	})
}
