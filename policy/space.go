package policy

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Space has requests, and claims of users, of each kind that the policies of some routes can tell apart.
// Each list has at least one entry.
type Space struct {
	Calls   []Call
	Clients []netip.Addr
	Claims  []map[string]any
}

// Call is a method of HTTP, and the message of a POST. The zero Message is one that no list of MCP refuses.
type Call struct {
	Method  string
	Message Message
}

// maxClaims bounds Space.Claims.
const maxClaims = 1 << 14

// NewSpace returns the space of routes, of which some may be nil. Without claims, it has no claims of users.
func NewSpace(claims bool, routes ...*Route) (*Space, error) {
	var rules []*rule
	methods := []string{""}
	s := &Space{Clients: []netip.Addr{netip.IPv4Unspecified()}, Claims: []map[string]any{nil}}
	for _, r := range routes {
		if r == nil || r.Policy == nil {
			continue
		}
		known, clients := r.possibleRequests()
		if _, _, single := strings.Cut(r.Pattern, " "); single && len(methods) == 1 && methods[0] == "" {
			methods = nil // the pattern matches no other ones
		}
		methods, s.Clients = append(methods, known...), append(s.Clients, clients...)
		r.Policy.walk(map[*Policy]bool{}, func(r *rule) { rules = append(rules, r) })
	}
	var err, errCalls error
	if claims {
		s.Claims, err = possibleClaims(rules)
	}
	s.Calls, errCalls = possibleCalls(rules, methods)
	s.Clients = distinct(rules, s.Clients, func(r *rule, client netip.Addr) bool {
		return r.key == networksKey && r.holds(nil, &Request{Client: client})
	})
	return s, cmp.Or(err, errCalls)
}

// possibleCalls returns requests of some methods that rules can tell apart. If messages matter, the first one is
// a POST whose message no list refuses.
func possibleCalls(rules []*rule, methods []string) (calls []Call, err error) {
	looks := slices.ContainsFunc(rules, (*rule).aboutMessage) && slices.Contains(methods, http.MethodPost)
	if looks {
		calls = []Call{{Method: http.MethodPost}}
	}
	for _, method := range methods {
		calls = append(calls, Call{Method: method})
	}
	if looks {
		messages, err := possibleMessages(rules)
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			calls = append(calls, Call{http.MethodPost, *message})
		}
	}
	return distinct(rules, calls, func(r *rule, call Call) bool {
		return (r.key == methodsKey || r.aboutMessage()) &&
			r.holds(nil, &Request{Method: call.Method, Message: &call.Message})
	}), nil
}

// possibleClaims returns the claims of users that rules can tell apart: for each claim, none of its values,
// each of them, and several.
func possibleClaims(rules []*rule) ([]map[string]any, error) {
	type value struct{ claim, text string }
	var values []value
	for _, r := range rules {
		if r.claim != "" {
			for _, text := range r.values {
				values = append(values, value{r.claim, text})
			}
		}
	}
	values = distinct(rules, values, func(r *rule, v value) bool {
		return r.claim == v.claim && slices.Contains(r.values, v.text)
	})
	all := []map[string]any{{}}
	for _, v := range values {
		if len(all) > maxClaims/2 {
			return nil, errors.New("its policy tells too many claims apart")
		}
		for _, without := range all {
			with := maps.Clone(without)
			list, _ := with[v.claim].([]any)
			with[v.claim] = append(slices.Clone(list), v.text)
			all = append(all, with)
		}
	}
	return all, nil
}

// distinct returns one of all values for which the same rules hold.
func distinct[R, T any](rules []R, values []T, holds func(R, T) bool) (kept []T) {
	seen := map[string]bool{}
	for _, v := range values {
		by := make([]byte, len(rules))
		for i, r := range rules {
			if holds(r, v) {
				by[i] = 1
			}
		}
		if !seen[string(by)] {
			seen[string(by)] = true
			kept = append(kept, v)
		}
	}
	return kept
}
