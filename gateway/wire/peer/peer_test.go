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
			"2001:db8:2::7", "https", "app.example:8443", "2001:db8:2::7, 10.0.0.1"},
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
			"198.51.100.1", "http", "gw.example", "unknown, 198.51.100.1, 10.0.0.1"},
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

// Address, scheme and host come from what one proxy wrote: the first from the right whose
// client is not a trusted proxy.
func TestPeerOneElement(t *testing.T) {
	t.Parallel()
	trusted := trusting(t, "10.0.0.0/8")
	for header, want := range map[string]string{
		// The inner proxy speaks of the outer one. The outer one speaks of the client.
		"Forwarded: for=203.0.113.9;proto=http, for=10.0.0.2;proto=https":                      "203.0.113.9 http gw.example",
		"Forwarded: for=203.0.113.9;proto=https, for=10.0.0.2;proto=http":                      "203.0.113.9 https gw.example",
		"Forwarded: for=203.0.113.9;host=a, for=10.0.0.2;host=internal":                        "203.0.113.9 http a",
		"Forwarded: for=203.0.113.9, for=10.0.0.2;proto=https;host=internal":                   "203.0.113.9 http gw.example",
		"Forwarded: for=203.0.113.9;proto=https|Forwarded: for=10.0.0.2;proto=http":            "203.0.113.9 https gw.example",
		"Forwarded: for=6.6.6.6;proto=https;host=evil, for=203.0.113.9;proto=http;host=a":      "203.0.113.9 http a",
		"Forwarded: for=6.6.6.6;proto=https, for=203.0.113.9;proto=http, for=10.0.0.2":         "203.0.113.9 http gw.example",
		"Forwarded: for=10.0.0.3;proto=https;host=a, for=10.0.0.2;proto=http;host=internal":    "10.0.0.3 https a",
		"Forwarded: for=6.6.6.6;proto=http, for=_x;proto=https;host=a, for=10.0.0.2":           "10.0.0.2 https a",
		`Forwarded: for=6.6.6.6;proto=http, for="_x:_80";proto=https, for="10.0.0.2:80"`:       "10.0.0.2 https gw.example",
		"Forwarded: for=6.6.6.6;proto=https, proto=http;host=a, for=10.0.0.2;proto=https":      "10.0.0.2 http a",
		`Forwarded: for="[2001:db8::7]:80";proto=https, for="10.0.0.2:_p";proto=http`:          "2001:db8::7 https gw.example",
		"Forwarded: for=2001:db8::7;proto=https;host=a:8443, for=10.0.0.2:80":                  "2001:db8::7 https a:8443",
		"X-Forwarded-For: 203.0.113.9|Forwarded: for=6.6.6.6;proto=https;host=a, for=10.0.0.2": "203.0.113.9 https a",

		// Quoted strings.
		`Forwarded: for=203.0.113.9;by="a,b";proto=https`:                         "203.0.113.9 https gw.example",
		`Forwarded: for=203.0.113.9;by="a;proto=http";proto=https`:                "203.0.113.9 https gw.example",
		`Forwarded: for=203.0.113.9;by="a\",for=6.6.6.6;\\";proto=https`:          "203.0.113.9 https gw.example",
		`Forwarded: by="a, for=6.6.6.6;proto=https", for="203.0.113.9";host="\a"`: "203.0.113.9 http a",
		// What is open on the left does not swallow what trusted proxies added.
		`Forwarded: for="6.6.6.6, for=203.0.113.9;by="x";proto=https, for="10.0.0.2"`: "203.0.113.9 https gw.example",
		`Forwarded: for="6.6.6.6\|Forwarded: for="203.0.113.9";proto=https`:           "203.0.113.9 https gw.example",
		`Forwarded: for=6.6.6.6;proto=https;by=", for=203.0.113.9;by="\"";proto=http`: "203.0.113.9 http gw.example",

		// An element that is malformed, or ambiguous, says nothing.
		"Forwarded: for=6.6.6.6, for=203.0.113.9;for=203.0.113.9;proto=https;host=a":    "10.0.0.1 http gw.example",
		"Forwarded: for=6.6.6.6, for=203.0.113.9;proto=https;Proto=http":                "10.0.0.1 http gw.example",
		"Forwarded: for=6.6.6.6, for=203.0.113.9;host=a;proto=https;host=a":             "10.0.0.1 http gw.example",
		`Forwarded: for=6.6.6.6, for=203.0.113.9;proto="https;host=a`:                   "10.0.0.1 http gw.example",
		`Forwarded: for=6.6.6.6, for="203.0.113.9"x;proto=https`:                        "10.0.0.1 http gw.example",
		"Forwarded: for=6.6.6.6, for = 203.0.113.9;proto=https":                         "10.0.0.1 http gw.example",
		"Forwarded: for=6.6.6.6, for=203.0.113.9 proto=https":                           "10.0.0.1 http gw.example",
		"Forwarded: for=6.6.6.6, for=203.0.113.9;proto":                                 "10.0.0.1 http gw.example",
		"Forwarded: for=6.6.6.6;proto=https, for=203.0.113.9;for=7.7.7.7, for=10.0.0.2": "10.0.0.2 http gw.example",

		// Lists as long as X-Forwarded-For name an element too.
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: http, https":   "203.0.113.9 http gw.example",
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: https, http":   "203.0.113.9 https gw.example",
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: wss, ws":       "203.0.113.9 https gw.example",
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Host: a, internal":    "203.0.113.9 http a",
		"X-Forwarded-For: 6.6.6.6, 203.0.113.9|X-Forwarded-Proto: https, http":    "203.0.113.9 http gw.example",
		"X-Forwarded-For: 6.6.6.6, unknown|X-Forwarded-Proto: http, https":        "10.0.0.1 https gw.example",
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: https":         "203.0.113.9 https gw.example",
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: http":          "203.0.113.9 http gw.example",
		"Forwarded: for=203.0.113.9, for=10.0.0.2|X-Forwarded-Proto: http, https": "203.0.113.9 http gw.example",
		// A client that makes another list longer gains no https.
		"X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: http, https":  "203.0.113.9 http gw.example",
		"X-Forwarded-For: 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: https, http, https":    "203.0.113.9 http gw.example",
		"X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2|X-Forwarded-Proto: https, https": "203.0.113.9 https gw.example",
		"X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2|X-Forwarded-Host: evil, a":       "203.0.113.9 http a",
	} {
		r := request(strings.Split(header, "|")...)
		r.RemoteAddr = "10.0.0.1:1"
		got := trusted.Read(r)
		if got := got.Client.String() + " " + got.Proto + " " + got.Host; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", header, got, want)
		}
	}
}

