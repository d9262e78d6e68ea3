package apitokens

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/policy"
)

// A token proves its owner, with the roles that both have.
func TestAPIToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token, made := r.newToken(t, "alice", "user")
	for name, id := range map[string]*policy.Identity{
		"bearer": must.Get(r.byToken(t, token))(t), "basic": must.Get(r.byPassword(t, "alice", token))(t),
	} {
		if id.Username != "alice" || id.Subject != "local:alice" || id.Mechanism != policy.Bearer || id.Login != "" ||
			!slices.Equal(id.Roles, []string{"user"}) || !id.Expires.Equal(made.Expires) ||
			!cmp.Equal(id.Proof, policy.Proof{}) {
			t.Errorf("%s: %+v", name, id)
		}
	}
	for _, username := range []string{"", "__token__"} {
		if id := must.Get(r.byPassword(t, username, token))(t); id.Username != "alice" {
			t.Errorf("as %q the token is that of %s", username, id.Username)
		}
	}
	for _, username := range []string{"bob", "Alice", "__TOKEN__", "token"} {
		wantRefused(t, "user name of another")(r.byPassword(t, username, token))
	}
	other := r.elsewhere(t) // whose cache is empty
	must.Get(other.byToken(t, token))(t)
	for _, key := range r.store.EverWritten() {
		if strings.Contains(string(key), token[4:]) {
			t.Errorf("the store has the token: %s", key)
		}
	}
	r.clock.Advance(24 * time.Hour)
	wantRefused(t, "expired")(r.byToken(t, token))
	wantRefused(t, "expired")(r.byPassword(t, "alice", token))
}

// The roles of a token are those of the owner now, reduced to the token's.
func TestAPITokenRoles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account, _ := r.accounts.Lookup("bob")
	if _, _, err := r.api.Create(t.Context(), accountOwner(account), "x", []string{"user", "admin"},
		time.Hour); !errors.Is(err, ErrRoleNotHeld) {
		t.Errorf("a role that bob does not have: %v", err)
	}
	token, _ := r.newToken(t, "alice", "admin")
	none, _ := r.newToken(t, "alice")
	for _, c := range []struct{ has, want []string }{
		{[]string{"user", "admin"}, []string{"admin"}}, {[]string{"user"}, []string{}},
		{[]string{"root", "admin"}, []string{"admin"}},
	} {
		now := alice
		now.Roles = c.has
		after := r.withAccounts(t, now)
		if id := must.Get(after.byToken(t, token))(t); !slices.Equal(id.Roles, c.want) {
			t.Errorf("alice has %q, the token %q, want %q", c.has, id.Roles, c.want)
		}
		if id := must.Get(after.byToken(t, none))(t); len(id.Roles) != 0 {
			t.Errorf("a token without roles has %q", id.Roles)
		}
	}
}

// A token ends with its account, and stays ended when the account comes back.
func TestAPITokenEndsWithAccount(t *testing.T) {
	t.Parallel()
	changed, disabled := alice, alice
	changed.Hash, disabled.Disabled = testHash("other"), true
	for name, people := range map[string][]accounts.Account{"password": {changed, bob}, "disabled": {disabled, bob},
		"removed": {bob}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			must.Do(t, r.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now()}))
			token, _ := r.newToken(t, "alice")
			bobs, _ := r.newToken(t, "bob")
			r.clock.Advance(time.Second)
			for step, people := range [][]accounts.Account{people, {alice, bob}} {
				after := r.withAccounts(t, people...)
				must.Do(t, after.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now()}))
				wantRefused(t, "account")(after.byToken(t, token))
				wantRefused(t, "account")(after.byPassword(t, "alice", token))
				must.Get(after.byToken(t, bobs))(t)
				if list := must.Get(after.api.List(t.Context(), after.owner("alice")))(t); len(list) != 0 {
					t.Errorf("step %d: the list has %+v", step, list)
				}
				r.clock.Advance(time.Second)
			}
		})
	}
}

// A new password ends a token even if it is not known when accounts changed.
func TestAPITokenEndsWithPassword(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token, _ := r.newToken(t, "alice")
	changed := alice
	changed.Hash = testHash("other")
	wantRefused(t, "account")(r.withAccounts(t, changed).byToken(t, token))
}

// The factors of an account are about logins: a token does not end when they change.
func TestAPITokenAfterFactors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proven := alice
	proven.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "c2VhbGVk"}}
	for _, c := range []struct{ before, after accounts.Account }{{alice, proven}, {proven, alice}} {
		token, _ := r.withAccounts(t, c.before).newToken(t, "alice")
		must.Get(r.withAccounts(t, c.after).byToken(t, token))(t)
	}
}

