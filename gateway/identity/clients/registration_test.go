package clients

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

// register registers a client and returns the answer.
func (r *rig) register(body string) (map[string]any, error) {
	answer, err := r.Register(r.t.Context(), []byte(body))
	if err != nil {
		return nil, err
	}
	var members map[string]any
	must.Do(r.t, json.Unmarshal(must.Get(json.Marshal(answer))(r.t), &members))
	return members, nil
}

// replaceOnce replaces a part that a text has once.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not there once", old)
	}
	return strings.Replace(text, old, new, 1)
}

// A client that registers is told what it is, and is that from then on.
func TestRegister(t *testing.T) {
	t.Parallel()
	r := newRig(t, "oauth: {registration: open, redirect_schemes: [com.example.app], scopes: {read: []}}", nil)
	answer, err := r.register(`{"client_name": "Tool", "redirect_uris": ["http://127.0.0.1/cb", "cursor://x/cb",
		"com.example.app:/cb", "https://app.example.org/cb", "http://app.example.org/cb", "javascript:alert(1)"],
		"grant_types": ["authorization_code", "refresh_token", "client_credentials",
		"urn:ietf:params:oauth:grant-type:device_code", "password"], "token_endpoint_auth_method": "none",
		"scope": "read claudeai", "response_types": ["code"], "backchannel_logout_uri": "https://inside.example/", "roles": ["admin"],
		"client_id": "chosen", "consent": "skip", "policy": "", "software_id": "x"}`)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := answer["client_id"].(string)
	client, err := r.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"http://127.0.0.1/cb", "com.example.app:/cb", "https://app.example.org/cb"}
	if !slices.Equal(client.RedirectURIs, addresses) ||
		!slices.Equal(client.Grants, []string{"authorization_code", "refresh_token", "device_code"}) ||
		client.method != methodNone || client.Name != "Tool" || client.Configured || client.Document ||
		client.SkipConsent || client.Roles != nil || client.BackchannelLogout != "" ||
		!slices.Equal(client.Scopes, []string{"read"}) {
		t.Errorf("%+v", client)
	}
	got := string(must.Get(json.Marshal(answer))(t))
	if answer["client_secret"] != nil || answer["client_secret_expires_at"] != nil || answer["scope"] != "read" ||
		answer["client_id_issued_at"] != float64(r.clock.Now().Unix()) || answer["token_endpoint_auth_method"] != "none" ||
		!strings.Contains(got, `"grant_types":["authorization_code","refresh_token",`+
			`"urn:ietf:params:oauth:grant-type:device_code"]`) ||
		!strings.Contains(got, `"redirect_uris":["`+strings.Join(addresses, `","`)+`"]`) ||
		!strings.Contains(got, `"response_types":["code"]`) {
		t.Errorf("the answer is %s", got)
	}
	if client, err := r.authenticate(Presented{ID: id}); err != nil || client.ID != id {
		t.Errorf("%+v, %v", client, err)
	}
}

