package gateway

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/policy"
)

// identityHeaders carries the identity to one upstream and keeps clients from
// doing so.
type identityHeaders struct {
	names config.IdentityHeaders // canonical, "" leaves one out
	spoof map[string]bool        // names, folded, that a client may not send
}

// defaultIdentityHeaders are refused from clients even where they were given
// other names: an upstream that knows them might still read them.
var defaultIdentityHeaders = []string{
	"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email",
	"X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider",
}

// forwardedPrefix and proxyHeaders tell of clients and original requests;
// only trusted proxies may send them.
const forwardedPrefix = "X-Forwarded-"

var proxyHeaders = map[string]bool{
	"Forwarded": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Rewrite-Url": true,
	"X-Original-Url": true, "X-Original-Uri": true, "X-Original-Host": true,
}

func newIdentityHeaders(names ...config.IdentityHeaders) *identityHeaders {
	h := &identityHeaders{spoof: map[string]bool{}}
	for _, name := range defaultIdentityHeaders {
		h.spoof[name] = true
	}
	for _, n := range names {
		for _, name := range []string{n.User, n.Subject, n.Name, n.Email, n.Roles, n.Mechanism, n.Provider} {
			h.spoof[fold(name)] = true
		}
		h.names = n
	}
	return h
}

// fold gives all spellings that an upstream could take for one name the same
// form: CGI and WSGI make "_" of "-", and some frameworks of "." as well. It
// is the canonical form, which the header names of a request mostly have.
func fold(name string) string {
	if strings.ContainsAny(name, "_.") {
		name = strings.NewReplacer("_", "-", ".", "-").Replace(name)
	}
	return http.CanonicalHeaderKey(name)
}

// strip removes from h what a client must not say. Of a trusted proxy the
// headers about the original request stay, but not in another spelling: that
// one came through the proxy and was never looked at.
func (i *identityHeaders) strip(h http.Header, trusted bool) {
	for name := range h {
		folded := fold(name)
		believed := trusted && folded == name
		if i.spoof[folded] || (!believed && (proxyHeaders[folded] || strings.HasPrefix(folded, forwardedPrefix))) {
			delete(h, name)
		}
	}
}

// set writes the identity into h. A value that is empty or no valid header
// value is left out.
func (i *identityHeaders) set(h http.Header, id *policy.Identity) {
	setValid(h, i.names.User, id.Username)
	setValid(h, i.names.Subject, id.Subject)
	setValid(h, i.names.Name, id.Name)
	setValid(h, i.names.Email, id.Email)
	setValid(h, i.names.Roles, strings.Join(id.Roles, ","))
	setValid(h, i.names.Mechanism, string(id.Mechanism))
	setValid(h, i.names.Provider, id.Provider)
}

func setValid(h http.Header, name, value string) {
	if name != "" && value != "" && httpguts.ValidHeaderFieldValue(value) {
		h.Set(name, value)
	}
}

// stripCredentials removes from h what the gateway consumed: its cookies,
// and the Authorization header where that proved the identity.
func stripCredentials(h http.Header, creds *auth.Credentials, names *auth.CookieNames, consumed bool) {
	if consumed {
		h.Del("Authorization")
	}
	if !creds.Cookies {
		return
	}
	if kept := names.WithoutCookies(h["Cookie"]); len(kept) > 0 {
		h["Cookie"] = kept
	} else {
		h.Del("Cookie")
	}
}
