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
	"authgate/gateway/headername"
	"authgate/policy"
)

// identityHeaders carries the identity to one upstream and keeps clients from
// doing so.
type identityHeaders struct {
	names  config.IdentityHeaders // "" leaves one out
	spoof  map[string]bool        // configured names, folded, that no client may send
	ready  *lru.Cache[*policy.Identity, []field]
	filter *headername.Filter
}

// readyFields bounds the identities whose fields are kept.
const readyFields = 4096

func newIdentityHeaders(names ...config.IdentityHeaders) *identityHeaders {
	ready, err := lru.New[*policy.Identity, []field](readyFields)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	h := &identityHeaders{spoof: map[string]bool{}, ready: ready}
	for _, n := range names {
		for _, name := range []string{n.User, n.Subject, n.Name, n.Email, n.Roles, n.Mechanism, n.Provider} {
			if name != "" {
				h.spoof[headername.Fold(name)] = true
			}
		}
		h.names = n
	}
	h.filter = headername.NewFilter(slices.Collect(maps.Keys(h.spoof))...)
	return h
}

// same reports whether both do the same.
func (i *identityHeaders) same(o *identityHeaders) bool {
	return i.names == o.names && maps.Equal(i.spoof, o.spoof)
}

// foldAll is the set of the folded names.
func foldAll(names []string) map[string]bool {
	folded := make(map[string]bool, len(names))
	for _, name := range names {
		folded[headername.Fold(name)] = true
	}
	return folded
}

// canonicalAll is the set of the names as the headers of a request have them,
// without folding: each stays the one spelling that it is.
func canonicalAll(names []string) map[string]bool {
	canonical := make(map[string]bool, len(names))
	for _, name := range names {
		canonical[http.CanonicalHeaderKey(name)] = true
	}
	return canonical
}

// admit returns those headers of h that a client may send, with room for the
// gateway's. A trusted proxy may also send headers about the client and the
// original request, but in their proper spelling only: the proxy passes on
// other spellings without looking at them. The route lets the headers in pass
// through.
func (i *identityHeaders) admit(h http.Header, trusted bool, pass map[string]bool) http.Header {
	admitted := make(http.Header, len(h)+ownHeaders)
	for name, values := range h {
		if !i.filter.Finds(name) || !i.refuses(name, trusted, pass) {
			admitted[name] = values
		}
	}
	return admitted
}

// ownHeaders is about how many headers the gateway sets itself.
const ownHeaders = 12

func (i *identityHeaders) refuses(name string, trusted bool, pass map[string]bool) bool {
	folded := headername.Fold(name)
	if i.spoof[folded] {
		return true
	}
	switch headername.Of(folded) {
	case headername.Free:
		return false
	case headername.Framed:
		return folded != name
	case headername.Own:
		return true
	case headername.Forwarded:
		return !(trusted && folded == name) && !pass[name]
	}
	return !pass[name]
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
// and the Authorization header where that proved the identity. The cookies of
// the application get their own names back.
func stripCredentials(h http.Header, creds *auth.Credentials, names *auth.CookieNames, consumed bool) {
	if consumed {
		delete(h, "Authorization")
	}
	if creds.Cookies || creds.Renamed {
		setCookies(h, names.ToApplication(h["Cookie"], false))
	}
}

// keepCredentials leaves the gateway's cookies in h, and lets no cookie of the
// application take their names.
func keepCredentials(h http.Header, creds *auth.Credentials, names *auth.CookieNames) {
	if creds.Renamed {
		setCookies(h, names.ToApplication(h["Cookie"], true))
	}
}

func setCookies(h http.Header, lines []string) {
	if len(lines) > 0 {
		h["Cookie"] = lines
	} else {
		delete(h, "Cookie")
	}
}