// A token that is not whole costs no look at the store, and is never valid.
func TestBrokenAPIToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token, _ := r.newToken(t, "alice")
	r.store.TakeCalls()
	for at := len(auth.APITokenMark); at < len(token); at++ {
		for _, c := range []byte("A7a ") {
			if broken := token[:at] + string(c) + token[at+1:]; broken != token {
				if _, err := r.byToken(t, broken); !errors.Is(err, auth.ErrRejected) {
					t.Errorf("%s: %v", broken, err)
				}
				if _, err := r.byPassword(t, "alice", broken); err == nil {
					t.Errorf("%s is accepted as a password", broken)
				}
			}
		}
	}
	for _, broken := range []string{"agt_", token[:len(token)-1], token + "A", token + token, strings.ToLower(token)} {
		wantRefused(t, "not whole")(r.byToken(t, broken))
		wantRefused(t, "not whole")(r.byPassword(t, "alice", broken))
	}
	if calls := r.store.TakeCalls(); len(calls) > 0 {
		t.Errorf("calls of the store: %q", calls)
	}
	wantRefused(t, "unknown")(r.byToken(t, newToken()))
	if calls := r.store.TakeCalls(); len(calls) != 1 {
		t.Errorf("a whole token costs %q, want one call", calls)
	}
}

// An API token with any change never authenticates.
func FuzzAPIToken(f *testing.F) {
	r := newRig(f)
	token, _ := r.newToken(f, "alice")
	f.Add(uint8(5), "B")
	f.Add(uint8(0), "")
	f.Add(uint8(62), token)
	f.Fuzz(func(t *testing.T, at uint8, with string) {
		i := int(at) % len(token)
		changed := token[:i] + with + token[i+1:]
		if changed == token {
			return
		}
		if id, err := r.byToken(t, changed); err == nil {
			t.Errorf("%q proves %+v", changed, id)
		}
		if id, err := r.byPassword(t, "alice", changed); err == nil {
			t.Errorf("the password %q proves %+v", changed, id)
		}
	})
}

// A revoked token is invalid at once, on every instance. Others cannot revoke it.
func TestRevokeAPIToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.elsewhere(t)
	token, made := r.newToken(t, "alice")
	kept, second := r.newToken(t, "alice")
	must.Get(other.byToken(t, token))(t)
	if err := r.api.Revoke(t.Context(), r.owner("bob"), made.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("bob revokes it: %v", err)
	}
	must.Do(t, r.api.Revoke(t.Context(), r.owner("alice"), made.ID))
	for _, r := range []*rig{r, other} {
		wantRefused(t, "revoked")(r.byToken(t, token))
		must.Get(r.byToken(t, kept))(t)
		if list := must.Get(r.api.List(t.Context(), r.owner("alice")))(t); len(list) != 1 || list[0].ID != second.ID {
			t.Errorf("the list has %+v", list)
		}
	}
	if err := r.api.Revoke(t.Context(), r.owner("alice"), made.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("the second time: %v", err)
	}
}

// An account has a bounded number of tokens. Those that have ended do not count.
func TestNumberOfAPITokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account, _ := r.accounts.Lookup("alice")
	create := func() error {
		_, _, err := r.api.Create(t.Context(), accountOwner(account), "x", nil, time.Hour)
		return err
	}
	for range Max {
		must.Do(t, create())
	}
	r.store.TakeCalls()
	if err := create(); !errors.Is(err, ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	for _, call := range r.store.TakeCalls() {
		if key, ok := strings.CutPrefix(call, "put "); ok {
			if _, err := r.store.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a refused token is recorded: %v", err)
			}
		}
	}
	r.newToken(t, "bob")
	must.Do(t, r.api.Revoke(t.Context(), r.owner("alice"), must.Get(r.api.List(t.Context(), r.owner("alice")))(t)[0].ID))
	must.Do(t, create())
	r.clock.Advance(time.Hour)
	must.Do(t, create())
	if list := must.Get(r.api.List(t.Context(), r.owner("alice")))(t); len(list) != 1 {
		t.Errorf("the list has %d tokens", len(list))
	}
}

// The last use is stored without a write for each request. A check of a stream is
// no use.
func TestLastUseOfAPIToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		token, _ := r.newToken(t, "alice")
		var used time.Time
		writes := 0
		check := func(swaps int, at time.Time) {
			t.Helper()
			synctest.Wait()
			r.store.Fails("")
			list := must.Get(r.api.List(t.Context(), r.owner("alice")))(t)
			if len(list) != 1 || !list[0].LastUsed.Equal(at) {
				t.Errorf("the list has %+v, want the last use at %v", list, at)
			}
			for _, call := range r.store.TakeCalls() {
				if strings.HasPrefix(call, "swap "+tokenPrefix) {
					writes++
				}
			}
			if writes != swaps {
				t.Errorf("%d writes, want %d", writes, swaps)
			}
		}
		creds := &auth.Credentials{Scheme: "bearer", Value: token}
		must.Get(r.bearers.Alive(t.Context(), creds))(t)
		check(0, time.Time{})
		used = r.now()
		for range 100 {
			must.Get(r.byToken(t, token))(t)
			synctest.Wait()
			must.Get(r.byPassword(t, "alice", token))(t)
			synctest.Wait()
		}
		check(1, used)
		r.clock.Advance(useInterval - time.Second)
		must.Get(r.byToken(t, token))(t)
		check(1, used)
		r.clock.Advance(time.Second)
		must.Get(r.byToken(t, token))(t)
		check(2, r.now())
		// A failure is not repeated for each request.
		used = r.now()
		r.clock.Advance(useInterval)
		r.store.Fails("swap " + tokenPrefix)
		for range 10 {
			must.Get(r.byToken(t, token))(t)
			synctest.Wait()
		}
		check(3, used)
		r.clock.Advance(useRetry)
		must.Get(r.byToken(t, token))(t)
		check(4, r.now())
	})
}

