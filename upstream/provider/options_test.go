package provider_test

import (
	"strings"
	"testing"
	"time"

	"authgate/upstream/provider"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const issuer = "http://127.0.0.1:9400"
	client := func(c provider.Client) provider.Options {
		c.ID = "shop"
		return provider.Options{Issuer: issuer, Clients: []provider.Client{c}}
	}
	users := func(users ...provider.User) provider.Options { return provider.Options{Issuer: issuer, Users: users} }
	alice := provider.User{Username: "alice", Password: "wonderland"}
	for _, tt := range []struct {
		name    string
		options provider.Options
		want    string
	}{
		{"no issuer", provider.Options{}, "issuer"},
		{"an issuer elsewhere", provider.Options{Issuer: "http://id.example.org"}, "issuer"},
		{"an issuer by https", provider.Options{Issuer: "https://127.0.0.1:9400"}, "issuer"},
		{"an issuer with a path", provider.Options{Issuer: issuer + "/realm"}, "issuer"},
		{"an issuer with a slash", provider.Options{Issuer: issuer + "/"}, "issuer"},
		{"an issuer with a user", provider.Options{Issuer: "http://a@127.0.0.1:9400"}, "issuer"},
		{"a negative lifetime", provider.Options{Issuer: issuer, CodeLifetime: -time.Second}, "negative"},
		{"a client without a name", provider.Options{Issuer: issuer, Clients: []provider.Client{{}}}, "client ID"},
		{"a client twice", provider.Options{Issuer: issuer, Clients: []provider.Client{{ID: "a"}, {ID: "a"}}}, "client ID"},
		{"a callback without a host", client(provider.Client{RedirectURIs: []string{"/callback"}}), "https URL"},
		{"a callback by http", client(provider.Client{RedirectURIs: []string{"http://shop.example/"}}), "https URL"},
		{"a callback of script", client(provider.Client{RedirectURIs: []string{"javascript:alert(1)"}}), "https URL"},
		{"a callback with a fragment", client(provider.Client{RedirectURIs: []string{shopCallback + "#x"}}), "https URL"},
		{"a page after logout by http", client(provider.Client{PostLogoutRedirectURIs: []string{"http://shop.example/"}}), "https URL"},
		{"a back channel by http", client(provider.Client{BackchannelLogoutURI: "http://shop.example/"}), "https URL"},
		{"a user without a password", users(provider.User{Username: "alice"}), "password"},
		{"a user without a name", users(provider.User{Password: "wonderland"}), "user name"},
		{"a user twice", users(alice, alice), "alice"},
		{"a subject twice", users(alice, provider.User{Subject: "alice", Username: "bob", Password: "b"}), "bob"},
	} {
		p, err := provider.New(tt.options)
		if err == nil {
			p.Close()
			t.Errorf("%s: no error", tt.name)
		} else if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want something about %s", tt.name, err, tt.want)
		}
	}
}
