package gateway

import (
	"os"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// A later account of a name has nothing of what the earlier one had consented to, however that was
// removed: by a change of the file, by another instance, or while no gateway ran. A reload
// that leaves the account leaves the consents.
func TestConsentsOfANamesake(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *rig, string) *rig{
		"the file changes": func(t *testing.T, r *rig, path string) *rig {
			with := content(t, path)
			for _, users := range []string{strings.Replace(with, "username: bob", "username: rob", 1), with} {
				must.Do(t, os.WriteFile(path, []byte(users), 0o640))
				r.clock.Advance(time.Second)
				must.Do(t, r.Reload(r.state.Load().config.Reread))
			}
			return r
		},
		"another instance": func(t *testing.T, r *rig, path string) *rig {
			file := r.state.Load().config.AccountsFile()
			must.Do(t, file.Edit(t.Context(), accounts.Edit{Username: "bob", Remove: true}))
			r.clock.Advance(time.Second)
			other := must.Get(startRig(t, r.dir, withOAuth(t), r.store, r.clock.Now))(t)
			edit := accounts.Edit{Username: "bob", Add: true, Change: func(a *accounts.Account) error {
				a.PasswordHash = ownrig.BobHash
				return nil
			}}
			must.Do(t, file.Edit(t.Context(), edit))
			r.clock.Advance(time.Second)
			must.Do(t, other.Reload(other.state.Load().config.Reread))
			return other
		},
		"no instance": func(t *testing.T, r *rig, path string) *rig {
			file := r.state.Load().config.AccountsFile()
			r.Close()
			for _, edit := range []accounts.Edit{{Username: "bob", Remove: true}, {Username: "bob", Add: true}} {
				edit.Change = func(a *accounts.Account) error {
					a.PasswordHash = ownrig.BobHash
					return nil
				}
				must.Do(t, file.Edit(t.Context(), edit))
			}
			r.clock.Advance(time.Second)
			return must.Get(startRig(t, r.dir, withOAuth(t), r.store, r.clock.Now))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, "accounts.yaml", fileAccounts)
			r.mustReload(withOAuth(t))
			consents := func(r *rig) string {
				t.Helper()
				return r.client.Want(200, "GET", "/account/clients", "",
					r.client.Login(ownrig.Bob).Cookie).Body.String()
			}
			r.clock.Advance(time.Second)
			must.Do(t, r.state.Load().oauth.Consents.Give(t.Context(), "local:bob", "wiki", "Wiki", "", nil))
			r.mustReload(withOAuth(t) + "limits: {login_failures: 20}\n")
			if got := consents(r); !strings.Contains(got, "wiki") {
				t.Fatalf("after a reload: %s", got)
			}
			r = change(t, r, path)
			if got := consents(r); strings.Contains(got, "wiki") {
				t.Errorf("the namesake has %s", got)
			}
			given := must.Get(r.state.Load().oauth.Consents.Given(t.Context(), "local:bob", "wiki", "", nil))(t)
			if given {
				t.Error("the namesake is not asked")
			}
		})
	}
}

// withOAuth is the configuration of a file of accounts with an OAuth client.
func withOAuth(t *testing.T) string {
	t.Helper()
	return fileConfig(t, "accounts.yaml") +
		"oauth: {enabled: true, clients: [{id: wiki, redirect_uris: [\"https://wiki.example.net/cb\"]}]}\n"
}
