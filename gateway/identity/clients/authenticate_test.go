package clients

import (
	"errors"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/internal/test/passwordtest"
)

const secretsConfig = `oauth:
  clients:
    - {id: grafana, redirect_uris: ["https://grafana.example.org/cb"], secret: "s3cret/+of%20Grafana:x"}
    - {id: wiki, redirect_uris: ["https://wiki.example.org/cb"], secret: the-secret-of-the-wiki}
    - {id: "job:nightly", grants: [client_credentials], roles: [backup],
       secrets: ["HASH-ONE", "HASH-TWO", as-it-is-written]}
    - {id: cli, grants: [device_code]}
`

// A client is who its secret says, written in one way.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r := newSecretsRig(t)
	const grafana, encoded = "s3cret/+of%20Grafana:x", "s3cret%2F%2Bof%2520Grafana%3Ax"
	for name, c := range map[string]struct {
		p    Presented
		id   string
		want error
	}{
		"Basic, encoded":           {basic("grafana", encoded), "grafana", nil},
		"Basic, as it is":          {basic("grafana", grafana), "grafana", nil},
		"in the form":              {Presented{ID: "grafana", Secret: grafana}, "grafana", nil},
		"Basic, id in the form":    {with(basic("wiki", "the-secret-of-the-wiki"), "wiki", ""), "wiki", nil},
		"encoded id":               {basic(url.QueryEscape("job:nightly"), "as-it-is-written"), "job:nightly", nil},
		"first hash":               {Presented{ID: "job:nightly", Secret: "one"}, "job:nightly", nil},
		"second hash":              {Presented{ID: "job:nightly", Secret: "two"}, "job:nightly", nil},
		"public":                   {Presented{ID: "cli"}, "cli", nil},
		"public, by Basic":         {basic("cli", ""), "cli", nil},
		"the encoded in the form":  {Presented{ID: "grafana", Secret: encoded}, "", ErrUnauthenticated},
		"another client's":         {Presented{ID: "grafana", Secret: "the-secret-of-the-wiki"}, "", ErrUnauthenticated},
		"another client's, Basic":  {basic("wiki", encoded), "", ErrUnauthenticated},
		"a hash":                   {Presented{ID: "job:nightly", Secret: hashes[0]}, "", ErrUnauthenticated},
		"none":                     {Presented{ID: "grafana"}, "", ErrUnauthenticated},
		"none by Basic":            {basic("grafana", ""), "", ErrUnauthenticated},
		"public with a secret":     {Presented{ID: "cli", Secret: "the-secret-of-the-wiki"}, "", ErrUnauthenticated},
		"nothing":                  {Presented{}, "", ErrUnauthenticated},
		"a secret alone":           {Presented{Secret: grafana}, "", ErrUnauthenticated},
		"unknown":                  {Presented{ID: "Grafana", Secret: grafana}, "", ErrUnknown},
		"unknown, by Basic":        {basic("grafana ", grafana), "", ErrUnknown},
		"two ways":                 {with(basic("grafana", grafana), "", grafana), "", ErrTwoWays},
		"two ways, one wrong":      {with(basic("grafana", grafana), "grafana", "wrong"), "", ErrTwoWays},
		"two names":                {with(basic("wiki", "the-secret-of-the-wiki"), "grafana", ""), "", ErrTwoWays},
		"Basic without a colon":    {Presented{Basic: true, Value: "Z3JhZmFuYQ=="}, "", ErrUnauthenticated},
		"Basic that is no base64":  {Presented{Basic: true, Value: "***"}, "", ErrUnauthenticated},
		"Basic with a line break":  {Presented{Basic: true, Value: "Y2xpOg\n=="}, "", ErrUnauthenticated},
		"empty Basic":              {Presented{Basic: true}, "", ErrUnauthenticated},
		"a document by its secret": {Presented{ID: "http://x/", Secret: "x"}, "", ErrUnknown},
		"an assertion": {
			Presented{ID: "grafana", AssertionType: assertionType, Assertion: "a.b.c"}, "", ErrUnauthenticated,
		},
		"secret and assertion": {
			Presented{ID: "wiki", Secret: "the-secret-of-the-wiki", Assertion: "x", AssertionType: assertionType},
			"", ErrTwoWays,
		},
	} {
		client, err := r.authenticate(c.p)
		if !errors.Is(err, c.want) || (err == nil) != (client != nil) || client != nil && client.ID != c.id {
			t.Errorf("%s: %+v, %v; want %v", name, client, err, c.want)
		}
	}
}

// hashes are of the secrets one and two.
var hashes = [2]string{passwordtest.Argon2id("one").Encoded(), passwordtest.Argon2id("two").Encoded()}

func newSecretsRig(t *testing.T) *rig {
	t.Helper()
	config := secretsConfig
	for i, placeholder := range []string{"HASH-ONE", "HASH-TWO"} {
		config = replaceOnce(t, config, placeholder, hashes[i])
	}
	return newRig(t, config, nil)
}

// with returns a request with more in its form.
func with(p Presented, id, secret string) Presented {
	p.ID, p.Secret = id, secret
	return p
}

// Who guesses secrets is stopped, and does not stop the client at the address that it has.
func TestGuessedSecrets(t *testing.T) {
	t.Parallel()
	r := newSecretsRig(t)
	home, elsewhere := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	right := Presented{ID: "job:nightly", Secret: "two", Address: home}
	if _, err := r.authenticate(right); err != nil {
		t.Fatal(err)
	}
	wrong := Presented{ID: "job:nightly", Secret: "guess", Address: elsewhere}
	for range 10 {
		if _, err := r.authenticate(wrong); !errors.Is(err, ErrUnauthenticated) {
			t.Fatal(err)
		}
	}
	throttled := func(p Presented) bool {
		_, err := r.authenticate(p)
		_, ok := errors.AsType[*auth.ThrottledError](err)
		return ok
	}
	if right.Address = elsewhere; !throttled(right) {
		t.Error("the right guess after ten wrong ones is accepted")
	}
	if right.Address = home; throttled(right) {
		t.Error("the client is stopped at its own address")
	}
	if throttled(Presented{ID: "cli", Address: elsewhere}) {
		t.Error("a public client at that address is stopped")
	}
	r.clock.Advance(time.Hour)
	if right.Address = elsewhere; throttled(right) {
		t.Error("after the window the client is stopped")
	}
}

// What a client of the configuration is.
func TestConfiguredClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, `policies: {staff: {roles: [staff]}}
providers: [{name: sso, issuer: "https://id.example.org", client_id: gateway}]
oauth:
  clients:
    - id: app
      name: App
      redirect_uris: ["https://app.example.org/cb"]
      policy: staff
      consent: skip
      access_lifetime: 1m
      refresh_lifetime: 2h
      post_logout_redirect_uris: ["https://app.example.org/"]
      backchannel_logout_uri: "https://app.example.org/out"`, nil)
	client, err := r.Find(t.Context(), "app")
	if err != nil || !client.Configured || client.Document || client.Name != "App" || !client.SkipConsent ||
		client.Policy == nil || client.Access != time.Minute || client.Refresh != 2*time.Hour ||
		client.BackchannelLogout != "https://app.example.org/out" ||
		len(client.PostLogout) != 1 || client.Confidential() || client.Scopes != nil || !client.May("refresh_token") ||
		client.May("client_credentials") || client.May("") || !client.Redirects("https://app.example.org/cb") {
		t.Errorf("%+v, %v", client, err)
	}
}
