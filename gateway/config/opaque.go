package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"authgate/gateway/config/section"
	"authgate/policy"
)

// TakesWholeHost reports whether the route takes every request for its host, so that none is
// left for a wider pattern.
func (route *Route) TakesWholeHost() bool {
	method := strings.ContainsAny(route.Match, " \t")
	return !method && strings.IndexByte(route.Match, '/') == len(route.Match)-1
}

// checkOpaque checks that all routes of a host with opaque paths decide alike. Servers may
// read such a path in several ways, so it must not choose between two policies or upstreams.
// Routes without a host take no such path.
func checkOpaque(r *section.Report, routes []Route) {
	if !slices.ContainsFunc(routes, func(route Route) bool { return route.EncodedSlashes == EncodedSlashesOpaque }) {
		return
	}
	byHost, whole := map[string][]int{}, map[string]bool{}
	for i := range routes {
		route := &routes[i]
		host := policy.PatternHost(route.Match)
		byHost[host] = append(byHost[host], i)
		whole[host] = whole[host] || route.TakesWholeHost()
		if host == "" && route.EncodedSlashes == EncodedSlashesOpaque && strings.Contains(route.Match, "/") {
			r.Fault(fmt.Sprintf("routes[%d].encoded_slashes", i),
				"opaque is for all paths of a host; put the host before the path of match, as in wiki.example.org/")
		}
	}
	delete(byHost, "")
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		group := byHost[host]
		if _, parent, _ := strings.Cut(host, "."); host[0] != '*' && !whole[host] {
			group = slices.Concat(group, byHost["*."+parent]) // which gets what is left
		}
		checkAlike(r, routes, host, group)
	}
}

// checkAlike checks that all routes of a host agree if one of them takes opaque paths. group has
// their indexes.
func checkAlike(r *section.Report, routes []Route, host string, group []int) {
	first := slices.IndexFunc(group, func(i int) bool { return routes[i].EncodedSlashes == EncodedSlashesOpaque })
	if first < 0 {
		return
	}
	opaque := group[first]
	for _, i := range group {
		if key := routes[opaque].differs(&routes[i]); key != "" {
			r.Fault(fmt.Sprintf("routes[%d].encoded_slashes", opaque),
				"a path can be read as one of any route of its host, so all routes of %s must have the same "+
					"upstream, auth, policy and encoded_slashes, and routes[%d] (%q) has another %s; "+
					"make them alike, or give the application a host of its own", host, i, routes[i].Match, key)
			return
		}
	}
}

// differs returns a key in which two routes of a host with opaque paths must agree and do not,
// "" if there is none.
func (route *Route) differs(other *Route) string {
	mechanisms := func(r *Route) []policy.Mechanism { return slices.Sorted(slices.Values(r.Auth)) }
	switch {
	case route.Upstream != other.Upstream:
		return "upstream"
	case !slices.Equal(mechanisms(route), mechanisms(other)):
		return "auth"
	case len(route.Policy)+len(other.Policy) > 0 && !reflect.DeepEqual(route.Policy, other.Policy):
		return "policy"
	case route.EncodedSlashes != other.EncodedSlashes:
		return "encoded_slashes"
	}
	return ""
}
