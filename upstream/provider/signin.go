package provider

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// showSignIn shows the sign-in page for an authorization request. The form is
// posted to the same address, which contains the whole request, so the provider
// stores nothing before the sign-in.
func (p *Provider) showSignIn(w http.ResponseWriter, r *http.Request) {
	if a := p.requested(w, r, r.URL.Query()); a != nil {
		p.pages.signIn(w, a.redirectURI, signInPage{Client: a.client.ID, Username: a.loginHint})
	}
}

// signIn checks a user name and a password, and redirects to the client.
func (p *Provider) signIn(w http.ResponseWriter, r *http.Request) {
	a := p.requested(w, r, r.URL.Query())
	if a == nil {
		return
	}
	username := r.PostFormValue("username")
	user := p.users[username]
	if user == nil || !samePassword(r.PostFormValue("password"), user.Password) {
		p.pages.signIn(w, a.redirectURI, signInPage{
			Client: a.client.ID, Username: username, Error: "Wrong user name or password.",
		})
		return
	}
	p.answer(w, r, a, p.start(w, r, user))
}

// samePassword compares passwords in constant time.
func samePassword(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// home shows whether the user is signed in, and where to sign out.
func (p *Provider) home(w http.ResponseWriter, r *http.Request) {
	username := ""
	if s := p.current(r); s != nil {
		username = s.user.Username
	}
	p.pages.home(w, username)
}