// The upstream gets the addresses of Forwarded as X-Forwarded-For has them: without ports,
// brackets and quotes.
func TestPeerChain(t *testing.T) {
	t.Parallel()
	trusted := trusting(t, "10.0.0.0/8")
	for header, want := range map[string]string{
		`for="[2001:db8::7]:4711"`:           "2001:db8::7, 10.0.0.1",
		`for="[2001:db8::7]:_port"`:          "2001:db8::7, 10.0.0.1",
		`for="203.0.113.9:4711"`:             "203.0.113.9, 10.0.0.1",
		"for=203.0.113.9:80, for=10.0.0.2:1": "203.0.113.9, 10.0.0.2, 10.0.0.1",
		`for="[::ffff:203.0.113.9]"`:         "203.0.113.9, 10.0.0.1",
		`for="_hidden:4711"`:                 "_hidden, 10.0.0.1",
		`for="unknown:_port"`:                "unknown, 10.0.0.1",
		"for=UNKNOWN":                        "unknown, 10.0.0.1",
		`for="<script>, 6.6.6.6"`:            "unknown, 10.0.0.1",
		"for=app.example":                    "unknown, 10.0.0.1",
		`for=""`:                             "unknown, 10.0.0.1",
	} {
		r := request("Forwarded: " + header)
		r.RemoteAddr = "10.0.0.1:1"
		if got := trusted.Read(r).Chain; got != want {
			t.Errorf("%s: %q, expected %q", header, got, want)
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

// Whatever a client writes, in one line or in several, what a trusted proxy adds decides.
func FuzzForwardedOfClient(f *testing.F) {
	for _, seed := range []string{"", `for="6.6.6.6`, `for="\`, `by=",`, `"`, `for=6.6.6.6;proto=https`, `,\"`} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	trusted := trusting(f, "10.0.0.0/8")
	const added = `for="203.0.113.9:80";by="a\",;b";proto=http;host=a, for=10.0.0.2;proto=https;host=internal`
	f.Fuzz(func(t *testing.T, own string, oneLine bool) {
		r := request("Forwarded: "+own, "Forwarded: "+added)
		if oneLine {
			r.Header["Forwarded"] = []string{own + ", " + added}
		}
		r.RemoteAddr = "10.0.0.1:1"
		if got := trusted.Read(r); got.Address != "203.0.113.9" || got.Proto != "http" || got.Host != "a" {
			t.Errorf("%q: %+v", own, got)
		}
	})
}

// The text of an address is the same in whatever form a proxy writes it.
func TestPeerAddress(t *testing.T) {
	t.Parallel()
	trusted := trusting(t, "10.0.0.0/8")
	for written, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", " 192.0.2.7 ": "192.0.2.7", "192.0.2.7:80": "192.0.2.7", "[192.0.2.7]:80": "192.0.2.7",
		"[192.0.2.7]": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7",
		"2001:DB8:0::7": "2001:db8::7", "[2001:db8::7%eth0]:80": "2001:db8::7", "2001:db8::7%eth0": "2001:db8::7",
		"192.0.2.07": "10.0.0.1", "hidden": "10.0.0.1",
	} {
		r := request("X-Forwarded-For: " + written)
		r.RemoteAddr = "10.0.0.1:1"
		if got := trusted.Read(r); got.Address != want || got.Client.String() != want {
			t.Errorf("%q: %q, %s, want %s", written, got.Address, got.Client, want)
		}
	}
}

// Reading a peer that one proxy describes makes its chain alone.
func TestPeerMemory(t *testing.T) {
	r := request("X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: app.example")
	r.RemoteAddr = "10.0.0.1:1"
	trusted := trusting(t, "10.0.0.0/8")
	if n := testing.AllocsPerRun(100, func() { trusted.Read(r) }); n > 1 {
		t.Errorf("%v allocations, want the chain alone", n)
	}
}
