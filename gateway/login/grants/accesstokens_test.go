package grants

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/must"
	"authgate/policy"
)

// Access tokens say what RFC 9068 demands, and the subject as upstreams know it.
func TestClaims(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := float64(r.clock.Now().Unix())
	for user, sub := range map[string]string{"alice": "alice", "carol": "keycloak:7"} {
		s := r.signIn(t, user)
		issued := r.granted(t, s)
		header, claims := claimsOf(t, issued.Access)
		if diff := cmp.Diff(map[string]any{"alg": "HS256", "typ": "at+jwt", "kid": r.keys.ID()}, header); diff != "" {
			t.Errorf("the header (-want +got):\n%s", diff)
		}
		roles := []any{}
		for _, role := range s.Roles {
			roles = append(roles, role)
		}
		want := map[string]any{
			"iss": testIssuer, "sub": sub, "aud": wiki, "iat": now, "nbf": now, "exp": now + 900, "jti": claims["jti"],
			"client_id": "grafana", "scope": "openid read write", "sid": s.Login, "grant": claims["grant"], "roles": roles,
		}
		if user == "alice" {
			want["amr"], want["auth_time"] = []any{"pwd"}, now
		}
		if diff := cmp.Diff(want, claims); diff != "" || len(claims["jti"].(string)) < 26 || claims["grant"] == "" {
			t.Errorf("the claims (-want +got):\n%s", diff)
		}
	}
	for want, audience := range map[any][]string{"one": {"one"}, "two": {"two", "three"}} {
		r := newRig(t, func(r *rig) { r.audience = audience })
		issued := r.granted(t, r.signIn(t, "alice"), func(t *Terms) { t.Resource, t.Scopes = "", nil })
		_, claims := claimsOf(t, issued.Access)
		if all, ok := claims["aud"].([]any); ok && len(all) == 2 {
			claims["aud"] = all[0]
		}
		if claims["aud"] != want || claims["scope"] != nil {
			t.Errorf("%q: got %v", audience, claims)
		}
		r.wantIn(t, issued)
		if found := must.Get(r.grants.Inspect(t.Context(), "grafana", issued.Access))(t); !found.Active ||
			found.Terms.Resource != "" {
			t.Errorf("%q: got %+v", audience, found)
		}
	}
}

// Attack: a token of one resource is brought to another. A token without a resource is for
// the audience of the gateway's own tokens.
func TestTokensOfOtherResources(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	tokens := map[string]*Issued{
		wiki: r.granted(t, s), "": r.granted(t, s, func(t *Terms) { t.Resource = "" }),
		"https://gw.example/wiki/": r.granted(t, s, func(t *Terms) { t.Resource += "/" }),
		testIssuer:                 r.granted(t, s, func(t *Terms) { t.Resource = testIssuer }),
		"backup":                   must.Get(r.grants.Credentials("backup", terms()))(t),
	}
	resource := func(path string) Target {
		return Target{At: func(host string) string { return "https://" + host + path }}
	}
	shared := resource("/git")
	shared.Shared = wiki
	for _, c := range []struct {
		resource Target
		audience []string
		host     string
		want     []string
	}{
		{resource("/wiki"), []string{"authgate"}, "gw.example", []string{wiki, "", "backup"}},
		{resource("/wiki"), []string{"other"}, "gw.example", []string{wiki, "backup"}},
		{resource("/wiki"), nil, "gw.example", []string{wiki, "backup"}},
		{resource("/wiki"), nil, "other.example", nil},
		{resource("/git"), nil, "gw.example", nil},
		{resource(""), nil, "gw.example", []string{testIssuer}},
		{resource("/git"), []string{wiki}, "gw.example", []string{wiki, "backup"}},
		{shared, nil, "gw.example", []string{wiki, "backup"}},
		{Target{}, []string{"authgate", wiki}, "gw.example", nil},
	} {
		mechanism := r.grants.At(c.resource, c.audience, r.bearers)
		for name, issued := range tokens {
			creds := &auth.Credentials{Scheme: "bearer", Value: issued.Access, Host: c.host}
			for _, ask := range []func() (*policy.Identity, error){
				func() (*policy.Identity, error) { return mechanism.Authenticate(t.Context(), creds) },
				func() (*policy.Identity, error) { return mechanism.Alive(t.Context(), creds) },
			} {
				id, err := ask()
				if want := slices.Contains(c.want, name); want != (err == nil) || err != nil && (id != nil ||
					!errors.Is(err, auth.ErrRejected)) {
					t.Errorf("%+v: the token of %q: got %+v, %v", c, name, id, err)
				}
			}
		}
	}
}

