package provider_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/upstream/provider"
)

func TestListen(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.9.8.7:0"} {
		listener, err := provider.Listen(addr)
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		defer listener.Close()
		if _, err := provider.Listen(listener.Addr().String()); err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
			t.Errorf("an address in use: %v", err)
		}
	}
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0", "localhost.example.org:0", "127.0.0.1.example.org:0", "*:0", "127.0.0.1"} {
		if listener, err := provider.Listen(addr); err == nil {
			t.Errorf("%q is listened on, at %s", addr, listener.Addr())
			listener.Close()
		}
	}
}

// The provider answers only on loopback, under one name.
func TestServeHTTPGuards(t *testing.T) {
	p := must(provider.New(provider.Options{Issuer: "http://127.0.0.1:9400"}))
	defer p.Close()
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 9400} }
	for _, tt := range []struct {
		name   string
		local  net.Addr
		host   string
		target string
		status int
	}{
		{"loopback", tcp("127.0.0.1"), "127.0.0.1:9400", "/", 200},
		{"loopback of IPv6", tcp("::1"), "127.0.0.1:9400", "/", 200},
		{"from the network", tcp("192.0.2.1"), "127.0.0.1:9400", "/", 403},
		{"no IP address", &net.UnixAddr{Name: "socket"}, "127.0.0.1:9400", "/", 403},
		{"unknown", nil, "127.0.0.1:9400", "/", 403},
		{"a name that was bound to loopback", tcp("127.0.0.1"), "evil.example:9400", "/", 421},
		{"another port", tcp("127.0.0.1"), "127.0.0.1", "/", 421},
		{"a long query", tcp("127.0.0.1"), "127.0.0.1:9400", "/authorize?state=" + strings.Repeat("x", 20<<10), 414},
	} {
		r := httptest.NewRequest("GET", tt.target, http.NoBody)
		r.Host = tt.host
		if tt.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.local))
		}
		recorder := httptest.NewRecorder()
		if p.ServeHTTP(recorder, r); recorder.Code != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, recorder.Code, tt.status)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	const issuer = "http://127.0.0.1:9400"
	from := func(issuer string) provider.Options { return provider.Options{Issuer: issuer} }
	clients := func(clients ...provider.Client) provider.Options {
		return provider.Options{Issuer: issuer, Clients: clients}
	}
	calledBack := func(uri string) provider.Options {
		return clients(provider.Client{ID: "shop", RedirectURIs: []string{uri}})
	}
	users := func(users ...provider.User) provider.Options { return provider.Options{Issuer: issuer, Users: users} }
	alice := provider.User{Username: "alice", Password: "wonderland"}
	for _, tt := range []struct {
		name    string
		options provider.Options
		want    string
	}{
		{"no issuer", from(""), "issuer"},
		{"an issuer elsewhere", from("http://id.example.org"), "issuer"},
		{"an issuer by https", from("https://127.0.0.1:9400"), "issuer"},
		{"an issuer with a path", from(issuer + "/"), "issuer"},
		{"an issuer with a user", from("http://a@127.0.0.1:9400"), "issuer"},
		{"a negative lifetime", provider.Options{Issuer: issuer, CodeLifetime: -1}, "negative"},
		{"a client without a name", clients(provider.Client{}), "client ID"},
		{"a client twice", clients(provider.Client{ID: "a"}, provider.Client{ID: "a"}), "client ID"},
		{"a callback without a host", calledBack("/callback"), "https URL"},
		{"a callback by http", calledBack("http://shop.example/"), "https URL"},
		{"a callback of script", calledBack("javascript:alert(1)"), "https URL"},
		{"a callback with a fragment", calledBack(shopCallback + "#x"), "https URL"},
		{"a page after logout by http", clients(provider.Client{ID: "a", PostLogoutRedirectURIs: []string{"http://shop.example/"}}), "https URL"},
		{"a back channel by http", clients(provider.Client{ID: "a", BackchannelLogoutURI: "http://shop.example/"}), "https URL"},
		{"a user without a password", users(provider.User{Username: "alice"}), "password"},
		{"a user without a name", users(provider.User{Password: "wonderland"}), "user name"},
		{"a user twice", users(alice, alice), "alice"},
		{"a subject twice", users(alice, provider.User{Subject: "alice", Username: "bob", Password: "b"}), "bob"},
	} {
		if _, err := provider.New(tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want something about %s", tt.name, err, tt.want)
		}
	}
}
