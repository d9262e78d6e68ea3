// Package pages renders the few pages that a person sees of the gateway
// itself: sign-in, error, account and the question before signing out.
//
// # Limits and threats
//
// Much of what the pages show was chosen by a stranger: the path to return
// to, a user name just mistyped, the profile from an identity provider.
// html/template escapes every value for the place where it stands, and the
// Content-Security-Policy that goes with the pages allows nothing but their
// one style sheet, so that a fault there still runs no script and sends no
// form to another origin. There is no script, no image, no font and no
// request to anywhere in a page.
//
// The package writes bodies alone. Status, Content-Type
// (text/html; charset=utf-8), Cache-Control and the header
// Content-Security-Policy, see [Pages.ContentSecurityPolicy], are the
// caller's to set. Whether a path to return to stays on this origin is the
// caller's to check.
package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed style.css
var style string

// Pages holds the parsed templates. Its methods may be called concurrently.
// Each renders the whole page before it writes any of it; what it returns is
// an error of a template, after which nothing has been written, or of w.
type Pages struct {
	signIn, failure, account, confirmLogout, signedOut *template.Template
	policy                                             string
}

// New parses the embedded templates.
func New() (*Pages, error) {
	sum := sha256.Sum256([]byte(style))
	p := &Pages{policy: "default-src 'none'; " +
		"style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"}
	for name, page := range map[string]**template.Template{
		"signin":    &p.signIn,
		"error":     &p.failure,
		"account":   &p.account,
		"logout":    &p.confirmLogout,
		"signedout": &p.signedOut,
	} {
		parsed, err := parse(name)
		if err != nil {
			return nil, fmt.Errorf("pages: reading the template of %s: %w", name, err)
		}
		*page = parsed
	}
	return p, nil
}

// parse reads one page and the frame around it.
func parse(name string) (*template.Template, error) {
	return template.New("layout.html").Funcs(template.FuncMap{
		// The style sheet is ours and goes in as it is: its hash must hold.
		"style":     func() template.CSS { return template.CSS(style) },
		"mechanism": mechanism,
		"provider":  provider,
		"date":      func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
		"datetime":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}).ParseFS(templates, "templates/layout.html", "templates/"+name+".html")
}

// mechanism is how a person would call it; what is not known stands as it is.
func mechanism(name string) string {
	switch name {
	case "basic":
		return "Shared credentials"
	case "session":
		return "User name and password"
	case "bearer":
		return "Access token"
	case "oidc":
		return "Identity provider"
	}
	return name
}

// provider is where the account lives, in words; a configured provider stands
// under its name.
func provider(name string) string {
	switch name {
	case "local", "basic":
		return "This service"
	}
	return name
}

// ContentSecurityPolicy returns the value of the header that must go with
// every page (CSP Level 3): the style sheet of the page by its hash, forms to
// this origin only, no frame around it, nothing else.
func (p *Pages) ContentSecurityPolicy() string { return p.policy }

// SignIn is what the sign-in page shows.
type SignIn struct {
	// Action is the URL that the form is posted to, with the fields
	// username, password and, unless empty, return_to.
	Action string
	// ReturnTo is the path to go to once signed in.
	ReturnTo string
	// Error says why the last attempt failed; empty on the first.
	Error string
	// Username is what stands in the field already.
	Username string
	// Password shows the form for a user name and a password.
	Password bool
	// Providers are offered as links, in this order.
	Providers []Provider
}

// Provider is one identity provider to sign in with.
type Provider struct {
	Title string // what people call it
	URL   string // starts the delegated login
}

// SignIn writes the sign-in page.
func (p *Pages) SignIn(w io.Writer, page SignIn) error { return render(w, p.signIn, page) }

// ErrorPage is what an error page shows; empty fields are left out.
type ErrorPage struct {
	Status    int    // HTTP status code
	Title     string // what went wrong in a few words
	Detail    string // what it means and what to do
	RequestID string // for whoever runs the service, to find it in the log
	SignInURL string // offers to sign in
}

// Error writes an error page.
func (p *Pages) Error(w io.Writer, page ErrorPage) error { return render(w, p.failure, page) }

// Account is what a person is shown about their own login; empty fields are
// left out.
type Account struct {
	Username  string
	Name      string
	Email     string
	Roles     []string
	Mechanism string    // basic, session, bearer or oidc
	Provider  string    // where the account lives: local or a provider's name
	Expires   time.Time // when the login ends by itself; shown in UTC
	// LogoutAction is the URL that the sign-out button is posted to, with the
	// field csrf_token unless LogoutToken is empty.
	LogoutAction, LogoutToken string
}

// Account writes the page of the login at hand.
func (p *Pages) Account(w io.Writer, page Account) error { return render(w, p.account, page) }

// ConfirmLogout asks before signing out, where another site may have led the
// browser there.
type ConfirmLogout struct {
	// Action is the URL that the sign-out button is posted to, with the field
	// csrf_token unless Token is empty.
	Action, Token string
}

// ConfirmLogout writes the question.
func (p *Pages) ConfirmLogout(w io.Writer, page ConfirmLogout) error {
	return render(w, p.confirmLogout, page)
}

// SignedOut is for somebody who has signed out here and is still signed in at
// the identity provider.
type SignedOut struct {
	// ContinueURL is where the provider signs them out.
	ContinueURL string
}

// SignedOut writes the page, from which a browser goes on by itself.
func (p *Pages) SignedOut(w io.Writer, page SignedOut) error { return render(w, p.signedOut, page) }

// render writes a page whole or not at all.
func render(w io.Writer, t *template.Template, page any) error {
	var body bytes.Buffer
	if err := t.Execute(&body, page); err != nil {
		return fmt.Errorf("pages: rendering: %w", err)
	}
	if _, err := body.WriteTo(w); err != nil {
		return fmt.Errorf("pages: writing: %w", err)
	}
	return nil
}