// Attack: the scopes of a token lend more than its user has, or the user has lost a role since.
func TestScopesLendNoMore(t *testing.T) {
	t.Parallel()
	scopes := map[string][]string{"read": {"user", "auditor"}, "write": {"admin", "root"}, "groups": nil}
	r := newRig(t, func(r *rig) { r.scopes = scopes })
	for user, want := range map[string]map[string][]string{
		"alice": {"read": {"user"}, "read write": {"user", "admin"}, "groups": {}},
		"bob":   {"read": {"user"}, "read write": {"user"}, "groups": {}},
		"carol": {"read": {"user"}, "write": {}},
	} {
		s := r.signIn(t, user)
		for asked, roles := range want {
			issued := r.granted(t, s, func(t *Terms) { t.Scopes = strings.Fields(asked) })
			_, claims := claimsOf(t, issued.Access)
			said, _ := claims["roles"].([]any)
			for _, r := range []*rig{r, r.instance(t)} {
				id, err := r.at(t, issued.Access)
				if err != nil || !slices.Equal(id.Roles, roles) || len(said) != len(roles) {
					t.Errorf("%s, %q: got %+v, %v, a token that says %v", user, asked, id, err, said)
					continue
				}
				if less := len(roles) < len(s.Roles); less != (id.Owner != nil) || less &&
					!slices.Equal(id.Owner.Roles, s.Roles) {
					t.Errorf("%s, %q: its owner is %+v", user, asked, id.Owner)
				}
			}
		}
	}
	client := must.Get(r.grants.Credentials("backup", terms(func(t *Terms) { t.Scopes = []string{"read", "write"} })))(t)
	if id := must.Get(r.at(t, client.Access))(t); len(id.Roles) != 0 {
		t.Errorf("a client has the roles %q, which are not its own", id.Roles)
	}
}

// A client that acts for itself has its own roles and no login, as long as it is configured.
func TestCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	issued := must.Get(r.grants.Credentials("backup", terms()))(t)
	if issued.Refresh != "" || issued.Login != nil || issued.ExpiresIn != 15*time.Minute || issued.Terms.OpenID {
		t.Errorf("got %+v", issued)
	}
	id, err := r.at(t, issued.Access)
	if diff := cmp.Diff(&policy.Identity{
		Username: "client:backup", Subject: "client:backup", Roles: []string{"operator"}, Scopes: terms().Scopes,
		Mechanism: policy.Bearer, Provider: policy.ClientProvider, Expires: time.Unix(r.clock.Now().Unix()+900, 0),
	}, id); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, claims := claimsOf(t, issued.Access); claims["sub"] != "client:backup" || claims["client_id"] != "backup" ||
		claims["sid"] != nil {
		t.Errorf("got %v", claims)
	}
	got, err := r.grants.Credentials("grafana", terms())
	wantInvalid(t, got, err, "may not act for itself")
	r.instance(t, func(r *rig) { r.clients = nil }).wantOut(t, issued)
	must.Do(t, r.revoke(t.Context(), "backup", issued.Access))
	r.wantOut(t, issued)
}

