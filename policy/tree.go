package policy

import (
	"net/http"
	"strings"
)

// hosts are the patterns of a table by host. Those without a host have the host
// "", and those of a wildcard host the text after its "*": ".example.org".
type hosts map[string]methods

// methods are the patterns of a host by method. Those without a method have the
// method "".
type methods map[string]*node

// node is a place in the paths of the patterns that have one host and one method.
type node struct {
	literals map[string]*node // after one more segment
	wild     *node            // after any one more segment

	here *Match // of the pattern that ends here, without a slash
	end  *Match // of the pattern that ends in a slash and {$}
	rest *Match // of the pattern that matches a slash and all that follows
}

// add adds a pattern, which must not conflict with another.
func (h hosts) add(p *pattern, m *Match) {
	host := strings.TrimPrefix(p.host, "*")
	byMethod := h[host]
	if byMethod == nil {
		byMethod = methods{}
		h[host] = byMethod
	}
	if byMethod[p.method] == nil {
		byMethod[p.method] = &node{}
	}
	byMethod[p.method].add(p.segments, m)
}

func (n *node) add(segments []segment, m *Match) {
	for _, s := range segments {
		switch s.kind {
		case literal:
			next := n.literals[s.text]
			if next == nil {
				next = &node{}
				if n.literals == nil {
					n.literals = map[string]*node{}
				}
				n.literals[s.text] = next
			}
			n = next
		case wild:
			if n.wild == nil {
				n.wild = &node{}
			}
			n = n.wild
		case end:
			n.end = m
			return
		default:
			n.rest = m
			return
		}
	}
	n.here = m
}

// of returns the patterns that can match a host, the most specific host first.
// It is the one place that decides which hosts of patterns match that of a
// request.
func (h hosts) of(host string) [3]methods {
	if host == "" {
		return [3]methods{h[""]}
	}
	found := [3]methods{h[host], nil, h[""]}
	if dot := strings.IndexByte(host, '.'); dot > 0 {
		found[1] = h[host[dot:]]
	}
	return found
}

// findMatch returns the most specific pattern for a path, or for the path with a slash at its end. A pattern
// with a host wins over one with a wildcard for it, that over one without a host, and then one with a method
// over one without. exact is false if a pattern matches only because it matches everything below it.
func (h hosts) findMatch(host, method, path string, slash bool) (m *Match, exact bool) {
	for _, byMethod := range h.of(host) {
		if byMethod == nil {
			continue
		}
		if m, exact = byMethod[method].findBelow(path, slash); m != nil {
			return m, exact
		}
		if method == http.MethodHead {
			if m, exact = byMethod[http.MethodGet].findBelow(path, slash); m != nil {
				return m, exact
			}
		}
		if m, exact = byMethod[""].findBelow(path, slash); m != nil {
			return m, exact
		}
	}
	return nil, false
}

// findBelow is findMatch for the rest of the path after n. At each segment a
// literal wins over a wildcard, and a wildcard over the rest. This finds the
// most specific pattern, because a table has no two that overlap otherwise.
func (n *node) findBelow(path string, slash bool) (m *Match, exact bool) {
	switch {
	case n == nil:
		return nil, false
	case path == "" && !slash:
		return n.here, true
	case path == "" || path == "/":
		if n.end != nil {
			return n.end, true
		}
		return n.rest, true
	}
	segment, left := path[1:], ""
	if i := strings.IndexByte(segment, '/'); i >= 0 {
		segment, left = segment[:i], segment[i:]
	}
	if m, exact := n.literals[segment].findBelow(left, slash); m != nil {
		return m, exact
	}
	if m, exact := n.wild.findBelow(left, slash); m != nil {
		return m, exact
	}
	return n.rest, false
}

// isClean reports whether a path begins with a slash and has neither dot segments
// nor, unless it is opaque, empty segments.
func isClean(path string, opaque bool) bool {
	if path == "" || path[0] != '/' || !opaque && strings.Contains(path, "//") {
		return false
	}
	return !hasDotSegment(path)
}
