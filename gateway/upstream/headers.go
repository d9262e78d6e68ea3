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

// IdentityHeaders writes identities into requests to one upstream, and removes
// what clients wrote there. It is safe for concurrent use.
type IdentityHeaders struct {
	names  config.IdentityHeaders                // an empty name leaves a header out
	own    map[string]bool                       // configured names, folded, that no client may send
	ready  *lru.Cache[*policy.Identity, []field] // fields of recent identities
	filter *headername.Filter
}

// readyFields is how many identities have their fields cached.
const readyFields = 4096

// NewIdentityHeaders returns the headers of one upstream. It uses the last of
// names, and clients can send a header of none of them.
func NewIdentityHeaders(names ...config.IdentityHeaders) *IdentityHeaders {
	ready, err := lru.New[*policy.Identity, []field](readyFields)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	h := &IdentityHeaders{own: map[string]bool{}, ready: ready}
	for _, n := range names {
		for _, name := range []string{n.User, n.Subject, n.Name, n.Email, n.Roles, n.Mechanism, n.Provider} {
			if name != "" {
				h.own[headername.Fold(name)] = true
			}
		}
		h.names = n
	}
	h.filter = headername.NewFilter(slices.Collect(maps.Keys(h.own))...)
	return h
}

// same reports whether i and o treat every request alike.
func (i *IdentityHeaders) same(o *IdentityHeaders) bool {
	return i.names == o.names && maps.Equal(i.own, o.own)
}

// Strip removes from h the headers that the client may not send. pass has the
// headers that clients may send on this route, by their canonical names. A trusted
// proxy may also send headers about the client and the original request, but only
// in their usual spelling: proxies pass on other spellings unchanged.
func (i *IdentityHeaders) Strip(h http.Header, trusted bool, pass map[string]bool) {
	for name := range h {
		if i.filter.Finds(name) && i.refuses(name, trusted, pass) {
			delete(h, name)
		}
	}
}

func (i *IdentityHeaders) refuses(name string, trusted bool, pass map[string]bool) bool {
	folded := headername.Fold(name)
	if i.own[folded] {
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

// field is a header and its values.
type field struct {
	name  string // canonical
	value []string
}

// Set writes the identity into h. An identity serves many requests, so its fields
// are cached.
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

// fields returns the headers that carry id. It leaves out a value that is empty
// or not valid in a header.
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