// Without a method, a client has a secret (RFC 7591, section 2), which the store does not.
func TestRegisterSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t, "oauth: {registration: open}", nil)
	register := func(method string) (id, secret string) {
		answer := must.Get(r.register(`{"redirect_uris": ["https://app.example.org/cb"]` + method + `}`))(t)
		if answer["client_secret_expires_at"] != float64(0) {
			t.Errorf("the answer is %v", answer)
		}
		return answer["client_id"].(string), answer["client_secret"].(string)
	}
	id, secret := register("")
	other, _ := register(`, "token_endpoint_auth_method": "client_secret_post"`)
	for name, c := range map[string]struct {
		p    Presented
		want error
	}{
		"Basic":        {basic(id, secret), nil},
		"in the form":  {Presented{ID: id, Secret: secret}, nil},
		"of another":   {Presented{ID: other, Secret: secret}, ErrUnauthenticated},
		"wrong":        {Presented{ID: id, Secret: secret + "x"}, ErrUnauthenticated},
		"none":         {Presented{ID: id}, ErrUnauthenticated},
		"of an unused": {Presented{ID: "reg_" + strings.Repeat("X", 26), Secret: secret}, ErrUnknown},
	} {
		if _, err := r.authenticate(c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	must.Do(t, r.store.Walk(t.Context(), "", func(keys []string) error {
		for _, key := range keys {
			if value := must.Get(r.store.Get(t.Context(), key))(t); strings.Contains(key+string(value), secret) {
				t.Errorf("the store has the secret: %s: %s", key, value)
			}
		}
		return nil
	}))
}

// A registration that is wrong has a code and a description that says why.
func TestRegisterRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "oauth: {registration: open}", nil)
	const redirects, wrong = "invalid_redirect_uri", "invalid_client_metadata"
	const uri = `"redirect_uris": ["https://app.example.org/cb"]`
	for body, code := range map[string]string{
		`{}`: redirects, `{"redirect_uris": []}`: redirects, `{"redirect_uris": ["cursor://x/cb"]}`: redirects,
		`{"redirect_uris": ["https://app.example.org/cb", "https://app.example.org/#x"]}`: redirects,
		`{"redirect_uris": ["https://app.example.org\\@evil.example/"]}`:                  redirects,
		`{"redirect_uris": ["JaVaScRiPt:alert(1)", "DATA:text/html,x"]}`:                  redirects,
		`{"redirect_uris": ["http://localhost.evil.example/cb"]}`:                         redirects,
		`{"redirect_uris": ["https://a@b@evil.example/cb"]}`:                              redirects,
		`{"redirect_uris": ["/cb"]}`:                                                      redirects,
		`{"redirect_uris": [""]}`:                                                         redirects,
		`{"redirect_uris": ["https://user@app.example.org/"]}`:                            redirects,
		`{` + uri + `, "post_logout_redirect_uris": ["https://app.example.org/#x"]}`:      redirects,
		``: wrong, `[]`: wrong, `{` + uri + `}{}`: wrong, `{` + uri + `, ` + uri + `}`: wrong, `{"redirect_uris": 1}`: wrong,
		`{` + uri + `, "client_name": 1}`: wrong, `{` + uri + `, "client_name": "a\nb"}`: wrong,
		`{` + uri + `, "client_name": "a\u2066b"}`: wrong, `{` + uri + `, "grant_types": ["client_credentials"]}`: wrong,
		`{` + uri + `, "grant_types": []}`: wrong, `{` + uri + `, "grant_types": ["refresh_token"]}`: wrong,
		`{` + uri + `, "response_types": ["id_token"]}`: wrong, `{` + uri + `, "scope": ["read"]}`: wrong,
		`{` + uri + `, "token_endpoint_auth_method": "private_key_jwt"}`: wrong,
		`{` + uri + `, "token_endpoint_auth_method": "tls_client_auth"}`: wrong,
	} {
		_, err := r.register(body)
		refused, ok := errors.AsType[*RegistrationError](err)
		if !ok || refused.Code != code || len(refused.Description) < 20 {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
	answer, err := r.register(`{"grant_types": ["urn:ietf:params:oauth:grant-type:device_code"], "client_name": null}`)
	if err != nil || len(answer["response_types"].([]any)) != 0 {
		t.Errorf("a device needs no redirect URI: %v, %v", answer, err)
	}
}

// A registered client is kept while it is used, and forgotten 90 days after.
func TestRegistrationsExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t, "oauth: {registration: open}", nil)
	id := must.Get(r.register(`{"redirect_uris": ["https://app.example.org/cb"]}`))(t)["client_id"].(string)
	const day = 24 * time.Hour
	for range 6 {
		r.clock.Advance(50 * day)
		if _, err := r.Find(t.Context(), id); err != nil {
			t.Fatalf("used every 50 days: %v", err)
		}
	}
	r.clock.Advance(90 * day)
	if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnknown) {
		t.Errorf("unused for 90 days: %v", err)
	}
}

var errAway = errors.New("the store is away")

// away is a store that does not answer.
type away struct{ store.Store }

func (away) Get(context.Context, string) ([]byte, error)                   { return nil, errAway }
func (away) Put(context.Context, string, []byte, time.Time) error          { return errAway }
func (away) Swap(context.Context, string, []byte, []byte, time.Time) error { return errAway }

// If the store does not answer, nothing is known: neither that there is no such client, nor
// that an assertion is new.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s, k := newSite(t), newKeys(t)
	r := newRig(t, "oauth: {registration: open}", s, "127.0.0.1")
	id := keyClient(s, "/app.json", `"jwks": `+k.set(t, ""))
	r.Set.store = away{}
	check := func(what string, err error) {
		if !errors.Is(err, errAway) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := r.Find(t.Context(), "reg_"+strings.Repeat("X", 26))
	check("find", err)
	_, err = r.register(`{"redirect_uris": ["https://app.example.org/cb"]}`)
	check("register", err)
	client, err := r.authenticate(k.request(t, id, nil))
	if check("assertion", err); client != nil {
		t.Errorf("an assertion is accepted: %+v", client)
	}
	ended, end := context.WithCancel(t.Context())
	must.Get(r.Find(t.Context(), id))(t)
	end()
	p := k.request(t, id, func(one *token) { one.key = newKeys(t).rsa })
	p.Audience = []string{issuer}
	r.Set.store = r.store
	if client, _, err := r.Authenticate(ended, &p); err == nil || client != nil {
		t.Errorf("a request that has ended, with a forged assertion: %+v, %v", client, err)
	}
}
