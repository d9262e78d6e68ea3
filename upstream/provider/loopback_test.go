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
		listener := must(provider.Listen(addr))
		defer listener.Close()
		if _, err := provider.Listen(listener.Addr().String()); err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
			t.Errorf("an address in use: %v", err)
		}
	}
	for _, addr := range []string{":0", "0.0.0.0:0", "192.0.2.1:0", "localhost.example.org:0", "127.0.0.1"} {
		if listener, err := provider.Listen(addr); err == nil {
			t.Errorf("%q is listened on, at %s", addr, listener.Addr())
			listener.Close()
		}
	}
}

// The provider answers only on loopback, under one name.
func TestServeHTTPGuards(t *testing.T) {
	const host = "127.0.0.1:9400"
	p := must(provider.New(provider.Options{Issuer: "http://" + host}))
	defer p.Close()
	loopback := &net.TCPAddr{IP: net.IPv6loopback}
	for _, tt := range []struct {
		name, host, target string
		local              net.Addr
		status             int
	}{
		{"loopback", host, "/", loopback, 200},
		{"from the network", host, "/", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, 403},
		{"no IP address", host, "/", &net.UnixAddr{Name: "socket"}, 403},
		{"unknown", host, "/", nil, 403},
		{"a name that was bound to loopback", "evil.example:9400", "/", loopback, 421},
		{"a long query", host, "/authorize?state=" + strings.Repeat("x", 20<<10), loopback, 414},
	} {
		r := httptest.NewRequest("GET", tt.target, http.NoBody)
		r.Host = tt.host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.local))
		recorder := httptest.NewRecorder()
		if p.ServeHTTP(recorder, r); recorder.Code != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, recorder.Code, tt.status)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	type (
		options = provider.Options
		clients = []provider.Client
		users   = []provider.User
	)
	const issuer = "http://127.0.0.1:9400"
	callback := func(uri string) options {
		return options{Issuer: issuer, Clients: clients{{ID: "shop", RedirectURIs: []string{uri}}}}
	}
	for _, tt := range []struct {
		name    string
		options options
		want    string
	}{
		{"an issuer elsewhere", options{Issuer: "http://id.example.org"}, "issuer"},
		{"an issuer by https", options{Issuer: "https://127.0.0.1:9400"}, "issuer"},
		{"an issuer with a path", options{Issuer: issuer + "/"}, "issuer"},
		{"a negative lifetime", options{Issuer: issuer, CodeLifetime: -1}, "negative"},
		{"a client without a name", options{Issuer: issuer, Clients: clients{{}}}, "client ID"},
		{"a client twice", options{Issuer: issuer, Clients: clients{{ID: "a"}, {ID: "a"}}}, "client ID"},
		{"a callback without a host", callback("https:///callback"), "https URL"},
		{"a callback by http", callback("http://shop.example/"), "https URL"},
		{"a callback of another scheme", callback("ftp://127.0.0.1/"), "https URL"},
		{"a callback with a fragment", callback(shopCallback + "#x"), "https URL"},
		{"a page after logout by http", options{Issuer: issuer, Clients: clients{{ID: "a", PostLogoutRedirectURIs: []string{"http://shop.example/"}}}}, "https URL"},
		{"a back channel by http", options{Issuer: issuer, Clients: clients{{ID: "a", BackchannelLogoutURI: "http://shop.example/"}}}, "https URL"},
		{"a user without a password", options{Issuer: issuer, Users: users{{Username: "alice"}}}, "password"},
		{"a user without a name", options{Issuer: issuer, Users: users{{Password: "wonderland"}}}, "user name"},
		{"a user twice", options{Issuer: issuer, Users: users{{Username: "alice", Password: "a"}, {Subject: "2", Username: "alice", Password: "a"}}}, "alice"},
		{"a subject twice", options{Issuer: issuer, Users: users{{Username: "alice", Password: "a"}, {Subject: "alice", Username: "bob", Password: "b"}}}, "bob"},
	} {
		if _, err := provider.New(tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want something about %s", tt.name, err, tt.want)
		}
	}
}
