package grants

import (
	"testing"

	"authgate/gateway/identity/auth"
	"authgate/internal/test/must"
)

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
		mechanism := r.grants.At(Target{At: func(string) string { return wiki }}, r.audience, r.bearers)
		for _, name := range []string{"login", "client", "acts for itself"} {
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
