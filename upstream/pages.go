package upstream

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"regexp"
	"strings"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed style.css
var style string

// page has the values of a template.
type page struct {
	Status  int
	Title   string
	Message string
	Origin  string // of the gateway, as the browser sees it
	identity
}

// pages are the same resources for browsers. They run no script and load nothing.
type pages struct {
	front, resource *template.Template
	policy          string // Content-Security-Policy
}

func newPages() *pages {
	sum := sha256.Sum256([]byte(style))
	parse := func(name string) *template.Template {
		return template.Must(template.New("layout.html").Funcs(template.FuncMap{
			"style": func() template.CSS { return template.CSS(style) }, // unchanged, because its hash is in the policy
		}).ParseFS(templates, "templates/layout.html", "templates/"+name+".html"))
	}
	return &pages{
		front: parse("front"), resource: parse("resource"),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; " +
			"form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
	}
}

// wantsPage reports whether a browser asks for a page. Programs get JSON, also those
// that accept anything.
func wantsPage(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	return strings.Contains(accept, "text/html") && !strings.Contains(accept, "json")
}

// write answers with a page.
func (p *pages) write(w http.ResponseWriter, t *template.Template, content page) {
	var body bytes.Buffer
	if err := t.Execute(&body, content); err != nil {
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(content.Status)
	_, _ = body.WriteTo(w) // an error means that the browser is gone
}

// hostForm is the form of a host with or without a port.
var hostForm = regexp.MustCompile(`^([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?$`)

// origin returns the origin of the gateway, from the headers that it forwards. The
// usual one takes the place of anything that has not the form of a host.
func origin(h http.Header) string {
	host := h.Get("X-Forwarded-Host")
	if !hostForm.MatchString(host) {
		host = "localhost:8443"
	}
	return "https://" + host
}
