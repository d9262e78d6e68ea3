package policy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// registry registers the patterns of routes in a ServeMux and explains why the
// ServeMux refuses one.
type registry struct {
	mux      *http.ServeMux
	routes   []Route
	patterns []string // by index of the route, as registered; empty if refused
}

// add registers the next route.
func (g *registry) add(e entry) error {
	g.patterns = append(g.patterns, "")
	pattern, err := canonicalPattern(e.route.Pattern)
	if err != nil {
		return err
	}
	if err := register(g.mux, pattern, e); err != nil {
		return g.explain(pattern, err)
	}
	g.patterns[e.index] = pattern
	return nil
}

// register adds a pattern to mux, which panics if it refuses one.
func register(mux *http.ServeMux, pattern string, e entry) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			panic(p)
		}
	}()
	mux.Handle(pattern, e)
	return nil
}

// explain returns why a pattern was refused. Messages of net/http name places in
// this source. So explain finds the conflicting pattern itself, and of other
// errors it keeps the cause.
func (g *registry) explain(pattern string, err error) error {
	for i, other := range g.patterns {
		if other == "" {
			continue
		}
		pair := http.NewServeMux()
		pair.Handle(other, entry{})
		if conflict := register(pair, pattern, entry{}); conflict != nil {
			if _, why, found := strings.Cut(conflict.Error(), "\n"); found {
				return fmt.Errorf("conflicts with %q of routes[%d]: %s", g.routes[i].Pattern, i, strings.ReplaceAll(why, "\n", " "))
			}
		}
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return err
}

// canonicalPattern returns the pattern of a route with its host in canonical
// form. It refuses a pattern that no canonical request can match.
func canonicalPattern(pattern string) (string, error) {
	method, rest := "", pattern
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		method, rest = pattern[:i], strings.TrimLeft(pattern[i:], " \t")
		if err := checkMethod(method); err != nil {
			return "", fmt.Errorf("the method %q %w", method, err)
		}
	}
	if method == http.MethodConnect {
		return "", errors.New("CONNECT is never forwarded")
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return "", errors.New("has no path; expected [METHOD ][HOST]/[PATH]")
	}
	host, path := rest[:slash], rest[slash:]
	if host != "" {
		name, port, err := splitPort(host)
		if err == nil && port != "" {
			return "", fmt.Errorf("the host has the port %q; hosts are compared without port, so remove it", port)
		}
		if err == nil {
			host, err = CanonicalHost(name)
		}
		if err != nil {
			return "", err
		}
	}
	if err := checkPatternPath(path); err != nil {
		return "", err
	}
	if method != "" {
		method += " "
	}
	return method + host + path, nil
}

// PatternHost returns the host of a pattern in canonical form. It returns "" if
// the pattern has no host or NewTable refuses it.
func PatternHost(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		pattern = strings.TrimLeft(pattern[i:], " \t")
	}
	name, _, found := strings.Cut(pattern, "/")
	if !found {
		return ""
	}
	host, err := CanonicalHost(name)
	if err != nil {
		return ""
	}
	return host
}

// checkPatternPath checks that ParseTarget accepts the paths that the pattern
// matches.
func checkPatternPath(path string) error {
	if end, found := strings.CutSuffix(path, "/{$}"); found {
		path = end + "/"
	}
	var example strings.Builder
	for segment := range strings.SplitSeq(path[1:], "/") {
		example.WriteByte('/')
		if strings.HasPrefix(segment, "{") { // a wildcard; net/http checks it
			example.WriteByte('x')
			continue
		}
		if strings.ContainsAny(segment, "?#") {
			return errors.New("a pattern has no query and no fragment; write %3F or %23 for the characters themselves")
		}
		literal, err := url.PathUnescape(segment)
		if err != nil {
			return errors.New("the path holds a malformed percent-encoding; write %25 for a percent sign")
		}
		example.WriteString(url.PathEscape(literal))
	}
	if _, err := decodePath(example.String()); err != nil {
		return fmt.Errorf("can never match: %w", err)
	}
	return nil
}
