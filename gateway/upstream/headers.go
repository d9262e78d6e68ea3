package upstream

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	"authgate/gateway/headername"
	"authgate/policy"
)

// IdentityHeaders carries the identity to one upstream and keeps clients from
// doing so.
type IdentityHeaders struct {
	names  config.IdentityHeaders // "" leaves one out
	spoof  map[string]bool        // configured names, folded, that no client may send
	ready  *lru.Cache[*policy.Identity, []field]
	filter *headername.Filter
}

// readyFields bounds the identities whose fields are kept.
const readyFields = 4096

// NewIdentityHeaders returns the headers of one upstream. The last names are
// those that it gets; clients can send none of them.
func NewIdentityHeaders(names ...config.IdentityHeaders) *IdentityHeaders {
	ready, err := lru.New[*policy.Identity, []field](readyFields)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	h := &IdentityHeaders{spoof: map[string]bool{}, ready: ready}
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
func (i *IdentityHeaders) same(o *IdentityHeaders) bool {
	return i.names == o.names && maps.Equal(i.spoof, o.spoof)
}

// Admit returns those headers of h that a client may send, with room for the
// gateway's. A trusted proxy may also send headers about the client and the
// original request, but in their proper spelling only: the proxy passes on
// other spellings without looking at them. The route lets the headers in pass
// through.
func (i *IdentityHeaders) Admit(h http.Header, trusted bool, pass map[string]bool) http.Header {
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

func (i *IdentityHeaders) refuses(name string, trusted bool, pass map[string]bool) bool {
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

// Set writes the identity into h. Identities are made once and used for many
// requests, and so are their fields.
func (i *IdentityHeaders) Set(h http.Header, id *policy.Identity) {
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
func (i *IdentityHeaders) fields(id *policy.Identity) []field {
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
