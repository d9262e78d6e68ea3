// Package upstream is the tiny application that the demonstration and the
// tests put behind the gateway: three resources that tell who is asking.
//
// # Limits and threats
//
// It believes the X-Auth-* headers of every request and checks nothing else,
// as an application behind authgate may. Whoever reaches it directly is
// whoever they claim to be, so it must never be exposed: it belongs on a
// loopback address or in a network where the gateway alone can reach it.
package upstream

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Answer is the body of a protected resource. Fields that the gateway says
// nothing about are empty.
type Answer struct {
	// Message is what the resource has to say.
	Message string `json:"message"`
	Identity
}

// Identity is who is asking, as the gateway says in its X-Auth-* headers.
type Identity struct {
	User      string   `json:"user"`      // X-Auth-User: the login name
	Subject   string   `json:"subject"`   // X-Auth-Subject: unique and stable, such as local:alice
	Name      string   `json:"name"`      // X-Auth-Name: the display name
	Email     string   `json:"email"`     // X-Auth-Email
	Roles     []string `json:"roles"`     // X-Auth-Roles, split at its commas; never null
	Mechanism string   `json:"mechanism"` // X-Auth-Mechanism: basic, session, bearer or oidc
	Provider  string   `json:"provider"`  // X-Auth-Provider: where the account lives
}

// Handler returns the application. GET and HEAD of /secret-resource are
// answered 200 with a JSON object of the one string message; of
// /secure-resource and /admin-resource 200 with an [Answer]; everything else
// 404 with a JSON object of the one string detail.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /secret-resource", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"message": "This is the secret resource."})
	})
	mux.HandleFunc("GET /secure-resource", answer("This is for whoever is signed in."))
	mux.HandleFunc("GET /admin-resource", answer("This is for administrators."))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, map[string]string{"detail": "There is no such resource."})
	})
	return mux
}

func answer(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusOK, Answer{Message: message, Identity: identity(r.Header)})
	}
}

func identity(h http.Header) Identity {
	roles := []string{}
	for role := range strings.SplitSeq(h.Get("X-Auth-Roles"), ",") {
		if role = strings.TrimSpace(role); role != "" {
			roles = append(roles, role)
		}
	}
	return Identity{
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
	// An error here means that the client is gone: nobody is left to tell.
	_ = json.NewEncoder(w).Encode(body)
}
