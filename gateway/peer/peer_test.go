package peer

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/policy"
)

// request makes a request as a server would hand it over, with header lines
// like "X-Forwarded-Proto: https".
func request(header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "gw.example"
	r.RemoteAddr = "192.0.2.7:4711"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func trusting(t testing.TB, networks ...string) Proxies {
	t.Helper()
	var all Proxies
	for _, n := range networks {
		p, err := policy.ParseNetwork(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestPeer(t *testing.T) {
	t.Parallel()
	trusted := trusting(t, "10.0.0.0/8", "192.0.2.1", "2001:db8:1::/48", "::ffff:172.16.0.0/108")
	for _, c := range []struct {
		name   string
		remote string
		header []string
		client string
		proto  string
		host   string
		chain  string
	}{
		{"a direct connection", "203.0.113.9:1", nil, "203.0.113.9", "http", "gw.example", "203.0.113.9"},
		{"not trusted", "203.0.113.9:1", []string{
			"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example",
			"Forwarded: for=198.51.100.1;proto=https;host=evil.example",
		}, "203.0.113.9", "http", "gw.example", "203.0.113.9"},
		{"beside a trusted network", "11.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.1"},
			"11.0.0.1", "http", "gw.example", "11.0.0.1"},
		{"trusted, without headers", "10.0.0.1:1", nil, "10.0.0.1", "http", "gw.example", "10.0.0.1"},
		{"trusted", "10.0.0.1:1",
			[]string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: app.example:8443"},
			"198.51.100.1", "https", "app.example:8443", "198.51.100.1, 10.0.0.1"},
		{"a mapped connection", "[::ffff:10.0.0.1]:1", []string{"X-Forwarded-For: 198.51.100.1"},
			"198.51.100.1", "http", "gw.example", "198.51.100.1, 10.0.0.1"},
		{"a mapped network", "172.16.3.4:1", []string{"X-Forwarded-For: 198.51.100.1"},
			"198.51.100.1", "http", "gw.example", "198.51.100.1, 172.16.3.4"},
		{"IPv6", "[2001:db8:1::5]:1", []string{"X-Forwarded-For: 2001:db8:2::7"},
			"2001:db8:2::7", "http", "gw.example", "2001:db8:2::7, 2001:db8:1::5"},
		{"a zone", "[2001:db8:1::5%eth0]:1", []string{"X-Forwarded-For: fe80::1%eth0"},
			"fe80::1", "http", "gw.example", "fe80::1%eth0, 2001:db8:1::5"},

		{"brackets", "10.0.0.1:1", []string{"X-Forwarded-For: [2001:db8:2::7]"},
			"2001:db8:2::7", "http", "gw.example", "[2001:db8:2::7], 10.0.0.1"},
		{"a mapped client", "10.0.0.1:1", []string{"X-Forwarded-For: ::ffff:198.51.100.1"},
			"198.51.100.1", "http", "gw.example", "::ffff:198.51.100.1, 10.0.0.1"},
		{"ports and brackets", "10.0.0.1:1", []string{"X-Forwarded-For: [2001:db8:2::7]:4711"},
			"2001:db8:2::7", "http", "gw.example", "[2001:db8:2::7]:4711, 10.0.0.1"},

		// Read from the right, up to the first address that is not trusted.
		{"many hops", "10.0.0.1:1", []string{"X-Forwarded-For: 6.6.6.6, 198.51.100.1, 10.0.0.3, 10.0.0.2"},
			"198.51.100.1", "http", "gw.example", "6.6.6.6, 198.51.100.1, 10.0.0.3, 10.0.0.2, 10.0.0.1"},
		{"a trusted address on the left", "10.0.0.1:1", []string{"X-Forwarded-For: 10.0.0.9, 198.51.100.1"},
			"198.51.100.1", "http", "gw.example", "10.0.0.9, 198.51.100.1, 10.0.0.1"},
		{"several lines", "10.0.0.1:1", []string{"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 198.51.100.1, 10.0.0.2"},
			"198.51.100.1", "http", "gw.example", "6.6.6.6, 198.51.100.1, 10.0.0.2, 10.0.0.1"},
		{"all trusted", "10.0.0.1:1", []string{"X-Forwarded-For: 10.0.0.3, 10.0.0.2"},
			"10.0.0.3", "http", "gw.example", "10.0.0.3, 10.0.0.2, 10.0.0.1"},
		{"spaces and holes", "10.0.0.1:1", []string{"X-Forwarded-For: , 198.51.100.1 ,,10.0.0.2,"},
			"198.51.100.1", "http", "gw.example", "198.51.100.1, 10.0.0.2, 10.0.0.1"},
		{"unknown", "10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.1, unknown"},
			"10.0.0.1", "http", "gw.example", "198.51.100.1, unknown, 10.0.0.1"},
		{"garbage behind a trusted hop", "10.0.0.1:1", []string{"X-Forwarded-For: 6.6.6.6, <script>, 10.0.0.2"},
			"10.0.0.2", "http", "gw.example", "6.6.6.6, <script>, 10.0.0.2, 10.0.0.1"},

		// The last scheme and host are those that the trusted proxy wrote.
		{"several values", "10.0.0.1:1",
			[]string{"X-Forwarded-Proto: https, http", "X-Forwarded-Host: evil.example, app.example"},
			"10.0.0.1", "http", "app.example", "10.0.0.1"},
		{
			"a WebSocket over TLS", "10.0.0.1:1", []string{"X-Forwarded-Proto: wss"},
			"10.0.0.1", "https", "gw.example", "10.0.0.1",
		},
		{
			"a WebSocket over TLS, Forwarded", "10.0.0.1:1", []string{"Forwarded: proto=WSS"},
			"10.0.0.1", "https", "gw.example", "unknown, 10.0.0.1",
		},
		{"a WebSocket", "10.0.0.1:1", []string{"X-Forwarded-Proto: ws"}, "10.0.0.1", "http", "gw.example", "10.0.0.1"},
		{"another scheme", "10.0.0.1:1", []string{"X-Forwarded-Proto: wsss"}, "10.0.0.1", "http", "gw.example", "10.0.0.1"},

		// RFC 7239.
		{"Forwarded", "10.0.0.1:1", []string{`Forwarded: for=198.51.100.1;proto=https;host=app.example;by=10.0.0.1`},
			"198.51.100.1", "https", "app.example", "198.51.100.1, 10.0.0.1"},
		{"Forwarded, quoted", "10.0.0.1:1",
			[]string{`Forwarded: For="[2001:db8:2::7]:4711" ; Proto="HTTPS" ; HOST="app.example:8443"`},
			"2001:db8:2::7", "https", "app.example:8443", "[2001:db8:2::7]:4711, 10.0.0.1"},
		{"Forwarded, hidden", "10.0.0.1:1", []string{`Forwarded: for=198.51.100.1, for=_hidden`},
			"10.0.0.1", "http", "gw.example", "198.51.100.1, _hidden, 10.0.0.1"},
		{"Forwarded, unknown", "10.0.0.1:1", []string{`Forwarded: for=198.51.100.1, for="unknown"`},
			"10.0.0.1", "http", "gw.example", "198.51.100.1, unknown, 10.0.0.1"},
		{"Forwarded, many", "10.0.0.1:1", []string{`Forwarded: for=6.6.6.6, for=198.51.100.1`, `Forwarded: for=10.0.0.2`},
			"198.51.100.1", "http", "gw.example", "6.6.6.6, 198.51.100.1, 10.0.0.2, 10.0.0.1"},
		{"Forwarded, an element of the client", "10.0.0.1:1",
			[]string{`Forwarded: proto=https;host=evil.example, for=198.51.100.1`},
			"198.51.100.1", "http", "gw.example", "unknown, 198.51.100.1, 10.0.0.1"},
		{"Forwarded, without an address", "10.0.0.1:1", []string{`Forwarded: for=6.6.6.6, proto=https`},
			"10.0.0.1", "https", "gw.example", "6.6.6.6, unknown, 10.0.0.1"},
		{"Forwarded, for twice", "10.0.0.1:1", []string{`Forwarded: for=6.6.6.6, for=10.0.0.2;for=198.51.100.1`},
			"10.0.0.1", "http", "gw.example", "6.6.6.6, unknown, 10.0.0.1"},
		{"Forwarded, an open quote", "10.0.0.1:1", []string{`Forwarded: for="6.6.6.6, for=198.51.100.1`},
			"198.51.100.1", "http", "gw.example", "6.6.6.6, 198.51.100.1, 10.0.0.1"},
		{"Forwarded, empty", "10.0.0.1:1", []string{`Forwarded: `, `Forwarded: ,`},
			"10.0.0.1", "http", "gw.example", "10.0.0.1"},
		{"both", "10.0.0.1:1", []string{
			`Forwarded: for=6.6.6.6;proto=http;host=evil.example`, "X-Forwarded-For: 198.51.100.1",
			"X-Forwarded-Proto: https", "X-Forwarded-Host: app.example",
		}, "198.51.100.1", "https", "app.example", "198.51.100.1, 10.0.0.1"},
	} {
		r := request(c.header...)
		r.RemoteAddr = c.remote
		got := trusted.Read(r)
		client := got.Client.String()
		if client != c.client || got.Proto != c.proto || got.Host != c.host || got.Chain != c.chain {
			t.Errorf("%s:\ngot  %q %q %q %q\nwant %q %q %q %q",
				c.name, client, got.Proto, got.Host, got.Chain, c.client, c.proto, c.host, c.chain)
		}
		if want := strings.HasPrefix(c.remote, "10.") || trusted.Contains(ParseAddr(c.remote)); got.Trusted != want {
			t.Errorf("%s: trusted is %t", c.name, got.Trusted)
		}
	}
}

func TestPeerProto(t *testing.T) {
	t.Parallel()
	r := request()
	r.TLS = &tls.ConnectionState{}
	if got := (Proxies)(nil).Read(r); got.Proto != "https" {
		t.Errorf("over TLS the scheme is %q", got.Proto)
	}
}

// The headers of a peer that is not trusted change nothing.
func FuzzPeerUntrusted(f *testing.F) {
	f.Add("203.0.113.9:1", "X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.1;proto=https;host=evil.example")
	f.Add("[2001:db8::1]:1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example")
	f.Add("10.0.0.1:1", "x_forwarded_for", "127.0.0.1", "X-Real-Ip", "127.0.0.1")
	f.Add("@", "X-Forwarded-For", "10.0.0.1", "Forwarded", `for="`)
	trusted := trusting(f, "10.0.0.0/8", "2001:db8:1::/48")
	f.Fuzz(func(t *testing.T, remote, name1, value1, name2, value2 string) {
		r := request()
		r.RemoteAddr = remote
		plain := trusted.Read(r)
		r.Header.Add(name1, value1)
		r.Header.Add(name2, value2)
		got := trusted.Read(r)
		if !plain.Trusted && got != plain {
			t.Errorf("the headers of %s change %+v to %+v", remote, plain, got)
		}
		// Those of a trusted peer change values, but not their form.
		if got.Proto != "http" && got.Proto != "https" {
			t.Errorf("the scheme is %q", got.Proto)
		}
		if got.Client.Is4In6() || got.Client.Zone() != "" {
			t.Errorf("the client is %v", got.Client)
		}
		if got.Trusted != trusted.Contains(ParseAddr(remote)) {
			t.Errorf("%s is trusted: %t", remote, got.Trusted)
		}
	})
}