// Nothing is taken for an access token of a grant that the gateway has not made as one.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, other := r.signIn(t, "alice"), r.signIn(t, "bob")
	issued, ofOther := r.granted(t, s), r.granted(t, other)
	_, good := claimsOf(t, issued.Access)
	_, others := claimsOf(t, ofOther.Access)
	sign := func(typ string, changes map[string]any) string {
		claims := maps.Clone(good)
		for name, value := range changes {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
		for _, name := range []string{"exp", "iat", "nbf"} {
			if date, ok := claims[name].(float64); ok {
				claims[name] = int64(date)
			}
		}
		return must.Get(r.keys.SignType(typ, claims))(t)
	}
	if _, err := r.at(t, sign(tokenType, nil)); err != nil {
		t.Fatal(err)
	}
	now := r.clock.Now().Unix()
	stranger := must.Get(jose.NewHS256([]byte(strings.Repeat("x", 32))))(t)
	at := strings.LastIndexByte(issued.Access, '.')
	tokens := map[string]string{
		"a JWT": sign("JWT", nil), "a logout token": sign("logout+jwt", nil),
		"another key":       must.Get(stranger.SignType(tokenType, good))(t),
		"no signature":      issued.Access[:at+1],
		"another signature": issued.Access[:at] + ofOther.Access[strings.LastIndexByte(ofOther.Access, '.'):],
		"its header alone":  r.grants.header, "a code": newSecret(codeMark).String(), "a refresh token": issued.Refresh,
		"long": sign(tokenType, map[string]any{"x": strings.Repeat("x", maxTokenBytes)}),
	}
	for name, values := range map[string][]any{
		"iss": {nil, "https://other.example"}, "exp": {nil, now, now - 1}, "nbf": {now + 6}, "iat": {now + 6},
		"sub": {nil, "", "bob", "local:alice", "client:grafana", 7}, "jti": {nil, "", 7},
		"client_id": {nil, "", "other", 7}, "sid": {nil, "", "NEVER", other.Login},
		"grant": {nil, "", "x", others["grant"]}, "aud": {nil, "", []string{}, []string{"", wiki}, 7},
	} {
		for _, value := range values {
			tokens[name+" "+strings.TrimSpace(must.Get(jsonOf(value))(t))] = sign(tokenType, map[string]any{name: value})
		}
	}
	tokens["a client without a grant"] = sign(tokenType, map[string]any{"sid": nil, "grant": nil})
	tokens["a client that is none"] = sign(tokenType, map[string]any{"sid": nil, "grant": nil, "sub": "client:grafana"})
	tokens["another client"] = sign(tokenType, map[string]any{"sid": nil, "grant": nil, "sub": "client:x",
		"client_id": "backup"})
	for name, token := range tokens {
		if id, err := r.at(t, token); id != nil || !errors.Is(err, auth.ErrRejected) {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
		if id, _, err := r.grants.Authenticate(t.Context(), token); id != nil || !errors.Is(err, auth.ErrRejected) {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
		must.Do(t, r.revoke(t.Context(), "x", token))
	}
	r.wantIn(t, issued)
}

// What others decide about is left to them: cookies, tokens of the login, other schemes.
func TestOthersDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	account, _ := r.accounts.Lookup("alice")
	issued := r.granted(t, s)
	own, _, err := r.tokens.Issue(issued.Login, account)
	must.Do(t, err)
	mechanism := r.grants.At(Target{}, nil, r.bearers)
	if id, err := mechanism.Authenticate(t.Context(), &auth.Credentials{Scheme: "bearer", Value: own}); err != nil ||
		id.Login != s.Login {
		t.Errorf("the login's own token: %+v, %v", id, err)
	}
	for _, creds := range []auth.Credentials{{}, {Scheme: "basic", Value: issued.Access}} {
		if _, err := mechanism.Authenticate(t.Context(), &creds); !errors.Is(err, auth.ErrNoCredentials) {
			t.Errorf("%+v: got %v", creds, err)
		}
	}
	shared := r.grants.At(Target{At: func(string) string { return "" }}, nil,
		login.SharedBearer{BearerTokens: r.bearers})
	for _, own := range []string{issued.Access, issued.Refresh, newSecret(codeMark).String()} {
		_, err := shared.Authenticate(t.Context(), &auth.Credentials{Scheme: "bearer", Value: own})
		if !errors.Is(err, auth.ErrRejected) {
			t.Errorf("%.20q counts as a token of the application: %v", own, err)
		}
	}
	for _, creds := range []auth.Credentials{{Access: issued.Access}, {Scheme: "bearer", Value: issued.Access}} {
		if _, err := r.bearers.Authenticate(t.Context(), &creds); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("own endpoints take a token of a client: %v", err)
		}
	}
	if _, err := r.bearers.Revoke(t.Context(), issued.Access); !errors.Is(err, auth.ErrRejected) {
		t.Errorf("a token of a client signs out: %v", err)
	}
	if !r.bearers.ContainsOwn("Token "+issued.Access, func(string) bool { return false }) {
		t.Error("an access token of a client is not recognized")
	}
	if got, want := mechanism.Challenge(&auth.Credentials{}), r.bearers.Challenge(&auth.Credentials{}); got != want {
		t.Errorf("the challenge is %q, want %q", got, want)
	}
}

// What a provider says about a user counts for what the user has lent, and its end ends that.
func TestTokensOfProvidersUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "carol")
	issued := r.granted(t, s, func(t *Terms) { t.Access = month })
	r.wantIn(t, issued)
	r.op.answer = func() (*provider.Grant, error) { return r.grant("auditor"), nil }
	r.clock.Advance(10 * 24 * time.Hour)
	if id, err := r.at(t, issued.Access); err != nil || !slices.Equal(id.Roles, []string{"auditor"}) {
		t.Errorf("got %+v, %v", id, err)
	}
	var told []string
	r.op.answer = func() (*provider.Grant, error) {
		told = append(told, "asked")
		return nil, &provider.Error{Provider: "keycloak", Operation: "token", Kind: provider.ErrEnded,
			Err: errors.New("ended")}
	}
	r.clock.Advance(time.Hour)
	r.wantOut(t, issued)
	if len(told) != 1 {
		t.Errorf("the provider was asked %d times", len(told))
	}
}

// A warm token costs no signature and no look at what the store would have to search for: only
// reads.
func TestWarmTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued := r.granted(t, s)
	first := must.Get(r.at(t, issued.Access))(t)
	r.store.TakeCalls()
	if again := must.Get(r.at(t, issued.Access))(t); again != first {
		t.Error("the identity was made anew")
	}
	r.store.WantReads(t)
	r.consentTo(t, s, terms(func(t *Terms) { t.Client = "other" }))
	if again := must.Get(r.at(t, issued.Access))(t); again == first {
		t.Error("the identity is kept though its basis has changed")
	}
}
