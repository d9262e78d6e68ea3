package invitations

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
)

// rig is a store with invitations, whose accounts change.
type rig struct {
	*Invitations
	clock *clocktest.Clock
}

// as returns the invitations of an instance that has other accounts.
func (r *rig) as(t *testing.T, users ...accounts.Account) *rig {
	t.Helper()
	o := r.Options
	o.Accounts = accounts.New(users, accounts.NewDecoyKey(nil), o.Now)
	must.Do(t, o.Accounts.RecordChanges(t.Context(), o.Store, accounts.Reload{Now: r.clock.Now()}))
	return &rig{New(o), r.clock}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	clock := clocktest.New()
	r := &rig{New(Options{
		Store: store.NewMemory(clock.Now), Now: clock.Now, Base: "https://gw.example.org/.authgate/",
	}), clock}
	return r.as(t, alice(), accounts.Account{Username: "bob"})
}

func alice() accounts.Account { return accounts.Account{Username: "Älice"} }

// token returns the token of a new invitation.
func (r *rig) token(t *testing.T, username string) string {
	t.Helper()
	link := must.Get(r.Invite(t.Context(), username))(t)
	if !strings.HasPrefix(link, "https://gw.example.org/.authgate/signin/invite?token=") {
		t.Errorf("the link is %s", link)
	}
	return must.Get(url.Parse(link))(t).Query().Get(TokenField)
}

// wantInvalid checks that a token is good for nothing.
func (r *rig) wantInvalid(t *testing.T, why, token string) {
	t.Helper()
	for _, call := range []func(context.Context, string) (*accounts.Account, error){r.Find, r.Redeem} {
		if account, err := call(t.Context(), token); account != nil || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, %v", why, account, err)
		}
	}
}

// An invitation serves once, however often it is looked at, and of many uses at once.
func TestRedeem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token, bobs := r.token(t, "A\u0308lice"), r.token(t, "bob")
	for range 3 {
		if account := must.Get(r.Find(t.Context(), token))(t); account.Username != "Älice" {
			t.Errorf("it is for %s", account.Username)
		}
	}
	var uses sync.WaitGroup
	var used atomic.Int32
	for range 20 {
		uses.Go(func() {
			account, err := r.Redeem(t.Context(), token)
			switch {
			case err == nil && account.Username == "Älice":
				used.Add(1)
			case !errors.Is(err, ErrInvalid):
				t.Error(account, err)
			}
		})
	}
	uses.Wait()
	if used.Load() != 1 {
		t.Errorf("it was used %d times", used.Load())
	}
	r.wantInvalid(t, "used", token)
	if account := must.Get(r.Redeem(t.Context(), bobs))(t); account.Username != "bob" {
		t.Errorf("the other is for %s", account.Username)
	}
}

// A wrong token opens nothing, and does not use up the invitation.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token, bobs := r.token(t, "Älice"), r.token(t, "bob")
	name := 22 // characters that have only bits of the name: 16 bytes are 21 and a third
	for _, wrong := range []string{
		"", "x", token[:len(token)-1], token + "A", token + "=", token[:len(token)-4] + "AAAA",
		bobs[:name-1] + token[name-1:], " " + token,
	} {
		r.wantInvalid(t, wrong, wrong)
	}
	must.Get(r.Redeem(t.Context(), token))(t)
	must.Get(r.Redeem(t.Context(), bobs))(t)
}

// An invitation ends with its account, also where the account then gets a later end.
func TestInvitationOfAnAccountThatEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	until := func(hours time.Duration) *rig {
		account := alice()
		account.Until = r.clock.Now().Add(hours * time.Hour)
		return r.as(t, account)
	}
	soon := until(2)
	token := soon.token(t, "Älice")
	later := until(100)
	r.clock.Advance(2*time.Hour - time.Second)
	must.Get(later.Find(t.Context(), token))(t)
	r.clock.Advance(time.Second)
	later.wantInvalid(t, "its account had ended", token)
}

// An invitation ends after 72 hours, with another one, and with its account.
func TestInvitationEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := r.token(t, "Älice")
	r.clock.Advance(lifetime - time.Second)
	must.Get(r.Find(t.Context(), token))(t)
	r.clock.Advance(time.Second)
	r.wantInvalid(t, "too old", token)

	first, second := r.token(t, "Älice"), r.token(t, "Älice")
	r.wantInvalid(t, "replaced", first)
	must.Get(r.Redeem(t.Context(), second))(t)

	disabled, changed, proven := alice(), alice(), alice()
	disabled.Disabled = true
	proven.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "c2VhbGVk"}}
	changed.Roles = []string{"admin"}
	token = r.token(t, "Älice")
	r.clock.Advance(time.Second)
	must.Get(r.as(t, changed).Find(t.Context(), token))(t)
	must.Get(r.as(t, proven).Find(t.Context(), token))(t)
	for why, users := range map[string][]accounts.Account{"disabled": {disabled}, "removed": {{Username: "bob"}}} {
		token := r.as(t, alice()).token(t, "Älice")
		r.clock.Advance(time.Second)
		r.as(t, users...).wantInvalid(t, why, token)
		r.clock.Advance(time.Second)
		r.as(t, alice()).wantInvalid(t, why+", and back", token)
	}
}

func TestInvite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r = r.as(t, alice(), accounts.Account{Username: "eve", Disabled: true})
	for _, username := range []string{"eve", "bob", ""} {
		if link, err := r.Invite(t.Context(), username); link != "" || !errors.Is(err, ErrNoAccount) {
			t.Errorf("%s: got %s, %v", username, link, err)
		}
	}
}
