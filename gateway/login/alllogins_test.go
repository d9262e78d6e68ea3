package login

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
)

// Each visits the live logins of all users, local ones and those of providers, and
// none that nothing opens.
func TestEachLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alice, bob, person := r.signIn(t, "alice"), r.signIn(t, "bob"), r.signInAt(t, r.grant("user"))
	account, _ := r.accounts.Lookup("alice")
	must.Get(r.logins.Begin(t.Context(), account, Device{}, Term{Lifetime: time.Hour}, nil))(t) // nothing opens it
	must.Do(t, r.store.Put(t.Context(), loginPrefix+"DAMAGED", []byte("{"), time.Time{}))
	of := func() (all []string) {
		if err := r.overview().Each(t.Context(), func(l *UserLogin) error {
			all = append(all, fmt.Sprint(l.ID, " ", l.User, " ", l.Mechanism, " ", l.Provider, " ",
				l.Device == DeviceOf(testDevice)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		return all
	}
	username := must.Get(r.bySession(t, person))(t).Username
	want := []string{
		alice.login.ID + " alice session local true", bob.login.ID + " bob session local true",
		person.login.ID + " keycloak:" + username + " oidc keycloak true",
	}
	slices.Sort(want)
	if got := of(); !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	r.end(t, alice)
	must.Do(t, r.store.Delete(t.Context(), userPrefix+person.login.Subject()))
	if got, want := of(), []string{bob.login.ID + " bob session local true"}; !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	r.accounts = accounts.New(nil, nil, r.now) // bob's account is removed
	if got := of(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// An error of the caller, or of the store, ends the list.
func TestEachLoginFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		r.signIn(t, "alice")
	}
	enough, visits := errors.New("enough"), 0
	if err := r.overview().Each(t.Context(), func(*UserLogin) error {
		visits++
		return enough
	}); !errors.Is(err, enough) || visits != 1 {
		t.Errorf("%v after %d visits", err, visits)
	}
}
