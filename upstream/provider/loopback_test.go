package provider_test

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/upstream/provider"
)

func TestListen(t *testing.T) {
	listener := must(provider.Listen("localhost:0"))
	defer listener.Close()
	for _, addr := range []string{":0", "0.0.0.0:0", "192.0.2.1:0", "localhost.example.org:0", "127.0.0.1", listener.Addr().String()} {
		if another, err := provider.Listen(addr); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Listen(%q) = %v, %v", addr, another, err)
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
	type clients = []provider.Client
	type users = []provider.User
	const issuer, insecure = "http://127.0.0.1:9400", "http://shop.example/"
	for want, all := range map[string][]provider.Options{
		"issuer":       {{Issuer: "http://id.example.org"}, {Issuer: "https://127.0.0.1:9400"}, {Issuer: issuer + "/"}},
		"negative":     {{CodeLifetime: -1}},
		"client ID":    {{Clients: clients{{}}}, {Clients: clients{{ID: "a"}, {ID: "a"}}}},
		"password":     {{Users: users{{Username: "alice"}}}},
		"user name":    {{Users: users{{Password: "wonderland"}}}},
		"two users":    {{Users: users{{Subject: "1", Username: "a", Password: "a"}, {Subject: "2", Username: "a", Password: "a"}}}},
		"subject of b": {{Users: users{{Username: "a", Password: "a"}, {Subject: "a", Username: "b", Password: "b"}}}},
		"https URL": {
			{Clients: clients{{ID: "a", RedirectURIs: []string{"https:///callback"}}}},
			{Clients: clients{{ID: "a", RedirectURIs: []string{insecure}}}},
			{Clients: clients{{ID: "a", RedirectURIs: []string{"ftp://127.0.0.1/"}}}},
			{Clients: clients{{ID: "a", RedirectURIs: []string{shopCallback + "#x"}}}},
			{Clients: clients{{ID: "a", PostLogoutRedirectURIs: []string{insecure}}}},
			{Clients: clients{{ID: "a", BackchannelLogoutURI: insecure}}},
		},
	} {
		for _, o := range all {
			o.Issuer = cmp.Or(o.Issuer, issuer)
			if _, err := provider.New(o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want something about %s", o, err, want)
			}
		}
	}
}
