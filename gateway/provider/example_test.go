package provider_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"authgate/gateway/provider"
	demo "authgate/upstream/provider"
)

const callback = "https://gateway.example/callback"

// A whole login, at the provider of the demonstration.
func Example() {
	ctx, server := context.Background(), startProvider()
	defer server.Close()
	p := provider.New(provider.Options{
		Name: "demo", Issuer: server.URL, Client: provider.Client{ID: "gateway", Secret: "secret"}, RedirectURL: callback,
		Scopes: []string{"openid", "profile"}, Mapping: provider.Mapping{Roles: "roles", Username: "preferred_username"},
	})
	defer p.Close()

	attempt := provider.Attempt{State: "random", Nonce: "random, too", Verifier: "random, with at least 43 characters--------"}
	start, _ := p.AuthorizationURL(ctx, attempt)
	answer := signIn(start) // the parameters of the callback
	fmt.Println(answer.Get("state") == attempt.State, p.CheckIssuer(ctx, answer.Get("iss"), answer.Has("iss")))
	grant, err := p.Exchange(ctx, answer.Get("code"), attempt)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(grant.Profile.Username, grant.Profile.Roles, grant.Tokens)
	// Output:
	// true <nil>
	// alice [user admin] [redacted]
}

// startProvider serves the provider of the demonstration on loopback.
func startProvider() *httptest.Server {
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String()
	p, err := demo.New(demo.Options{
		Issuer: issuer, Clients: []demo.Client{{ID: "gateway", Secret: "secret", RedirectURIs: []string{callback}}},
	})
	if err != nil {
		panic(err)
	}
	server.Config.Handler = p
	server.Start()
	return server
}

// signIn signs alice in as a browser does, and returns the answer that the
// provider sends to the callback.
func signIn(start string) url.Values {
	browser := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Host == "gateway.example" {
			return http.ErrUseLastResponse // it is the answer
		}
		return nil
	}}
	page, err := browser.Get(start)
	if err != nil {
		panic(err)
	}
	page.Body.Close()
	response, err := browser.PostForm(page.Request.URL.String(), url.Values{"username": {"alice"}, "password": {"wonderland"}})
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	target, err := response.Location()
	if err != nil {
		panic(err)
	}
	return target.Query()
}
