package oidc

import "authgate/e2e/world"

// browser is a browser that signs in at providers.
type browser struct{ *world.Browser }

// browse returns a browser without cookies.
func browse(g *world.Instance) *browser { return &browser{world.Browse(g)} }

// signIn opens a page that leads to the provider, signs in there and comes back.
func (b *browser) signIn(page string, p *world.Provider, user string) {
	b.T.Helper()
	b.Open(page)
	b.consent(p, user)
}

// consent sends the forms of the provider's pages.
func (b *browser) consent(p *world.Provider, user string) {
	b.T.Helper()
	for range 5 {
		f, ok := b.Form()
		if !ok || b.Next != "" || b.URL.Scheme+"://"+b.URL.Host != p.Issuer {
			return
		}
		if f.Fields.Has("login") {
			b.Send(map[string]string{"login": user, "password": "as good as any"})
		} else {
			b.Send(nil)
		}
	}
	b.T.Fatalf("the provider shows too many forms: %s", b.URL)
}
