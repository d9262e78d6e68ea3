// Package upstream is the small application behind the gateway in the
// demonstration and in tests. It has three resources that show the user's
// identity, and a front page that explains the demonstration. Browsers get pages,
// and programs JSON.
//
// # Limits and threats
//
// It believes the X-Auth-* headers of every request and checks nothing else,
// as an application behind authgate can. A client that reaches it directly can
// claim any identity. So it must listen on a loopback address, or in a network
// where only the gateway can reach it.
package upstream

import (
	"encoding/json"
	"net/http"
	"strings"
)

// answer is the body of a protected resource. A field is empty if the gateway
// did not send its header.
type answer struct {
	// Message is the text of the resource.
	Message string `json:"message"`
	identity
}

// identity is the user's identity from the X-Auth-* headers.
type identity struct {
	User      string   `json:"user"`      // X-Auth-User: the login name
	Subject   string   `json:"subject"`   // X-Auth-Subject: unique and stable, such as local:alice
	Name      string   `json:"name"`      // X-Auth-Name: the display name
	Email     string   `json:"email"`     // X-Auth-Email
	Roles     []string `json:"roles"`     // X-Auth-Roles, split at commas; never null
	Mechanism string   `json:"mechanism"` // X-Auth-Mechanism: basic, session, bearer, oidc or certificate
	Provider  string   `json:"provider"`  // X-Auth-Provider: where the account is
}

// Handler returns the application. It answers GET and HEAD of /secret-resource with 200 and a JSON
// object with the string message. For /secure-resource and /admin-resource the answer also names the
// user. It answers all other requests with 404 and a JSON object with the string detail. A browser
// gets pages instead, and a front page at /.
func Handler() http.Handler {
	pages := newPages()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /secret-resource", func(w http.ResponseWriter, r *http.Request) {
		const message = "This is the secret resource."
		if !pages.answered(w, r, "The secret resource", message) {
			write(w, http.StatusOK, map[string]string{"message": message})
		}
	})
	mux.HandleFunc("GET /secure-resource", pages.answer("The resource for signed-in users",
		"This is for signed-in users."))
	mux.HandleFunc("GET /admin-resource",
		pages.answer("The resource for administrators", "This is for administrators."))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		const detail = "There is no such resource."
		w.Header().Set("Vary", "Accept")
		switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
		case reads && r.URL.Path == "/" && wantsPage(r):
			pages.write(w, pages.front, page{Status: http.StatusOK, Title: "Four mechanisms", Origin: origin(r.Header)})
		case wantsPage(r):
			pages.write(w, pages.resource, page{
				Status: http.StatusNotFound, Title: "There is nothing here", Message: detail,
			})
		default:
			write(w, http.StatusNotFound, map[string]string{"detail": detail})
		}
	})
	return mux
}

func (p *pages) answer(title, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !p.answered(w, r, title, message) {
			write(w, http.StatusOK, answer{Message: message, identity: identityOf(r.Header)})
		}
	}
}

// answered answers a browser with a page. It reports whether it did.
func (p *pages) answered(w http.ResponseWriter, r *http.Request, title, message string) bool {
	w.Header().Set("Vary", "Accept")
	if !wantsPage(r) {
		return false
	}
	p.write(w, p.resource, page{Status: http.StatusOK, Title: title, Message: message, identity: identityOf(r.Header)})
	return true
}

func identityOf(h http.Header) identity {
	roles := []string{}
	for role := range strings.SplitSeq(h.Get("X-Auth-Roles"), ",") {
		if role = strings.TrimSpace(role); role != "" {
			roles = append(roles, role)
		}
	}
	return identity{
		User:      h.Get("X-Auth-User"),
		Subject:   h.Get("X-Auth-Subject"),
		Name:      h.Get("X-Auth-Name"),
		Email:     h.Get("X-Auth-Email"),
		Roles:     roles,
		Mechanism: h.Get("X-Auth-Mechanism"),
		Provider:  h.Get("X-Auth-Provider"),
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the client is gone.
	_ = json.NewEncoder(w).Encode(body)
}
