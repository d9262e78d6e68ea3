package gateway

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

// addPasskey adds a passkey to the account of a session.
func (r *rig) addPasskey(a *authenticator.Authenticator, name, cookie string) (id string) {
	r.t.Helper()
	options := r.want(200, "POST", "/account/passkeys/options", "", cookie).Body.Bytes()
	body := must.Get(json.Marshal(map[string]any{
		"name": name, "credential": json.RawMessage(must.Get(a.Create(options))(r.t)),
	}))(r.t)
	w := r.want(201, "POST", "/account/passkeys", string(body), jsonType, cookie)
	r.stub()
	var added struct{ ID string }
	must.Do(r.t, json.Unmarshal(w.Body.Bytes(), &added))
	return added.ID
}

func newAuthenticator() *authenticator.Authenticator {
	return &authenticator.Authenticator{Origin: "https://gw.example", Verified: true}
}

// The counter of a passkey is forgotten with the passkey, which the user or the operator
// removes. A reload that keeps the passkey keeps its counter.
func TestRemovedPasskeysLeaveNoCounter(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	counted := func(id string) bool {
		t.Helper()
		_, err := r.store.Get(t.Context(), "passkey-counter:"+record.Hash([]byte(id)))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	added := func(name string) string {
		t.Helper()
		key := newAuthenticator()
		id := r.addPasskey(key, name, here.cookie)
		r.clock.Advance(time.Second)
		options := r.want(200, "POST", "/signin/passkey/options", "{}", jsonType).Body.Bytes()
		r.want(200, "POST", "/signin/passkey", string(must.Get(key.Get(options))(t)), jsonType)
		if !counted(id) {
			t.Fatal("a sign-in leaves no counter")
		}
		return id
	}
	first, second := added("first"), added("second")
	r.want(200, "POST", "/account/passkeys/remove", `{"id":"`+first+`"}`, jsonType, here.cookie)
	r.mustReload(fileConfig(t, "accounts.yaml"))
	if counted(first) || !counted(second) {
		t.Errorf("after the removal, the first is counted: %t, the second: %t", counted(first), counted(second))
	}
	must.Do(t, os.WriteFile(path, []byte(fileAccounts), 0o600)) // as the operator resets them
	r.mustReload(fileConfig(t, "accounts.yaml"))
	if counted(second) {
		t.Error("a passkey that the operator has removed is still counted")
	}
}
