package upstream

import (
	"slices"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/headername"
	"authgate/internal/test/headernametest"
	"authgate/policy"
)

// A value that is not valid in a header is not sent, not even in part.
func TestIdentityHeaderValues(t *testing.T) {
	t.Parallel()
	names := forwarding.IdentityHeaders{
		User: "X-Auth-User", Name: "X-Auth-Name", Email: "X-Auth-Email", Roles: "X-Auth-Roles",
	}
	got := NewIdentityHeaders(HeaderOptions{Names: names}).Fields(&policy.Identity{
		Username: "alice\r\nX-Auth-Roles: admin", Name: "Zoë", Email: "a\x00@example.org", Subject: "local:alice",
	})
	if want := []http1.Field{{Name: "X-Auth-Name", Value: "Zoë"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each kind of header, on routes with and without headers.pass.
func TestRefuses(t *testing.T) {
	t.Parallel()
	identity := NewIdentityHeaders(HeaderOptions{
		Names: forwarding.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"},
	})
	pass := map[string]bool{
		"X-Real-Ip": true, "Remote-User": true, "X_webauth_user": true, "X-Http-Method-Override": true,
		"X-Auth-User": true, "Forwarded": true,
	}
	for _, c := range []struct {
		passes, withPass bool
		names            []string
	}{
		{true, true, []string{"Accept", "X-Auth-Token", "X-User-Id", "Content-Type"}},
		// Those that the gateway sets, another spelling than the one that passes, and names that mean something in HTTP.
		{false, false, []string{
			"X-Login", "X-Mail-Address", "X-Auth-User", "X-Forwarded-For", "Forwarded", "X-Request-Id", "X_request_id",
			"True_client_ip", "X_real_ip", "Remote!user", "X-Webauth-User", "X-Forwarded-User",
			"Proxy", "Transfer_encoding", "Content.length", "Proxy_authorization",
			"True-Client-Ip", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Original-Url", "X-Rewrite-Url", "X-Script-Name",
			"Script_name", "Path-Info",
		}},
		{false, true, []string{"X-Real-Ip", "Remote-User", "X_webauth_user", "X-Http-Method-Override"}},
	} {
		for _, name := range c.names {
			if got := !identity.Refuses(name, nil); got != c.passes {
				t.Errorf("%s passes: %t, want %t", name, got, c.passes)
			}
			if got := !identity.Refuses(name, pass); got != c.withPass {
				t.Errorf("%s with headers.pass passes: %t, want %t", name, got, c.withPass)
			}
		}
	}
}

// Refuses finds every header that carries an identity, that is about clients or that
// the gateway sets, in any spelling and with any names the upstream has for the
// identity. It finds no other.
func FuzzRefuses(f *testing.F) {
	names := forwarding.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"}
	own := []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id"}
	forbidden := map[string]bool{}
	for _, name := range slices.Concat(headername.DefaultIdentity, headernametest.AboutUsers, own,
		[]string{names.User, names.Email}, headernametest.AboutClients) {
		forbidden[headernametest.CGI(name)] = true
		for _, spelling := range headernametest.Spellings(name) {
			f.Add(spelling)
		}
	}
	for _, name := range []string{"X-Forwarded-Port", "X_Forwarded_Port", "X|Real^IP", "Accept", "X-Authority"} {
		f.Add(name)
	}
	identity := NewIdentityHeaders(HeaderOptions{Names: names})
	f.Fuzz(func(t *testing.T, name string) {
		if !httpguts.ValidHeaderFieldName(name) {
			return // servers refuse such a name
		}
		for _, each := range []string{"Accept", "X-Auth-Roles", "Cookie", name} {
			refused := identity.Refuses(each, nil)
			switch {
			case forbidden[headernametest.CGI(each)]:
				if !refused {
					t.Errorf("%q passes", each)
				}
			case headername.Of(headername.Fold(each)) == headername.Free:
				if refused {
					t.Errorf("%q is refused", each)
				}
			}
		}
	})
}
