package proofs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/gateway/strictyaml"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
)

const origin = "https://auth.example.org"

// rig is the accounts alice and bob in a file, and one store.
type rig struct {
	testing.TB
	*Proofs
	clock *clocktest.Clock
	path  string
	key   string // of the configuration
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	clock := clocktest.At(time.Unix(1_800_000_000, 0))
	memory := store.NewMemory(clock.Now)
	tb.Cleanup(func() { memory.Close() })
	r := &rig{TB: tb, clock: clock, path: filepath.Join(tb.TempDir(), "users.yaml")}
	r.write("- username: alice\n  name: Alice\n- username: bob\n")
	r.Proofs = &Proofs{Options: Options{Store: memory}}
	r.reload()
	return r
}

func (r *rig) write(content string) { must.Do(r, os.WriteFile(r.path, []byte(content), 0o600)) }

func newReader() *strictyaml.Reader {
	options := strictyaml.Options{
		Main: "config.yaml", Lookup: os.LookupEnv, SecretKeys: []string{"password_hash"}, PublicKeys: []string{"htpasswd"},
	}
	accounts.Declare(&options)
	return strictyaml.NewReader(options)
}

// instance returns the proofs of an instance that reads the file now.
func (r *rig) instance() *Proofs {
	r.Helper()
	reader := newReader()
	main := reader.Read("config.yaml", []byte("{}\n"), 1000, "", new(struct{}))
	users, places := accounts.Lists{Reader: reader, Main: main}.Accounts(r.path)
	accounts.Check(users, places, false)
	must.Do(r, reader.Err())
	return New(Options{
		Store: r.Store, Now: r.clock.Now, Accounts: accounts.New(users, accounts.NewDecoyKey([]byte("decoys")), r.clock.Now),
		File: &accounts.File{Path: r.path, Reader: newReader},
		Key:  must.Get(NewKey(r.key, r.path))(r), Issuer: "Example",
		Site: must.Get(factors.NewRelyingParty("example.org", "Example", origin))(r),
	})
}

// reload reads the file again.
func (r *rig) reload() { r.Proofs = r.instance() }

// account returns the account as the file has it.
func (r *rig) account(username string) *accounts.Account {
	r.Helper()
	account, ok := r.Accounts.Lookup(username)
	if !ok {
		r.Fatalf("there is no account %s", username)
	}
	return account
}

// edit returns what edits the account of a user in the file.
func (r *rig) edit(username string) Edit {
	nothing := func() error { return nil }
	return func(ctx context.Context, change func(*accounts.Account) error) error {
		return r.File.Edit(ctx, accounts.Edit{Username: username, Change: change, Ready: nothing, Apply: nothing})
	}
}

// verified returns an authenticator that verifies its user.
func verified() *authenticator.Authenticator {
	return &authenticator.Authenticator{Origin: origin, Verified: true}
}

// addPasskey adds a passkey to an account, and returns the recovery codes that come with it.
func (r *rig) addPasskey(a *authenticator.Authenticator, username string) []string {
	r.Helper()
	options := must.Get(r.BeginPasskey(r.Context(), r.account(username)))(r)
	answer := must.Get(a.Create(options))(r)
	_, codes, err := r.AddPasskey(r.Context(), r.account(username), "key", answer, r.edit(username))
	must.Do(r, err)
	r.reload()
	return codes
}

// addTOTP adds TOTP to an account, and returns the secret and the recovery codes. The code of
// this time is used then.
func (r *rig) addTOTP(username string) (secret string, codes []string) {
	r.Helper()
	made, _, err := r.BeginTOTP(r.Context(), r.account(username))
	must.Do(r, err)
	secret = made.Reveal()
	codes = must.Get(r.ConfirmTOTP(r.Context(), r.account(username), r.code(secret), r.edit(username)))(r)
	r.reload()
	return secret, codes
}

// code returns the code that an app shows now.
func (r *rig) code(secret string) string {
	return must.Get(authenticator.Code(secret, r.clock.Now()))(r)
}

// nextCode returns the code that an app shows half a minute later.
func (r *rig) nextCode(secret string) string {
	r.clock.Advance(30 * time.Second)
	return r.code(secret)
}

func told(amr []string, err error) string { return fmt.Sprint(strings.Join(amr, " "), " ", err) }
