package upstream

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/store/lru"
	"authgate/gateway/wire/headername"
	"authgate/policy"
)

// IdentityHeaders writes identities into requests to one upstream, and removes
// the values of clients there. It is safe for concurrent use.
type IdentityHeaders struct {
	names     forwarding.IdentityHeaders // an empty name leaves a header out
	roles     map[string]string          // their names in the application
	assertion *Assertion                 // nil: none
	now       func() time.Time           // of the assertion
	sent      []string                   // names, canonical, in the order of Fields
	own       map[string]bool            // configured names, folded, that no client may send
	token     string                     // of them the header with a token for the gateway, folded; empty: none
	ready     *lru.Cache[*policy.Identity, *readyFields]
	filter    *headername.Filter
	logger    *slog.Logger
}

// readyFields are the fields of a recent identity, until they are due to be made anew.
type readyFields struct {
	fields []http1.Field
	due    time.Time // zero: never
}

// cachedFields is how many identities have their fields cached.
const cachedFields = 4096

// HeaderOptions tell how identities look to one upstream.
type HeaderOptions struct {
	Names     forwarding.IdentityHeaders
	Others    forwarding.IdentityHeaders // of the top level: no client may send these here either
	Roles     map[string]string          // their names in the application; others pass under their own name
	Assertion *Assertion                 // nil: none
	Token     string                     // the header with a token for the gateway; empty: none
	Logger    *slog.Logger
}

// NewIdentityHeaders returns the headers of one upstream.
func NewIdentityHeaders(o HeaderOptions) *IdentityHeaders {
	h := &IdentityHeaders{
		names: o.Names, roles: o.Roles, assertion: o.Assertion, own: map[string]bool{}, logger: o.Logger,
		ready: lru.New[*policy.Identity, *readyFields](cachedFields),
	}
	for _, n := range [...]forwarding.IdentityHeaders{o.Others, o.Names} {
		for _, name := range []string{n.User, n.Subject, n.Name, n.Email, n.Roles, n.Mechanism, n.Provider, n.Actor} {
			if name != "" {
				h.own[headername.Fold(name)] = true
			}
		}
		for name := range n.Claims {
			h.own[headername.Fold(name)] = true
		}
	}
	for _, name := range headername.DefaultIdentity { // an application may still believe them
		h.own[name] = true
	}
	if o.Token != "" {
		h.token = headername.Fold(o.Token)
		h.own[h.token] = true
	}
	if o.Assertion != nil {
		h.now = o.Assertion.Now
		h.own[headername.Fold(o.Assertion.Header)] = true
		h.sent = append(h.sent, http.CanonicalHeaderKey(o.Assertion.Header))
	}
	for _, f := range h.values(&policy.Identity{}) {
		if f.Name != "" {
			h.sent = append(h.sent, http.CanonicalHeaderKey(f.Name))
		}
	}
	for name := range o.Names.Claims {
		h.sent = append(h.sent, http.CanonicalHeaderKey(name))
	}
	slices.Sort(h.sent)
	h.filter = headername.NewFilter(slices.Collect(maps.Keys(h.own))...)
	return h
}

// same reports whether i and o treat every request alike.
func (i *IdentityHeaders) same(o *IdentityHeaders) bool {
	return reflect.DeepEqual(i.names, o.names) && i.token == o.token && maps.Equal(i.own, o.own) &&
		maps.Equal(i.roles, o.roles) && i.assertion.same(o.assertion)
}

// Refuses reports whether the client may not send a header, not even through a
// trusted proxy, which may pass on a header of its own client. pass has the
// headers that clients may send on this route, by their canonical names.
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
	ready, ok := i.ready.Get(id)
	if !ok || !ready.due.IsZero() && !i.now().Before(ready.due) {
		ready = i.make(id)
		i.ready.Add(id, ready)
	}
	return ready.fields
}

// make returns the headers that carry id, by name. It leaves out a value that is
// empty or not valid in a header.
func (i *IdentityHeaders) make(id *policy.Identity) *readyFields {
	ready := &readyFields{}
	add := func(name, value string) {
		if name != "" && value != "" && httpguts.ValidHeaderFieldValue(value) {
			ready.fields = append(ready.fields, http1.Field{Name: http.CanonicalHeaderKey(name), Value: value})
		}
	}
	for _, f := range i.values(id) {
		add(f.Name, f.Value)
	}
	for name, path := range i.names.Claims {
		value, err := claimValue(id, path)
		if err != nil { // once for an identity
			i.logger.Debug("a claim is left out: it cannot be written in a header",
				"header", name, "claim", path, "subject", id.Subject, "error", err.Error())
		}
		add(name, value)
	}
	if i.assertion != nil {
		token, due, err := i.assertion.sign(id, i.rolesOf(id))
		if err != nil { // the application refuses the request; the next one tries again
			i.logger.Error("an identity is not signed, so the application does not get it in that header",
				"header", i.assertion.Header, "subject", id.Subject, "error", err.Error())
			due = i.now()
		}
		add(i.assertion.Header, token)
		ready.due = due
	}
	slices.SortFunc(ready.fields, http1.ByName)
	return ready
}

// rolesOf returns the roles of an identity by the names that the application has for them, each
// once.
func (i *IdentityHeaders) rolesOf(id *policy.Identity) []string {
	if len(i.roles) == 0 {
		return id.Roles
	}
	var roles []string
	for _, role := range id.Roles {
		if name, ok := i.roles[role]; ok {
			role = name
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// SetAll writes the identity into h, which is the header of a response. It also
// sets the headers that have no value, so that a proxy which copies them to a
// request overwrites those of the client. id may be nil.
func (i *IdentityHeaders) SetAll(h http.Header, id *policy.Identity) {
	var fields []http1.Field
	if id != nil {
		fields = i.Fields(id)
	}
	values := make([]string, len(i.sent)) // one allocation for all
	for n, name := range i.sent {
		if len(fields) > 0 && fields[0].Name == name {
			values[n], fields = fields[0].Value, fields[1:]
		}
		h[name] = values[n : n+1 : n+1]
	}
}

// CheckImitation returns an error if an application may read a header in h as one of
// the identity headers, although it is not spelled as SetAll spells it.
func (i *IdentityHeaders) CheckImitation(h http.Header) error {
	for name := range h {
		if !i.filter.Finds(name) {
			continue
		}
		if folded := headername.Fold(name); i.own[folded] && folded != i.token && !slices.Contains(i.sent, name) {
			return fmt.Errorf("the header %s can be read as %s", name, folded)
		}
	}
	return nil
}

// values returns the value of each header for id, under its name as configured.
func (i *IdentityHeaders) values(id *policy.Identity) []http1.Field {
	return []http1.Field{
		{Name: i.names.User, Value: id.Username},
		{Name: i.names.Subject, Value: id.Subject},
		{Name: i.names.Name, Value: id.Name},
		{Name: i.names.Email, Value: id.Email},
		{Name: i.names.Roles, Value: strings.Join(i.rolesOf(id), ",")},
		{Name: i.names.Mechanism, Value: string(id.Mechanism)},
		{Name: i.names.Provider, Value: id.Provider},
		{Name: i.names.Actor, Value: id.Actor},
	}
}
