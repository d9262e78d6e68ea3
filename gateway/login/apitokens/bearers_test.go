package apitokens

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"authgate/gateway/identity/auth"
	"authgate/policy"
)

// An API token is recognized in any text by its checksum. Package mechanism has the spellings.
func TestContainsToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	api, _ := r.newToken(t, "alice")
	for text, want := range map[string]bool{
		api: true, "a " + api + "B": true, "agt_" + api: true, "agt_agt_ " + api: true, basicValue("a.b.c", api): true,
		strings.TrimRight(basicValue("", api), "="):                true,
		base64.RawURLEncoding.EncodeToString([]byte("é>?:" + api)): true,

		"": false, "agt_": false, api[1:]: false, api[:len(api)-1]: false, api[:len(api)-1] + "!": false,
		strings.ToLower(api): false, strings.Repeat("agt_", 16<<10): false,
	} {
		if got := r.bearers.ContainsOwn(text); got != want {
			t.Errorf("%.80q: %t, want %t", text, got, want)
		}
	}
}

// What says that it is an API token goes to no other mechanism, whatever becomes of it.
// All else goes there.
func TestTokensBeforeOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good, _ := r.newToken(t, "alice")
	others := &countingMechanism{}
	b := inFront{others, r.api}
	for _, value := range []string{good, good[:20], newToken(), auth.APITokenMark} {
		for name, ask := range map[string]func(context.Context, *auth.Credentials) (*policy.Identity, error){
			"Authenticate": b.Authenticate, "Alive": b.Alive,
		} {
			id, err := ask(t.Context(), &auth.Credentials{Scheme: "bearer", Value: value})
			if (value == good) != (err == nil) || (id == nil) != (err != nil) || others.asked != 0 {
				t.Errorf("%s %.20q: %+v, %v; the others were asked %d times", name, value, id, err, others.asked)
			}
		}
		if _, err := r.bearers.Revoke(t.Context(), value); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("Revoke %.20q: %v", value, err)
		}
	}
	for _, creds := range []auth.Credentials{
		{Scheme: "bearer", Value: "x" + good}, {Scheme: "digest", Value: good}, {Access: good}, {},
	} {
		others.asked = 0
		_, errNow := b.Authenticate(t.Context(), &creds)
		_, errAlive := b.Alive(t.Context(), &creds)
		if !errors.Is(errNow, errOthers) || !errors.Is(errAlive, errOthers) || others.asked != 2 {
			t.Errorf("%+v: %v, %v; the others were asked %d times", creds, errNow, errAlive, others.asked)
		}
	}
}

var errOthers = errors.New("the other mechanism")

// countingMechanism counts what it is asked.
type countingMechanism struct{ asked int }

func (c *countingMechanism) Authenticate(context.Context, *auth.Credentials) (*policy.Identity, error) {
	c.asked++
	return nil, errOthers
}

func (c *countingMechanism) Alive(context.Context, *auth.Credentials) (*policy.Identity, error) {
	c.asked++
	return nil, errOthers
}

func (c *countingMechanism) Challenge(*auth.Credentials) auth.Challenge { return "" }
