package policy

import (
	"net/netip"
	"strings"
)

// Closed returns why the policy of a route holds for no request with credentials of those kinds: the
// rule in the way, and its need. It is empty if the policy can hold. Which roles and names there are
// is not looked at.
func (r *Route) Closed(kinds []Kind) string {
	if r.Policy == nil || len(kinds) == 0 {
		return ""
	}
	methods, clients := r.possibleRequests()
	failed := r.closedTo(kinds, methods, netip.Addr{})
	if failed == nil {
		for _, client := range clients {
			if failed = r.closedTo(kinds, methods, client); failed == nil {
				return ""
			}
		}
	}
	return failed.where + ": " + failed.need
}

// closedTo returns the rule that is in the way of all requests from a client with such credentials, nil if
// one can be let in. The zero Addr is any client.
func (r *Route) closedTo(kinds []Kind, methods []string, client netip.Addr) (first *rule) {
	known := func(kind *Kind, req *Request) func(*rule) verdict {
		judge := withoutIdentity(kind, req)
		return func(r *rule) verdict {
			if r.key == networksKey && !client.IsValid() {
				return open
			}
			return judge(r)
		}
	}
	for _, method := range methods {
		req := &Request{Method: method, Client: client, Message: &Message{}}
		for i := range kinds {
			failed, v := r.Policy.judge(known(&kinds[i], req))
			if v != unmet {
				return nil
			}
			if first == nil {
				first = failed
			}
		}
	}
	return first
}

// possibleRequests returns the methods of requests of the route, and addresses of clients, of each kind
// that its policy can tell apart.
func (r *Route) possibleRequests() (methods []string, clients []netip.Addr) {
	methods, clients = []string{""}, []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	r.Policy.walk(map[*Policy]bool{}, func(rule *rule) {
		switch rule.key {
		case methodsKey:
			methods = append(methods, rule.values...)
		case messageKey + "methods", messageKey + "tools", messageKey + "prompts", messageKey + "resources":
			methods = append(methods, "POST")
		case networksKey:
			for _, text := range rule.values {
				network, _ := parseNetwork(text) // passed checkNetwork
				clients = append(clients, network.Addr())
				if next := afterLast(network); next.IsValid() {
					clients = append(clients, next)
				}
			}
		}
	})
	if method, _, found := strings.Cut(r.Pattern, " "); found {
		methods = []string{method}
		if method == "GET" {
			methods = append(methods, "HEAD")
		}
	}
	return methods, clients
}

// afterLast returns the address after the last one of a network. It is not valid if there is none.
func afterLast(network netip.Prefix) netip.Addr {
	last := network.Addr().AsSlice()
	for i := network.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(last)
	return addr.Next()
}
