package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/policy"
)

// identityHeaders carries the identity to one upstream and keeps clients from
// doing so.
type identityHeaders struct {
	names config.IdentityHeaders // "" leaves one out
	spoof map[string]bool        // names, folded, that no client may send
	ready *lru.Cache[*policy.Identity, []field]

	// suspect are the first bytes of names that clients may not send: what
	// begins otherwise, as most does, needs no closer look.
	suspect [256]bool
}

// readyFields bounds the identities whose fields are kept.
const readyFields = 4096

// defaultIdentityHeaders are refused from clients even where they were given
// other names: an upstream that knows them might still read them.
var defaultIdentityHeaders = []string{
	"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email",
	"X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider",
}

// misleadingHeaders make some applications take a request for one of another
// method than the one that was decided on, or, under CGI, send their own
// requests through a proxy of the client's.
var misleadingHeaders = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Proxy"}

// forwardedPrefix and proxyHeaders tell of clients and original requests;
// only trusted proxies may send them.
const forwardedPrefix = "X-Forwarded-"

var proxyHeaders = map[string]bool{
	"Forwarded": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Rewrite-Url": true,
	"X-Original-Url": true, "X-Original-Uri": true, "X-Original-Host": true,
}

func newIdentityHeaders(names ...config.IdentityHeaders) *identityHeaders {
	ready, err := lru.New[*policy.Identity, []field](readyFields)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	h := &identityHeaders{spoof: map[string]bool{}, ready: ready}
	for _, name := range slices.Concat(defaultIdentityHeaders, misleadingHeaders) {
		h.spoof[name] = true
	}
	for _, n := range names {
		for _, name := range []string{n.User, n.Subject, n.Name, n.Email, n.Roles, n.Mechanism, n.Provider} {
			h.spoof[fold(name)] = true
		}
		h.names = n
	}
	for c := range h.suspect {
		letter := 'a' <= c|lowerBit && c|lowerBit <= 'z'
		h.suspect[c] = !letter || byte(c)&^lowerBit == forwardedPrefix[0]
	}
	for _, names := range []map[string]bool{h.spoof, proxyHeaders} {
		for name := range names {
			if name != "" {
				h.suspect[name[0]&^lowerBit], h.suspect[name[0]|lowerBit] = true, true
			}
		}
	}
	return h
}

// lowerBit tells a lower-case letter of ASCII from its capital.
const lowerBit = 'a' - 'A'

// same reports whether both do the same.
func (i *identityHeaders) same(o *identityHeaders) bool {
	return i.names == o.names && maps.Equal(i.spoof, o.spoof)
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

// foldAll is the set of the folded names.
func foldAll(names []string) map[string]bool {
	folded := make(map[string]bool, len(names))
	for _, name := range names {
		folded[fold(name)] = true
	}
	return folded
}

// admit returns those headers of h that a client may send, with room for the
// gateway's. Of a trusted proxy the headers about the original request stay,
// but not in another spelling: that one came through the proxy and was never
// looked at.
func (i *identityHeaders) admit(h http.Header, trusted bool) http.Header {
	admitted := make(http.Header, len(h)+ownHeaders)
	for name, values := range h {
		if name == "" || !i.suspect[name[0]] || !i.refuses(name, trusted) {
			admitted[name] = values
		}
	}
	return admitted
}

// ownHeaders is about how many headers the gateway sets itself.
const ownHeaders = 12

func (i *identityHeaders) refuses(name string, trusted bool) bool {
	folded := fold(name)
	believed := trusted && folded == name
	return i.spoof[folded] || (!believed && (proxyHeaders[folded] || strings.HasPrefix(folded, forwardedPrefix)))
}

// field is a header that is ready to be sent.
type field struct {
	name  string // canonical
	value []string
}

// set writes the identity into h. Identities are made once and used for many
// requests, and so are their fields.
func (i *identityHeaders) set(h http.Header, id *policy.Identity) {
	fields, ok := i.ready.Get(id)
	if !ok {
		fields = i.fields(id)
		i.ready.Add(id, fields)
	}
	for _, f := range fields {
		h[f.name] = f.value
	}
}

// fields are the headers that carry id. A value that is empty or no valid
// header value is left out.
func (i *identityHeaders) fields(id *policy.Identity) []field {
	var fields []field
	for _, f := range []struct{ name, value string }{
		{i.names.User, id.Username},
		{i.names.Subject, id.Subject},
		{i.names.Name, id.Name},
		{i.names.Email, id.Email},
		{i.names.Roles, strings.Join(id.Roles, ",")},
		{i.names.Mechanism, string(id.Mechanism)},
		{i.names.Provider, id.Provider},
	} {
		if f.name != "" && f.value != "" && httpguts.ValidHeaderFieldValue(f.value) {
			fields = append(fields, field{http.CanonicalHeaderKey(f.name), []string{f.value}})
		}
	}
	return fields
}

func setValid(h http.Header, name, value string) {
	if value != "" && httpguts.ValidHeaderFieldValue(value) {
		h[name] = []string{value}
	}
}

// stripCredentials removes from h what the gateway consumed: its cookies,
// and the Authorization header where that proved the identity.
func stripCredentials(h http.Header, creds *auth.Credentials, names *auth.CookieNames, consumed bool) {
	if consumed {
		delete(h, "Authorization")
	}
	if !creds.Cookies {
		return
	}
	if kept := names.WithoutCookies(h["Cookie"]); len(kept) > 0 {
		h["Cookie"] = kept
	} else {
		delete(h, "Cookie")
	}
}