// A use does not bring a revoked token back.
func TestUseOfRevokedAPIToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		token, made := r.newToken(t, "alice")
		r.store.Once("swap "+tokenPrefix, func() { must.Do(t, r.api.Revoke(t.Context(), r.owner("alice"), made.ID)) })
		must.Get(r.byToken(t, token))(t)
		synctest.Wait()
		wantRefused(t, "revoked")(r.byToken(t, token))
	})
}

// A store that fails never lets a token in, and a token that could not be recorded
// whole is not valid.
func TestAPITokensWithoutStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account, _ := r.accounts.Lookup("alice")
	for _, failing := range []string{"get", "put", "swap apitokens:", "take"} {
		token, made := r.newToken(t, "alice")
		r.store.Fails(failing)
		_, errUse := r.byToken(t, token)
		_, errList := r.api.List(t.Context(), r.owner("alice"))
		_, _, errCreate := r.api.Create(t.Context(), accountOwner(account), "x", nil, time.Hour)
		errRevoke := r.api.Revoke(t.Context(), r.owner("alice"), made.ID)
		r.store.Fails("")
		for name, c := range map[string]struct {
			err  error
			want bool
		}{
			"use": {errUse, failing == "get"}, "list": {errList, failing == "get"},
			"create": {errCreate, failing != "take"}, "revoke": {errRevoke, failing == "get" || failing == "take"},
		} {
			if fails := c.err != nil; fails != c.want || errors.Is(c.err, auth.ErrRejected) {
				t.Errorf("%s while %s fails: %v", name, failing, c.err)
			}
		}
	}
}

// Requests at the same time lose no token.
func TestAPITokensAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account, _ := r.accounts.Lookup("alice")
	errs := make(chan error)
	for i := range 20 {
		go func() {
			_, _, err := r.api.Create(t.Context(), accountOwner(account), fmt.Sprint(i), nil, time.Hour)
			errs <- err
		}()
	}
	for range 20 {
		must.Do(t, <-errs)
	}
	if list := must.Get(r.api.List(t.Context(), r.owner("alice")))(t); len(list) != 20 {
		t.Errorf("the list has %d tokens, want 20", len(list))
	}
}

// A warm request decodes and hashes nothing, and Basic credentials of others cost
// no memory.
func TestWarmAPIToken(t *testing.T) {
	r := newRig(t)
	token, _ := r.newToken(t, "alice")
	chain := auth.Chain{Passwords{Tokens: r.api}, r.bearers}
	for name, creds := range map[string]*auth.Credentials{
		"bearer": {Scheme: "bearer", Value: token}, "basic": {Scheme: "basic", Value: basicValue("alice", token)},
	} {
		synctest.Test(t, func(t *testing.T) { // the first use is stored
			must.Get(chain.Authenticate(t.Context(), creds))(t)
			synctest.Wait()
		})
		first := must.Get(chain.Authenticate(t.Context(), creds))(t)
		r.store.TakeCalls()
		if again := must.Get(chain.Authenticate(t.Context(), creds))(t); again != first {
			t.Errorf("%s: a warm request makes another identity", name)
		}
		if calls := r.store.TakeCalls(); len(calls) != 1 || !strings.HasPrefix(calls[0], "get "+tokenPrefix) {
			t.Errorf("%s: a warm request costs %q", name, calls)
		}
	}
	if got := testing.AllocsPerRun(100, func() {
		if (&auth.Credentials{Scheme: "basic",
			Value: "c2VydmljZTpzM3J2aWNlIGFuZCBhIGxvbmcgcGFzc3dvcmQgd2l0aCBtYW55IHdvcmRz"}).APITokenInPassword() {
			t.Error("another password counts as a token")
		}
	}); got != 0 {
		t.Errorf("other Basic credentials cost %v allocations", got)
	}
}

// Whatever is malformed around a token, the token counts as one.
func TestTokenInPassword(t *testing.T) {
	t.Parallel()
	whole := basicValue("alice", newToken())
	for value, want := range map[string]bool{
		whole: true, strings.TrimRight(whole, "="): true, whole + "!": true, whole[:40]: true,
		basicValue(strings.Repeat("x", 2000), "agt_"): true,
		basicValue("agt_", "x"):                       false, basicValue("alice", "wonderland"): false,
		basicValue("alice", "AGT_X"): false,
		"":                           false, "!": false,
	} {
		if got := (&auth.Credentials{Scheme: "basic", Value: value}).APITokenInPassword(); got != want {
			t.Errorf("%.50q: %v, want %v", value, got, want)
		}
		if (&auth.Credentials{Scheme: "digest", Value: value}).APITokenInPassword() {
			t.Errorf("%.50q counts in another scheme", value)
		}
	}
}
