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
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.9.8.7:0"} {
		listener, err := provider.Listen(addr)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		listener.Close()
	}
	for _, addr := range []string{
		":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:0", "example.org:0", "localhost.example.org:0",
		"127.0.0.1.example.org:0", "127.1:0", "*:0", "127.0.0.1", "",
	} {
		if listener, err := provider.Listen(addr); err == nil {
			t.Errorf("%q is listened on, at %s", addr, listener.Addr())
			listener.Close()
		}
	}
	taken, err := provider.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := provider.Listen(taken.Addr().String()); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("an address in use: %v", err)
	}
}

// TestServeHTTPGuards: the provider answers only on loopback, under one name.
func TestServeHTTPGuards(t *testing.T) {
	t.Parallel()
	p, err := provider.New(provider.Options{Issuer: "http://127.0.0.1:9400"})
	if err != nil {
		t.Fatal(err)
	}
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
		{"from all networks", tcp("0.0.0.0"), "127.0.0.1:9400", "/", 403},
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
		p.ServeHTTP(recorder, r)
		if recorder.Code != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, recorder.Code, tt.status)
		}
	}
}
