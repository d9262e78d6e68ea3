package upstream

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	"authgate/gateway/headername"
	"authgate/gateway/headername/headernametest"
	"authgate/policy"
)

// ownNames are headers that the gateway sets on each request.
var ownNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id"}

// A value that is not valid in a header is not sent, not even in part.
func TestIdentityHeaderValues(t *testing.T) {
	t.Parallel()
	names := config.IdentityHeaders{User: "X-Auth-User", Name: "X-Auth-Name", Email: "X-Auth-Email", Roles: "X-Auth-Roles"}
	h := http.Header{}
	NewIdentityHeaders(names).Set(h, &policy.Identity{
		Username: "alice\r\nX-Auth-Roles: admin", Name: "Zoë", Email: "a\x00@example.org", Subject: "local:alice",
	})
	want := http.Header{"X-Auth-Name": {"Zoë"}}
	if !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("got %q, want %q", h, want)
	}
}

// Each kind of header, from a client and from a trusted proxy, on routes with and
// without headers.pass.
func TestAdmit(t *testing.T) {
	t.Parallel()
	identity := NewIdentityHeaders(config.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"})
	pass := map[string]bool{"X-Real-Ip": true, "Remote-User": true, "X_webauth_user": true, "X-Http-Method-Override": true}
	for _, c := range []struct {
		name                                 string
		client, proxy, clientPass, proxyPass bool
	}{
		{"Accept", true, true, true, true},
		{"X-Auth-Token", true, true, true, true},
		{"X-User-Id", true, true, true, true},
		{"X-Login", false, false, false, false},
		{"X-Mail-Address", false, false, false, false},
		{"X-Auth-User", false, false, false, false},
		{"X-Forwarded-For", false, false, false, false}, // the gateway sets it
		{"X-Request-Id", false, false, false, false},    // likewise
		{"X_request_id", false, false, false, false},
		{"True-Client-Ip", false, true, false, true},
		{"True_client_ip", false, false, false, false},
		{"X-Forwarded-Port", false, true, false, true},
		{"X-Real-Ip", false, true, true, true},
		{"X_real_ip", false, false, false, false},
		{"Remote-User", false, false, true, true},
		{"Remote!user", false, false, false, false},
		{"X_webauth_user", false, false, true, true},
		{"X-Webauth-User", false, false, false, false},
		{"X-Forwarded-User", false, false, false, false},
		{"X-Http-Method-Override", false, false, true, true},
		{"Proxy", false, false, false, false},
		{"Content-Type", true, true, true, true},
		{"Transfer_encoding", false, false, false, false},
		{"Content.length", false, false, false, false},
		{"Proxy_authorization", false, false, false, false},
	} {
		for _, each := range []struct {
			trusted bool
			pass    map[string]bool
			want    bool
		}{{false, nil, c.client}, {true, nil, c.proxy}, {false, pass, c.clientPass}, {true, pass, c.proxyPass}} {
			if _, kept := identity.Admit(http.Header{c.name: {"x"}}, each.trusted, each.pass)[c.name]; kept != each.want {
				t.Errorf("%s, trusted proxy %t, with headers.pass %t: kept %t, want %t", c.name, each.trusted, each.pass != nil, kept, each.want)
			}
		}
	}
}

// A client can send no header that carries an identity or is about clients, in
// any spelling, whatever names the upstream has for the identity.
func TestNoClientIdentity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names   config.IdentityHeaders
		renamed []string
	}{
		{config.IdentityHeaders{}, nil},
		{config.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"}, []string{"X-Login", "X.Mail_Address"}},
	} {
		identity := NewIdentityHeaders(c.names)
		for _, name := range slices.Concat(headername.DefaultIdentity, headernametest.AboutClients, headernametest.AboutUsers, ownNames, c.renamed) {
			for _, spelling := range headernametest.Spellings(name) {
				for _, written := range []string{spelling, http.CanonicalHeaderKey(spelling)} {
					if h := identity.Admit(http.Header{written: {"evil"}}, false, nil); len(h) > 0 {
						t.Errorf("%s is admitted", written)
					}
				}
			}
		}
	}
}

// Admit removes every forbidden header and changes no other.
func FuzzStrip(f *testing.F) {
	f.Add("X-Auth-User", "evil", false)
	f.Add("x_auth.user", "evil", true)
	f.Add("X!Auth!User", "evil", true)
	f.Add("X-Forwarded-For", "6.6.6.6", true)
	f.Add("X_Forwarded_For", "6.6.6.6", true)
	f.Add("X|Real^IP", "6.6.6.6", true)
	f.Add("remote.user", "evil", false)
	f.Add("Accept", "text/html", false)
	f.Add("X-Authority", "x", false)
	names := config.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"}
	identity := NewIdentityHeaders(names)
	forbidden := map[string]bool{}
	for _, name := range slices.Concat(headername.DefaultIdentity, []string{"X-Login", "X.Mail_Address"}, headernametest.AboutUsers, ownNames) {
		forbidden[headernametest.CGI(name)] = true
	}
	proxies := map[string]bool{}
	for _, name := range headernametest.AboutClients {
		proxies[headernametest.CGI(name)] = true
	}
	f.Fuzz(func(t *testing.T, name, value string, trusted bool) {
		if !httpguts.ValidHeaderFieldName(name) {
			return // servers refuse such a name
		}
		h := http.Header{"Accept": {"text/html", "*/*"}, "X-Auth-Roles": {"evil"}, "Cookie": {"a=b"}}
		h.Add(name, value)
		before := h.Clone()
		h = identity.Admit(h, trusted, nil)
		for each, values := range before {
			kept, seen := slices.Equal(h[each], values), headernametest.CGI(each)
			proper := http.CanonicalHeaderKey(strings.ReplaceAll(seen, "_", "-")) == each
			switch {
			case forbidden[seen], proxies[seen] && !(trusted && proper):
				if _, there := h[each]; there {
					t.Errorf("%q is kept", each)
				}
			case proxies[seen], headername.Of(headername.Fold(each)) == headername.Free:
				if !kept {
					t.Errorf("%q is %q, was %q", each, h[each], values)
				}
			}
		}
		if len(h) > len(before) {
			t.Errorf("headers appear: %v", h)
		}
	})
}

// browserHeaders are those of a browser's page load.
func browserHeaders() http.Header {
	return http.Header{
		"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, "Accept-Encoding": {"gzip, deflate, br, zstd"},
		"Accept-Language": {"en-GB,en;q=0.5"}, "Cookie": {"session_id=x; theme=dark"}, "User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"},
		"Sec-Fetch-Dest": {"document"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Site": {"none"}, "Sec-Fetch-User": {"?1"},
		"Upgrade-Insecure-Requests": {"1"}, "Te": {"trailers"}, "Priority": {"u=0, i"}, "X-Request-Id": {"abc"},
	}
}

func BenchmarkAdmit(b *testing.B) {
	h, identity := browserHeaders(), NewIdentityHeaders(config.IdentityHeaders{})
	b.ReportAllocs()
	for b.Loop() {
		if admitted := identity.Admit(h, false, nil); len(admitted) != len(h)-1 { // X-Request-Id is set anew
			b.Fatal(admitted)
		}
	}
}
