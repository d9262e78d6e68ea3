package provider

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed style.css
var style string

// pages are the HTML pages. A page runs no script and loads nothing. Its form goes
// only to this provider and, by the redirect after it, to the client.
type pages struct {
	templates map[string]*template.Template
	policy    string // Content-Security-Policy, except for origins in form-action
}

func newPages() (*pages, error) {
	sum := sha256.Sum256([]byte(style))
	p := &pages{
		templates: map[string]*template.Template{},
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; " +
			"frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
	}
	for _, name := range []string{"signin", "home", "confirm", "signedout", "failure"} {
		parsed, err := template.New("layout.html").Funcs(template.FuncMap{
			"style": func() template.CSS { return template.CSS(style) }, // unchanged, because its hash is in the policy
		}).ParseFS(templates, "templates/layout.html", "templates/"+name+".html")
		if err != nil {
			return nil, err
		}
		p.templates[name] = parsed
	}
	return p, nil
}

// signInPage has the values of the sign-in page.
type signInPage struct {
	Client   string // that the user continues to
	Username string // for the user name field
	Error    string // from the last attempt
}

func (p *pages) signIn(w http.ResponseWriter, redirectURI string, page signInPage) {
	p.write(w, http.StatusOK, "signin", redirectURI, page)
}

// home shows who is signed in. An empty username means that no user is.
func (p *pages) home(w http.ResponseWriter, username string) {
	p.write(w, http.StatusOK, "home", "", struct{ Username, Logout string }{username, pathLogout})
}

// confirmLogout asks for confirmation of a logout that another site can have
// started. The form is posted to the address of the request, which redirects to
// next.
func (p *pages) confirmLogout(w http.ResponseWriter, next string) {
	p.write(w, http.StatusOK, "confirm", next, nil)
}

func (p *pages) signedOut(w http.ResponseWriter) { p.write(w, http.StatusOK, "signedout", "", nil) }

// failure shows the mistake in an application's request.
func (p *pages) failure(w http.ResponseWriter, status int, detail string) {
	p.write(w, status, "failure", "", detail)
}

// write renders a page. Its form can redirect to the origin of next, because
// browsers apply form-action to redirects too.
func (p *pages) write(w http.ResponseWriter, status int, name, next string, data any) {
	var body bytes.Buffer
	if err := p.templates[name].Execute(&body, data); err != nil {
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	policy := p.policy
	if u, err := url.Parse(next); err == nil && u.Host != "" {
		policy += " " + u.Scheme + "://" + u.Host
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // an error means that the browser is gone
}
