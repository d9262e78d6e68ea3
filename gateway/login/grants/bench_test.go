package grants

import (
	"maps"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/must"
)

// exchanged returns the token that an agent gets for another token.
func (r *rig) exchanged(tb testing.TB, token string) string {
	tb.Helper()
	agent := terms(func(t *Terms) { t.Client = "agent" })
	return must.Get(r.grants.Exchange(tb.Context(), token, agent, func(_, _ *Terms) error { return nil }))(tb).Access
}

// A warm token of a client costs no allocation, however the client got it: by a user's grant, for itself, by its
// platform, by the word of a provider, or by one or four exchanges of these. Not parallel: it counts allocations.
func TestWarmTokensAllocateNothing(t *testing.T) {
	r := newRig(t)
	plain := r.instance(t, func(r *rig) { r.plain = r.store.Store })
	vouched := &Vouched{
		Provider: "keycloak", Issuer: r.op.Issuer(), ID: "j", Issued: r.clock.Now(), Left: time.Minute,
		Profile: provider.Profile{Subject: "7", Username: "carol"},
	}
	tokens := map[string]string{
		"a grant": r.granted(t, r.signIn(t, "alice")).Access,
		"itself":  must.Get(r.grants.Credentials("backup", terms()))(t).Access,
		"its platform": must.Get(r.grants.Credentials("backup", terms(func(t *Terms) {
			t.Federation = "an entry"
		})))(t).Access,
		"a provider": must.Get(r.grants.Vouch(t.Context(), vouched, terms(), "Grafana"))(t).Access,
	}
	for name, token := range maps.Clone(tokens) {
		tokens[name+", exchanged"] = r.exchanged(t, token)
	}
	four := tokens["a grant"]
	for range maxActors {
		four = r.exchanged(t, four)
	}
	tokens["a grant, exchanged four times"] = four
	for name, token := range tokens {
		mechanism := plain.grants.At(Target{At: func(string) string { return wiki }}, plain.audience, plain.bearers)
		creds := &auth.Credentials{Scheme: "bearer", Value: token, Host: "gw.example"}
		if allocations := testing.AllocsPerRun(100, func() {
			must.Get(mechanism.Authenticate(t.Context(), creds))(t)
		}); allocations != 0 {
			t.Errorf("%s: %v allocations, want none", name, allocations)
		}
	}
}

// BenchmarkAuthenticate is a warm access token of a client, compared with one of a login. Both
// are asked by the mechanism of a route.
func BenchmarkAuthenticate(b *testing.B) {
	for _, user := range []string{"alice", "carol"} {
		r := newRig(b)
		r = r.instance(b, func(r *rig) { r.plain = r.store.Store })
		issued := r.granted(b, r.signIn(b, user))
		tokens := map[string]string{"client": issued.Access}
		if account, ok := r.accounts.Lookup(user); ok {
			var err error
			tokens["login"], _, err = r.tokens.Issue(issued.Login, account)
			must.Do(b, err)
		}
		tokens["acts for itself"] = must.Get(r.grants.Credentials("backup", terms()))(b).Access
		tokens["exchanged"] = r.exchanged(b, issued.Access)
		mechanism := r.grants.At(Target{At: func(string) string { return wiki }}, r.audience, r.bearers)
		for _, name := range []string{"login", "client", "acts for itself", "exchanged"} {
			if tokens[name] == "" {
				continue
			}
			creds := &auth.Credentials{Scheme: "bearer", Value: tokens[name], Host: "gw.example"}
			b.Run(user+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := mechanism.Authenticate(b.Context(), creds); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
