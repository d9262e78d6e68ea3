package signin_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// people is a rig whose accounts alice and bob are in a file, where they can have factors.
type people struct {
	*rig.Rig
	file, yaml string
}

const twoFactors = `
  - {match: /vault/, name: vault, upstream: app, auth: [session, bearer], policy: {factors: 2}}
`

// newPeople returns people at a configuration with more lines, which begin with routes.
func newPeople(t *testing.T, more string) *people {
	t.Helper()
	return newPeopleOf(t, rig.Base+twoFactors+more)
}

func newPeopleOf(t *testing.T, yaml string) *people {
	t.Helper()
	p := &people{file: filepath.Join(t.TempDir(), "users.yaml")}
	before, rest, _ := strings.Cut(yaml, "accounts:\n")
	users, after, _ := strings.Cut(rest, "upstreams:\n")
	users = strings.TrimPrefix(users, "  users:\n")
	must.Do(t, os.WriteFile(p.file, []byte(strings.ReplaceAll(users, "    - ", "- ")), 0o600))
	p.yaml = before + "accounts: {file: " + p.file + "}\nupstreams:\n" + after
	p.Rig = rig.New(t, p.yaml)
	return p
}

// newPeopleAt returns people at a configuration whose file of accounts exists already.
func newPeopleAt(t *testing.T, file, yaml string) *people {
	t.Helper()
	return &people{Rig: rig.New(t, yaml), file: file, yaml: yaml}
}

// account returns the account of a user as it is in force.
func (p *people) account(username string) *accounts.Account {
	p.T.Helper()
	account, ok := p.Options.Local.Accounts.Lookup(username)
	if !ok {
		p.T.Fatalf("there is no account %s", username)
	}
	return account
}

// edit returns what edits an account in the file.
func (p *people) edit(username string) func(context.Context, func(*accounts.Account) error) error {
	nothing := func() error { return nil }
	return func(ctx context.Context, change func(*accounts.Account) error) error {
		return p.Config.AccountsFile().Edit(ctx, accounts.Edit{
			Username: username, Change: change, Ready: nothing, Apply: nothing,
		})
	}
}

// addTOTP gives TOTP to an account. The codes of this time are used then.
func (p *people) addTOTP(username string) (secret string, recovery []string) {
	p.T.Helper()
	proofs, account := p.Options.Local.Proofs, p.account(username)
	made, _, err := proofs.BeginTOTP(p.T.Context(), account)
	must.Do(p.T, err)
	recovery = must.Get(proofs.ConfirmTOTP(p.T.Context(), account, p.code(made.Reveal()), p.edit(username)))(p.T)
	p.Reload(p.yaml)
	p.Clock.Advance(30 * time.Second)
	return made.Reveal(), recovery
}

// addPasskey gives an account a passkey of an authenticator.
func (p *people) addPasskey(a *authenticator.Authenticator, username string) {
	p.T.Helper()
	proofs, account := p.Options.Local.Proofs, p.account(username)
	options := must.Get(proofs.BeginPasskey(p.T.Context(), account))(p.T)
	answer := must.Get(a.Create(options))(p.T)
	_, _, err := proofs.AddPasskey(p.T.Context(), account, "key", answer, p.edit(username))
	must.Do(p.T, err)
	p.Reload(p.yaml)
}

// code returns the code that an app shows now.
func (p *people) code(secret string) string {
	return must.Get(authenticator.Code(secret, p.Clock.Now()))(p.T)
}

// nextCode returns the code that an app shows half a minute later.
func (p *people) nextCode(secret string) string {
	p.Clock.Advance(30 * time.Second)
	return p.code(secret)
}

// withCode returns a body of /login with a code.
func withCode(body, code string) string {
	return strings.TrimSuffix(body, "}") + `,"code":"` + code + `"}`
}

// key returns an authenticator in a browser at the rig.
func key(verified bool) *authenticator.Authenticator {
	return &authenticator.Authenticator{Origin: "https://gw.example", Verified: verified}
}

// options returns what /signin/passkey/options answers.
func options(c *rig.Client, body string) []byte {
	c.T.Helper()
	return c.Want(200, "POST", "/signin/passkey/options", body, rig.JSON).Body.Bytes()
}

// noCookie fails the test if an answer gives a session or tokens.
func noCookie(t *testing.T, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	if jar := rig.JarOf(w); jar["session_id"] != "" || strings.Contains(w.Body.String(), "access_token") {
		t.Errorf("%s: %d gives a login: %q %s", what, w.Code, jar, w.Body)
	}
}

// factorsOf returns what a 401 says of the factors of an account, "none" without the member.
func factorsOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body struct{ Factors []string }
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &body))
	if body.Factors == nil {
		return "none"
	}
	return strings.Join(body.Factors, " ")
}

// amrOf returns the amr of an access token.
func amrOf(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no access token", token)
	}
	var claims struct{ AMR []string }
	must.Do(t, json.Unmarshal(must.Get(base64.RawURLEncoding.DecodeString(parts[1]))(t), &claims))
	return strings.Join(claims.AMR, " ")
}
