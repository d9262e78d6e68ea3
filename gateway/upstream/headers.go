package upstream

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	"authgate/gateway/headername"
	"authgate/gateway/lru"
	"authgate/gateway/upstream/http1"
	"authgate/policy"
)

// IdentityHeaders writes identities into requests to one upstream, and removes
// what clients wrote there. It is safe for concurrent use.
type IdentityHeaders struct {
	names  config.IdentityHeaders                      // an empty name leaves a header out
	sent   []string                                    // names, canonical
	own    map[string]bool                             // configured names, folded, that no client may send
	ready  *lru.Cache[*policy.Identity, []http1.Field] // fields of recent identities
	filter *headername.Filter
}

// readyFields is how many identities have their fields cached.
const readyFields = 4096

// NewIdentityHeaders returns the headers of one upstream. It uses the last of
// names, and clients can send a header of none of them.
func NewIdentityHeaders(names ...config.IdentityHeaders) *IdentityHeaders {
	h := &IdentityHeaders{own: map[string]bool{}, ready: lru.New[*policy.Identity, []http1.Field](readyFields)}
	for _, n := range names {
		for _, name := range []string{n.User, n.Subject, n.Name, n.Email, n.Roles, n.Mechanism, n.Provider} {
			if name != "" {
				h.own[headername.Fold(name)] = true
			}
		}
		h.names = n
	}
	for _, f := range h.values(&policy.Identity{}) {
		if f.Name != "" {
			h.sent = append(h.sent, http.CanonicalHeaderKey(f.Name))
		}
	}
	h.filter = headername.NewFilter(slices.Collect(maps.Keys(h.own))...)
	return h
}

// same reports whether i and o treat every request alike.
func (i *IdentityHeaders) same(o *IdentityHeaders) bool {
	return i.names == o.names && maps.Equal(i.own, o.own)
}

// Refuses reports whether the client may not send a header, not even through a
// trusted proxy, which may pass on what its own client sent. pass has the headers
// that clients may send on this route, by their canonical names.
func (i *IdentityHeaders) Refuses(name string, pass map[string]bool) bool {
	return i.filter.Finds(name) && i.refuses(name, pass)
}

func (i *IdentityHeaders) refuses(name string, pass map[string]bool) bool {
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
	}
	return !pass[name]
}

// Fields returns the headers that carry an identity, with canonical names. The
// caller must not change them: an identity serves many requests.
func (i *IdentityHeaders) Fields(id *policy.Identity) []http1.Field {
	fields, ok := i.ready.Get(id)
	if !ok {
		fields = i.fields(id)
		i.ready.Add(id, fields)
	}
	return fields
}

// fields returns the headers that carry id, by name. It leaves out a value that is
// empty or not valid in a header.
func (i *IdentityHeaders) fields(id *policy.Identity) []http1.Field {
	var fields []http1.Field
	for _, f := range i.values(id) {
		if f.Name != "" && f.Value != "" && httpguts.ValidHeaderFieldValue(f.Value) {
			f.Name = http.CanonicalHeaderKey(f.Name)
			fields = append(fields, f)
		}
	}
	slices.SortFunc(fields, http1.ByName)
	return fields
}

// SetAll writes the identity into h, which is the header of a response. It also
// sets the headers that have no value, so that a proxy which copies them to a
// request overwrites what the client sent. id may be nil.
func (i *IdentityHeaders) SetAll(h http.Header, id *policy.Identity) {
	values := make([]string, len(i.sent)) // one allocation for all
	for n, name := range i.sent {
		h[name] = values[n : n+1 : n+1]
	}
	if id != nil {
		for _, f := range i.Fields(id) {
			h[f.Name][0] = f.Value
		}
	}
}

// CheckImitation returns an error if an application may read a header in h as one of
// the identity headers, although it is not spelled as SetAll spells it.
func (i *IdentityHeaders) CheckImitation(h http.Header) error {
	for name := range h {
		if i.filter.Finds(name) && i.own[headername.Fold(name)] && !slices.Contains(i.sent, name) {
			return fmt.Errorf("the header %s can be read as %s", name, headername.Fold(name))
		}
	}
	return nil
}

// values returns what each header says of id, under its name as configured.
func (i *IdentityHeaders) values(id *policy.Identity) []http1.Field {
	return []http1.Field{
		{Name: i.names.User, Value: id.Username},
		{Name: i.names.Subject, Value: id.Subject},
		{Name: i.names.Name, Value: id.Name},
		{Name: i.names.Email, Value: id.Email},
		{Name: i.names.Roles, Value: strings.Join(id.Roles, ",")},
		{Name: i.names.Mechanism, Value: string(id.Mechanism)},
		{Name: i.names.Provider, Value: id.Provider},
	}
}
